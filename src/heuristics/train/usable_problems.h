// Which measured problems teach.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/heuristics/train_tree.h"

namespace heddle::learning {

/// The problems whose features are all known and whose times are certain enough, by their indices.
std::vector<std::int32_t> usable_problems(const HeuristicData& data, const TrainOptions& options);

}  // namespace heddle::learning
