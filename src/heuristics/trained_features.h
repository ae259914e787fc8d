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

Json feature_json(const TrainedFeature& feature);
/// Throws a User error for what is no feature.
TrainedFeature read_feature(const Json& json);

}  // namespace heddle::learning
