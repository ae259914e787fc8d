// The JSON of trees of shares.
#include <algorithm>
#include <cmath>
#include <utility>

#include "heddle/support/error.h"
#include "heuristics/certify/share_tree.h"
#include "heuristics/names.h"
#include "heuristics/trained_features.h"
#include "heuristics/trees/checked_json.h"
#include "support/tree/json.h"

namespace heddle::learning {
namespace {

constexpr std::size_t kMostLeaves = 4096, kMostFeatures = 4096, kTenths = 10;
constexpr std::int64_t kMostCount = 1 << 30;

Json leaf_json(const ShareLeaf& l) {
  Json j = Json::object({{"problems", l.problems}, {"within", l.within}, {"share", l.share}});
  if (!std::isnan(l.slower)) j["slower"] = l.slower;
  return j;
}

ShareLeaf read_leaf(const Json& json) {
  ShareLeaf l{.problems = static_cast<int>(integer(json, "problems", 0, kMostCount))};
  l.within = static_cast<int>(integer(json, "within", 0, l.problems));
  l.share = number(json, "share", 0, 1);
  if (json.find("slower") != nullptr) l.slower = number(json, "slower", -100, 100);
  return l;
}

}  // namespace

Json to_json(const ShareTree& tree) {
  Json features = Json::array(), leaves = Json::array(), bins = Json::array();
  for (const TrainedFeature& f : tree.features) features.push_back(feature_json(f));
  for (const ShareLeaf& l : tree.leaves) leaves.push_back(leaf_json(l));
  for (const CertificateBin& b : tree.held_out)
    bins.push_back(
        Json::object({{"said", b.said}, {"problems", b.problems}, {"within", b.within}}));
  Json json = Json::object({{"heuristic", tree.heuristic},
                            {"version", tree.version},
                            {"margin", tree.margin},
                            {"features", std::move(features)},
                            {"nodes", tree_to_json(tree.nodes, names_of(tree.features))},
                            {"leaves", std::move(leaves)},
                            {"held_out", std::move(bins)}});
  if (!tree.kinds) return json;
  json["kinds"] = Json::array();
  for (const SeenKind& kind : *tree.kinds) json["kinds"].push_back(kind_json(kind));
  return json;
}

ShareTree share_tree_from_json(const Json& json) {
  ShareTree tree{.heuristic = json.at("heuristic").as_string(),
                 .version = json.at("version").as_string()};
  tree.margin = number(json, "margin", 0, 1000);
  for (const Json& f : list(json, "features", 1, kMostFeatures))
    tree.features.push_back(read_feature(f));
  if (json.find("kinds") != nullptr) {
    tree.kinds.emplace();
    for (const Json& k : list(json, "kinds", 0, kMostLeaves))
      tree.kinds->push_back(read_kind(k, tree.features.size()));
  }
  for (const Json& l : list(json, "leaves", 1, kMostLeaves)) tree.leaves.push_back(read_leaf(l));
  (void)list(json, "nodes", 1, 2 * kMostLeaves);
  tree.nodes = tree_from_json(json.at("nodes"), names_of(tree.features), tree.leaves.size());
  check_leaves(tree.nodes, tree.leaves.size());
  for (const Json& b : list(json, "held_out", 0, kTenths)) {
    CertificateBin bin{.said = number(b, "said", 0, 1),
                       .problems = static_cast<int>(integer(b, "problems", 1, kMostCount))};
    bin.within = static_cast<int>(integer(b, "within", 0, bin.problems));
    tree.held_out.push_back(bin);
  }
  return tree;
}

}  // namespace heddle::learning
