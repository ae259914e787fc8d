#include "heuristics/planted.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace heddle {

HeuristicData planted_data() {
  HeuristicData data;
  data.heuristic = "planted";
  data.version = "1";
  data.machine = "a machine";
  data.target = "a target";
  data.seed = 7;
  data.features = {{"rows", FeatureKind::Numeric, {}},
                   {"packed", FeatureKind::Boolean, {}},
                   {"layout", FeatureKind::Categorical, {"nhwc", "nchw", "blocked"}}};
  data.choices = {"a", "b", "c"};
  return data;
}

void add_problems(HeuristicData& data, int count, const PlantedTimes& times, Rng& rng,
                  double noise) {
  for (int i = 0; i < count; ++i) {
    HeuristicProblem p;
    std::string number = std::to_string(data.problems.size());
    p.id = "p" + std::string(6 - number.size(), '0') + number;
    p.features = {std::floor(std::exp2(rng.uniform_real(0, 10))), rng.chance(0.5) ? 1. : 0.,
                  static_cast<double>(rng.uniform_int(0, 2))};
    for (const double t : times(p.features)) {
      p.seconds.push_back(t * std::exp(noise * rng.normal()));
    }
    p.fallback = 0;
    p.noise = noise;
    data.problems.push_back(std::move(p));
  }
}

std::string answer_text(const TreeTable& tree, const std::vector<double>& features) {
  const TreeAnswer answer = answer_of(tree, features);
  switch (answer.verdict) {
    case LeafVerdict::Choice:
      return std::string(tree.choices[static_cast<std::size_t>(answer.choice)]);
    case LeafVerdict::Rule: return "rule";
    case LeafVerdict::Unsure: break;
  }
  return "unsure";
}

}  // namespace heddle
