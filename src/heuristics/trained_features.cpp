#include "heuristics/trained_features.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

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

std::vector<SeenKind> seen_kinds(const HeuristicData& data, std::span<const std::int32_t> known) {
  std::map<std::vector<double>, SeenKind> by_flags;
  for (const std::int32_t p : known) {
    const std::vector<double>& values = data.problems[static_cast<std::size_t>(p)].features;
    std::vector<double> flags;
    for (std::size_t f = 0; f < values.size(); ++f) {
      if (data.features[f].kind != FeatureKind::Numeric) flags.push_back(values[f]);
    }
    SeenKind& kind = by_flags[std::move(flags)];
    if (kind.problems++ == 0) kind.least = kind.most = values;
    for (std::size_t f = 0; f < values.size(); ++f) {
      kind.least[f] = std::min(kind.least[f], values[f]);
      kind.most[f] = std::max(kind.most[f], values[f]);
    }
  }
  std::vector<SeenKind> kinds;
  for (auto& [flags, kind] : by_flags) {
    if (kind.problems >= kFewestOfAKind) kinds.push_back(std::move(kind));
  }
  return kinds;
}

Json kind_json(const SeenKind& kind) {
  return Json::object({{"problems", kind.problems},
                       {"least", Json::array_of(kind.least)},
                       {"most", Json::array_of(kind.most)}});
}

SeenKind read_kind(const Json& json, std::size_t features) {
  SeenKind kind;
  kind.problems = integer(json, "problems", 1, std::int64_t{1} << 53);
  const auto read = [&](const char* key) {
    std::vector<double> all;
    for (const Json& v : list(json, key, features, features)) all.push_back(v.as_double());
    return all;
  };
  kind.least = read("least");
  kind.most = read("most");
  for (std::size_t f = 0; f < features; ++f) {
    if (!(kind.least[f] >= -kLargest && kind.least[f] <= kind.most[f] && kind.most[f] <= kLargest))
      throw_user_error("a kind's feature " + std::to_string(f) + " has no range");
  }
  return kind;
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
