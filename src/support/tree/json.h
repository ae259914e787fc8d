// Decision trees as JSON: a list of nodes, of which node 0 is the root.
//
//   [{"feature": "rows", "at_most": 64, "yes": 1, "no": 2}, {"leaf": 0},
//    {"feature": "layout", "one_of": ["nhwc"], "yes": 3, "no": 4}, {"leaf": 1}, {"leaf": 2}]
#pragma once

#include <string>
#include <vector>

#include "heddle/support/decision_tree.h"
#include "heddle/support/json.h"

namespace heddle {

/// The name of a feature, and those of the values of a categorical one.
struct FeatureNames {
  std::string name;
  std::vector<std::string> values = {};
};

Json tree_to_json(std::span<const TreeNode> nodes, const std::vector<FeatureNames>& features);

/// Reads such a list. The leaves give answers below `answers`. Throws a User error that names the
/// node for everything that check_tree refuses, and for names that are not known.
std::vector<TreeNode> tree_from_json(const Json& nodes, const std::vector<FeatureNames>& features,
                                     std::size_t answers);

/// A set of values as the list of their names, and back.
Json set_to_json(std::uint64_t set, const FeatureNames& feature);
std::uint64_t set_from_json(const Json& names, const FeatureNames& feature);

}  // namespace heddle
