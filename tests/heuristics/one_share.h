// Certificates that say the same of every problem.
#pragma once

#include <cmath>
#include <string>

#include "heddle/heuristics/heuristic.h"
#include "heuristics/certify/share_tree.h"

namespace heddle::testing {

/// A class with one region for all problems, which take `slower` times the least time.
inline learning::ShareTree one_share(const std::string& name, double share, double slower) {
  const Heuristic& h = heuristic_of(name);
  learning::ShareTree t{.heuristic = name, .version = std::to_string(h.version)};
  for (const HeuristicFeature& f : h.all_features()) {
    TrainedFeature wide{f.name, f.kind, 0, 0, f.values, ~std::uint64_t{0} >> 1};
    if (!f.values.empty()) wide.seen = (std::uint64_t{1} << f.values.size()) - 1;
    wide.least = f.kind == FeatureKind::Boolean ? 0 : -1e12;
    wide.most = f.kind == FeatureKind::Boolean ? 1 : 1e12;
    t.features.push_back(wide);
  }
  t.nodes = {TreeNode{.yes = 0}};
  t.leaves = {{.problems = 100, .within = 80, .share = share, .slower = std::log(slower)}};
  return t;
}

}  // namespace heddle::testing
