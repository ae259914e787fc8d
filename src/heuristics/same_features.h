// Whether a tree and a log belong to the same heuristic.
#pragma once

#include "heddle/heuristics/dataset.h"
#include "heddle/support/decision_tree.h"

namespace heddle::learning {

/// Throws a User error unless the heuristic, its version, and the features with their values are
/// those of the tree.
void check_same_features(const TreeTable& tree, const HeuristicData& data);

}  // namespace heddle::learning
