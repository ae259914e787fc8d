// A decision tree as text: each question with its answer yes, and with its answer no, and what
// follows below, indented.
#pragma once

#include <span>
#include <string>

#include "heddle/support/decision_tree.h"
#include "heddle/support/function_ref.h"

namespace heddle {

/// `question`: a line for each answer, such as "rows <= 64" and "rows > 64". `answer`: the line of a
/// leaf. Each line begins with `indent`.
std::string outline(std::span<const TreeNode> nodes,
                    FunctionRef<std::string(const TreeNode& node, bool yes)> question,
                    FunctionRef<std::string(std::int32_t answer)> answer,
                    const std::string& indent = "", std::int32_t root = 0);

}  // namespace heddle
