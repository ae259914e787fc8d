// Data with known best choices, which a planted rule determines.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heddle/support/rng.h"

namespace heddle {

/// Three features: "rows" (numeric, 1..1024), "packed" (boolean), "layout" (nhwc, nchw, blocked).
/// Choices "a", "b", "c"; the fallback is "a". No problems yet.
HeuristicData planted_data();

/// Times of the choices for the features of a problem; kNotMeasured for a choice that is missing.
using PlantedTimes = std::function<std::vector<double>(const std::vector<double>&)>;

/// Adds `count` problems with random features. Times get a spread of `noise`.
void add_problems(HeuristicData& data, int count, const PlantedTimes& times, Rng& rng,
                  double noise = 0.005);

/// The choice, the words "rule" or "unsure".
std::string answer_text(const TreeTable& tree, const std::vector<double>& features);

}  // namespace heddle
