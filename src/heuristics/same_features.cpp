#include "heuristics/same_features.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "heuristics/names.h"

namespace heddle::learning {
namespace {

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

[[noreturn]] void refuse(const std::string& what) {
  throw_user_error("the tree does not fit the log: " + what, {},
                   "train a tree on logs of this version of the heuristic");
}

}  // namespace

void check_same_features(const TreeTable& tree, const HeuristicData& data) {
  const TreeOrigin& origin = tree.origin;
  if (origin.heuristic != data.heuristic) {
    refuse("it is of " + in_quotes(origin.heuristic) + ", and the log of " +
           in_quotes(data.heuristic));
  }
  if (origin.version != data.version) {
    refuse("it is of version " + in_quotes(origin.version) + ", and the log of " +
           in_quotes(data.version));
  }
  if (tree.features.size() != data.features.size()) {
    refuse("it asks for " + std::to_string(tree.features.size()) + " features, and the log has " +
           std::to_string(data.features.size()));
  }
  for (std::size_t i = 0; i < data.features.size(); ++i) {
    const TreeFeature& a = tree.features[i];
    const HeuristicFeature& b = data.features[i];
    if (a.name != b.name || a.kind != b.kind) {
      refuse("feature " + std::to_string(i) + " is " + in_quotes(a.name) + " (" +
             to_string(a.kind) + ") in the tree and " + in_quotes(b.name) + " (" +
             to_string(b.kind) + ") in the log");
    }
    if (!std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end())) {
      refuse("the values of feature " + in_quotes(b.name) + " are others, or in another order");
    }
  }
}

}  // namespace heddle::learning
