#include "heuristics/names.h"

#include <charconv>

#include "heddle/support/error.h"

namespace heddle {

using namespace learning;

const char* learning::to_string(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::Numeric: return "numeric";
    case FeatureKind::Boolean: return "boolean";
    case FeatureKind::Categorical: return "categorical";
  }
  return "?";
}

const char* learning::to_string(LeafVerdict verdict) {
  switch (verdict) {
    case LeafVerdict::Choice: return "choice";
    case LeafVerdict::Rule: return "rule";
    case LeafVerdict::Unsure: return "unsure";
  }
  return "?";
}

const char* learning::to_string(Doubt doubt) {
  switch (doubt) {
    case Doubt::None: return "none";
    case Doubt::Leaf: return "leaf";
    case Doubt::Range: return "range";
    case Doubt::Category: return "category";
    case Doubt::NotKnown: return "not known";
    case Doubt::WrongNumber: return "wrong number of features";
  }
  return "?";
}

FeatureKind learning::feature_kind(const std::string& name) {
  for (const FeatureKind kind :
       {FeatureKind::Numeric, FeatureKind::Boolean, FeatureKind::Categorical}) {
    if (name == to_string(kind)) return kind;
  }
  throw_user_error("'" + name + "' is no kind of feature", {},
                   "features are numeric, boolean or categorical");
}

LeafVerdict learning::leaf_verdict(const std::string& name) {
  for (const LeafVerdict verdict : {LeafVerdict::Choice, LeafVerdict::Rule, LeafVerdict::Unsure}) {
    if (name == to_string(verdict)) return verdict;
  }
  throw_user_error("'" + name + "' is no verdict", {}, "a leaf says choice, rule or unsure");
}

double learning::shortest(float value) {
  char text[32];
  const char* const end = std::to_chars(text, text + sizeof text, value).ptr;
  double out = 0;
  std::from_chars(text, end, out);
  return out;
}

std::vector<FeatureNames> learning::names_of(const std::vector<TrainedFeature>& features) {
  std::vector<FeatureNames> names;
  for (const TrainedFeature& f : features) names.push_back({f.name, f.values});
  return names;
}

}  // namespace heddle
