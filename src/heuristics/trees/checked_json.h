// Parts of the JSON of trees, which are checked as they are read. All functions throw a User error for what does not fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/support/decision_tree.h"
#include "heddle/support/json.h"

namespace heddle::learning {

inline constexpr double kLargest = 1e300;

/// Throws with a message such as "nodes[3]: ...".
[[noreturn]] void refuse(const std::string& part, std::size_t index, const std::string& why);

/// A number, an integer from `least` to `most`.
double number(const Json& json, const char* key, double least, double most);
std::int64_t integer(const Json& json, const char* key, std::int64_t least, std::int64_t most);

/// A list of so many elements.
const std::vector<Json>& list(const Json& json, const char* key, std::size_t least,
                              std::size_t most);

/// Each leaf belongs to one node.
void check_leaves(const std::vector<TreeNode>& nodes, std::size_t leaves);

}  // namespace heddle::learning
