#include "heuristics/trees/checked_json.h"

#include <algorithm>

#include "heddle/support/error.h"

namespace heddle::learning {

void refuse(const std::string& part, std::size_t index, const std::string& why) {
  throw_user_error(part + "[" + std::to_string(index) + "]: " + why);
}

double number(const Json& json, const char* key, double least, double most) {
  const double value = json.at(key).as_double();
  if (value >= least && value <= most) return value;  // false for NaN
  throw_user_error(std::string("'") + key + "' is " + Json(value).dump() + ", not in " +
                   Json(least).dump() + ".." + Json(most).dump());
}

std::int64_t integer(const Json& json, const char* key, std::int64_t least, std::int64_t most) {
  const std::int64_t value = json.at(key).as_int();
  if (value >= least && value <= most) return value;
  throw_user_error(std::string("'") + key + "' is " + std::to_string(value) + ", not in " +
                   std::to_string(least) + ".." + std::to_string(most));
}

const std::vector<Json>& list(const Json& json, const char* key, std::size_t least,
                              std::size_t most) {
  const std::vector<Json>& elements = json.at(key).elements();
  if (elements.size() >= least && elements.size() <= most) return elements;
  throw_user_error(std::string("there are ") + std::to_string(elements.size()) + " " + key +
                   ", not " + std::to_string(least) + " to " + std::to_string(most));
}

void check_leaves(const std::vector<TreeNode>& nodes, std::size_t leaves) {
  std::vector<bool> used(leaves, false);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].feature >= 0) continue;
    const auto leaf = static_cast<std::size_t>(nodes[i].yes);
    if (used[leaf]) refuse("nodes", i, "leaf " + std::to_string(leaf) + " is there twice");
    used[leaf] = true;
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused != used.end())
    refuse("leaves", static_cast<std::size_t>(unused - used.begin()), "no node is this leaf");
}

}  // namespace heddle::learning
