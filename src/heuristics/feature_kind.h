// Names of the kinds of features, as files have them.
#pragma once

#include <string>

#include "heddle/support/decision_tree.h"
#include "heddle/support/error.h"

namespace heddle {

inline const char* to_string(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::Numeric: return "numeric";
    case FeatureKind::Boolean: return "boolean";
    case FeatureKind::Categorical: return "categorical";
  }
  return "?";
}

inline FeatureKind feature_kind(const std::string& name) {
  for (const FeatureKind kind :
       {FeatureKind::Numeric, FeatureKind::Boolean, FeatureKind::Categorical}) {
    if (name == to_string(kind)) return kind;
  }
  throw_user_error("'" + name + "' is no kind of feature", {},
                   "features are numeric, boolean or categorical");
}

}  // namespace heddle
