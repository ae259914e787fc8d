// The part of a feature's values that training saw, and its JSON in files of trees and of certificates.
#pragma once

#include <cstdint>
#include <span>

#include "heddle/heuristics/dataset.h"
#include "heddle/heuristics/trained_tree.h"
#include "heddle/support/json.h"

namespace heddle::learning {

/// The values that the problems `known` of `data` have of a feature.
TrainedFeature trained_feature(const HeuristicData& data, std::span<const std::int32_t> known,
                               std::size_t index);

/// The kinds of which these problems have enough, in the order of their flags.
std::vector<SeenKind> seen_kinds(const HeuristicData& data, std::span<const std::int32_t> known);

Json kind_json(const SeenKind& kind);
/// Throws a User error for what is no kind of problems with so many features.
SeenKind read_kind(const Json& json, std::size_t features);

Json feature_json(const TrainedFeature& feature);
/// Throws a User error for what is no feature.
TrainedFeature read_feature(const Json& json);

}  // namespace heddle::learning
