// No program that lowers is beyond the features: random declarations, configs and schedules.
#include "features_testing.h"
#include "heddle/lower/lower.h"
#include "selftest/random_program.h"
#include "selftest/random_schedule.h"

namespace heddle::testing {
using namespace selftest;
namespace {

void expect_sound(const Features& row, const std::string& what) {
  const auto& columns = feature_columns();
  ASSERT_EQ(row.size(), columns.size()) << what;
  for (size_t i = 0; i < row.size(); ++i) {
    ASSERT_TRUE(std::isfinite(row[i])) << columns[i].name << " of " << what;
    ASSERT_GE(row[i], 0) << columns[i].name << " of " << what;
    if (columns[i].unit == "share" || columns[i].unit == "0 or 1") {
      ASSERT_LE(row[i], 1.001) << columns[i].name << " of " << what;
    }
  }
  ASSERT_GT(row[0] + Row(row).plain("total.executions"), 0) << what;
}

TEST(RandomFeatures, AreFiniteForEveryProgramThatLowers) {
  int schedules = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Rng rng(seed);
    RandomProgram p = random_program(rng);
    Template t = make_template(ComputeDag(p.outputs), small_target());
    std::vector<Schedule> list{t.instantiate(random_config(t, rng)),
                               t.instantiate(random_config(t, rng)),
                               random_schedule(Schedule(p.outputs), rng)};
    for (const Schedule& s : list) {
      LoweredProgram lowered;
      try {
        lowered = lower(s, p.args());
      } catch (const Error&) {
        continue;  // a random schedule may read a stage outside of where it is computed
      }
      ++schedules;
      std::string what = "seed " + std::to_string(seed) + ": " + p.text;
      expect_sound(schedule_features(s, p.args()), what);
      expect_sound(extract_features(lowered.main, small_target()), what + " (lowered)");
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(schedules, 240);
}

// schedule_features looks at a nest whose accesses were not simplified.
TEST(RandomFeatures, PlainAccessesGiveNearlyTheSame) {
  int equal = 0, all = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    Rng rng(seed);
    RandomProgram p = random_program(rng);
    Template t = make_template(ComputeDag(p.outputs), small_target());
    Schedule s = t.instantiate(random_config(t, rng));
    LowerOptions options;
    options.keep_passes = true;
    LoweredProgram lowered = lower(s, p.args(), options);
    Features plain = schedule_features(s, p.args());
    Features simple = extract_features(lowered.passes.at(0).main, small_target());
    ++all;
    equal += plain == simple;
    // Rows that differ do so where an index is beyond the analysis; never in what is computed.
    EXPECT_NEAR(Row(plain).count("total.flop.mad"), Row(simple).count("total.flop.mad"),
                1e-3 * Row(simple).count("total.flop.mad") + 0.5)
        << "seed " << seed << ": " << p.text;
  }
  EXPECT_GT(equal, all * 3 / 4);
}

double flops(const Row& row) {
  double sum = 2 * row.count("total.flop.mad");
  for (const char* kind : {"add", "mul", "div", "minmax", "special"})
    sum += row.count(std::string("total.flop.") + kind);
  return sum;
}

bool has_scan(const ComputeDag& dag) {
  for (int i = 0; i < dag.size(); ++i)
    if (dag.info(i).scan) return true;
  return false;
}

// Nearly: what is known of a condition on a tail or on padding differs from pass to pass, and
// merged updates leave out zeros. Worst where blocks of axes that do not divide are fused: in the
// branch of the tail, a loop of 11 - (f % 2)*8 is 3 long, and is counted with its mean of 7. Seed
// 11 has 29,700 multiply-adds; the nest gives 24,224, the lowered program 48,600. Hence 2 and
// not 1.5. Scans are left out: a pass makes one loop of the two that the nest has.
TEST(RandomFeatures, ArithmeticHardlyDependsOnThePass) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    RandomProgram p = random_program(rng);
    const ComputeDag dag(p.outputs);
    if (has_scan(dag)) continue;
    Template t = make_template(dag, small_target());
    Schedule s = t.instantiate(random_config(t, rng));
    Row nest(s, p.args(), small_target());
    Row whole(extract_features(lower(s, p.args()).main, small_target()));
    std::string what = "seed " + std::to_string(seed) + ": " + p.text;
    EXPECT_LE(flops(whole), 2 * flops(nest) + 8) << what;
    EXPECT_GE(flops(whole), 0.5 * flops(nest) - 8) << what;
  }
}

}  // namespace
}  // namespace heddle::testing
