// A tree's answer in words: the path to the leaf, what the leaf knows, and why it is unsure.
#pragma once

#include <span>
#include <string>

#include "heddle/support/decision_tree.h"

namespace heddle {

/// Several lines, each with its newline.
std::string explain_answer(const TreeTable& tree, std::span<const double> features);

/// One line for a table, such as "tree leaf 3 of 9 (41 problems): 1.02 of the best".
std::string describe_answer(const TreeTable& tree, const TreeAnswer& answer);

/// The whole tree, indented.
std::string tree_outline(const TreeTable& tree);

}  // namespace heddle
