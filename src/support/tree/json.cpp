#include "support/tree/json.h"

#include <algorithm>
#include <cmath>

#include "heddle/support/error.h"

namespace heddle {
namespace {

std::int32_t index_of(const Json& name, const std::vector<FeatureNames>& features) {
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (features[i].name == name.as_string()) return static_cast<std::int32_t>(i);
  }
  throw_user_error("there is no feature '" + name.as_string() + "'");
}

std::int32_t index(const Json& json, const char* key) {
  const std::int64_t value = json.at(key).as_int();
  if (value >= 0 && value <= INT32_MAX) return static_cast<std::int32_t>(value);
  throw_user_error(std::string("'") + key + "' is " + std::to_string(value));
}

TreeNode read_node(const Json& json, const std::vector<FeatureNames>& features) {
  TreeNode node;
  if (json.contains("leaf")) {
    node.yes = index(json, "leaf");
    return node;
  }
  node.feature = index_of(json.at("feature"), features);
  const FeatureNames& feature = features[static_cast<std::size_t>(node.feature)];
  if (feature.values.empty()) {
    node.at_most = json.at("at_most").as_double();
    if (!std::isfinite(node.at_most)) throw_user_error("'at_most' is no finite number");
  } else {
    node.one_of = set_from_json(json.at("one_of"), feature);
    if (node.one_of == 0) throw_user_error("'one_of' names no value");
  }
  node.yes = index(json, "yes");
  node.no = index(json, "no");
  return node;
}

}  // namespace

Json set_to_json(std::uint64_t set, const FeatureNames& feature) {
  Json names = Json::array();
  for (std::size_t i = 0; i < feature.values.size(); ++i) {
    if (((set >> i) & 1U) != 0) names.push_back(feature.values[i]);
  }
  return names;
}

std::uint64_t set_from_json(const Json& names, const FeatureNames& feature) {
  std::uint64_t set = 0;
  for (const Json& name : names.elements()) {
    const auto at = std::find(feature.values.begin(), feature.values.end(), name.as_string());
    if (at == feature.values.end())
      throw_user_error("feature '" + feature.name + "' has no value '" + name.as_string() + "'");
    set |= std::uint64_t{1} << (at - feature.values.begin());
  }
  return set;
}

Json tree_to_json(std::span<const TreeNode> nodes, const std::vector<FeatureNames>& features) {
  Json list = Json::array();
  for (const TreeNode& node : nodes) {
    if (node.feature < 0) {
      list.push_back(Json::object({{"leaf", node.yes}}));
      continue;
    }
    const FeatureNames& feature = features[static_cast<std::size_t>(node.feature)];
    Json json = Json::object({{"feature", feature.name}});
    if (feature.values.empty()) {
      json["at_most"] = node.at_most;
    } else {
      json["one_of"] = set_to_json(node.one_of, feature);
    }
    json["yes"] = node.yes;
    json["no"] = node.no;
    list.push_back(std::move(json));
  }
  return list;
}

std::vector<TreeNode> tree_from_json(const Json& nodes, const std::vector<FeatureNames>& features,
                                     std::size_t answers) {
  std::vector<TreeNode> tree;
  for (const Json& json : nodes.elements()) {
    try {
      tree.push_back(read_node(json, features));
    } catch (const Error& e) {
      throw_user_error("nodes[" + std::to_string(tree.size()) + "]: " + e.message);
    }
  }
  check_tree(tree, features.size(), answers);
  return tree;
}

}  // namespace heddle
