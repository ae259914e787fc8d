// The heuristics that are shipped, and what their candidates make of problems.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "heddle/collect/collect.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

Target target_of(const Heuristic& h) {
  return Target::parse(h.target_kind == "cuda" ? "cuda -gpu=h200"
                                               : "llvm -mcpu=skylake-avx512 -threads=2");
}

// Every choice that a heuristic names must reach schedules, or nothing can be learned of it.
TEST(BuildChoices, EveryHeuristicHasProblemsWithSeveralChoices) {
  for (const Heuristic* h : all_heuristics()) {
    SCOPED_TRACE(h->name);
    Rng rng(7);
    std::size_t most = 0, problems = 0;
    std::string why;
    for (int i = 0; i < 80 && problems < 8; ++i) {
      const DrawnProblem p = h->draw(rng, target_of(*h));
      const BuildOutcome outcome = build_choices(*h, p.outputs, target_of(*h));
      why = outcome.why_not;
      if (outcome.built.empty()) continue;
      const BuiltChoices& built = outcome.built.front();
      ++problems;
      most = std::max(most, built.schedules.size());
      EXPECT_EQ(built.choices.front().first, built.fallback);
      std::set<std::string> ids;
      for (const auto& [id, schedule] : built.choices) {
        EXPECT_TRUE(ids.insert(id).second) << id << " twice";
        EXPECT_EQ(h->id_of(h->choice_of(id)), id);
        EXPECT_LT(schedule, built.schedules.size());
      }
      // A feature that no problem has would make every answer unsure.
      const std::vector<HeuristicFeature> features = h->all_features();
      const std::vector<double> values = h->values_of(built.features);
      for (std::size_t f = 0; f < values.size(); ++f)
        EXPECT_TRUE(std::isfinite(values[f])) << features[f].name << " of " << p.id;
    }
    EXPECT_GT(problems, 0U) << why;
    EXPECT_GE(most, 5U);
  }
}

}  // namespace
}  // namespace heddle
