// The names of kinds of features, of verdicts and of doubts in files and messages, and numbers as
// files have them.
#pragma once

#include <string>
#include <vector>

#include "heddle/heuristics/trained_tree.h"
#include "heddle/support/decision_tree.h"
#include "support/tree/json.h"

namespace heddle::learning {

const char* to_string(FeatureKind kind);
const char* to_string(LeafVerdict verdict);
const char* to_string(Doubt doubt);

/// These functions throw a User error for an unknown name.
FeatureKind feature_kind(const std::string& name);
LeafVerdict leaf_verdict(const std::string& name);

/// The double of fewest decimals that is the same float.
double shortest(float value);

/// The names of the features of a tree, as its nodes are written with them.
std::vector<FeatureNames> names_of(const std::vector<TrainedFeature>& features);

}  // namespace heddle::learning
