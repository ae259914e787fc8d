// The names of kinds of features, of verdicts and of doubts in files and messages.
#pragma once

#include <string>

#include "heddle/support/decision_tree.h"

namespace heddle {

const char* to_string(FeatureKind kind);
const char* to_string(LeafVerdict verdict);
const char* to_string(Doubt doubt);

/// These functions throw a User error for an unknown name.
FeatureKind feature_kind(const std::string& name);
LeafVerdict leaf_verdict(const std::string& name);

}  // namespace heddle
