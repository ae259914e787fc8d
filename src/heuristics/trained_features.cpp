#include "heuristics/trained_features.h"

#include <algorithm>
#include <set>
#include <string>

#include "heddle/support/error.h"
#include "heuristics/names.h"
#include "heuristics/trees/checked_json.h"
#include "support/tree/json.h"

namespace heddle::learning {

TrainedFeature trained_feature(const HeuristicData& data, std::span<const std::int32_t> known,
                               std::size_t index) {
  const HeuristicFeature& declared = data.features[index];
  TrainedFeature feature{declared.name, declared.kind, 0, 0, declared.values, 0};
  bool first = true;
  for (const std::int32_t p : known) {
    const double value = data.problems[static_cast<std::size_t>(p)].features[index];
    if (declared.kind == FeatureKind::Categorical) {
      feature.seen |= std::uint64_t{1} << static_cast<unsigned>(value);
      continue;
    }
    feature.least = first ? value : std::min(feature.least, value);
    feature.most = first ? value : std::max(feature.most, value);
    first = false;
  }
  return feature;
}

Json feature_json(const TrainedFeature& f) {
  Json json = Json::object({{"name", f.name}, {"kind", to_string(f.kind)}});
  if (f.kind == FeatureKind::Categorical) {
    json["values"] = Json::array_of(f.values);
    json["seen"] = set_to_json(f.seen, {f.name, f.values});
  } else {
    json["least"] = f.least;
    json["most"] = f.most;
  }
  return json;
}

TrainedFeature read_feature(const Json& json) {
  TrainedFeature f;
  f.name = json.at("name").as_string();
  f.kind = feature_kind(json.at("kind").as_string());
  if (f.kind != FeatureKind::Categorical) {
    f.least = number(json, "least", -kLargest, kLargest);
    f.most = number(json, "most", f.least, kLargest);
    return f;
  }
  for (const Json& v : list(json, "values", 1, kMostCategories)) f.values.push_back(v.as_string());
  if (std::set<std::string>(f.values.begin(), f.values.end()).size() < f.values.size()) {
    throw_user_error("a value of feature '" + f.name + "' is there twice");
  }
  f.seen = set_from_json(json.at("seen"), {f.name, f.values});
  return f;
}

}  // namespace heddle::learning
