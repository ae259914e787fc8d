// Families for CUDA from the points to the tree: candidates are tuned on an emulated GPU, and race
// on a fake driver whose times follow from their blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "driver/program_args.h"
#include "emulated_kernels.h"
#include "family/family_testing.h"
#include "heddle/search/tune_family.h"
#include "measure/cuda_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

/// Few blocks leave multiprocessors idle, and more of them than there are take turns.
double seconds_of(const cuda::FakeDriver::Call& c) {
  const double blocks = c.grid[0] * c.grid[1] * c.grid[2], threads = c.block[0] * c.block[1];
  return 1e-6 * std::ceil(blocks / 16) * (1 + 4096 / (threads + 64));
}

class CudaFamily : public ::testing::Test {
 protected:
  void SetUp() override {
    HEDDLE_SKIP_WITHOUT_NVRTC();
    driver_.any_kernel = true;  // of schedules with several
    driver_.kernels["kernel"] = {.buffers = 3, .body = {}, .seconds = seconds_of};
  }

  FamilyResult tuned(int max_kernels, std::vector<FamilyPoint> histogram = {}) {
    FamilyOptions family;
    family.points = 3;
    family.max_kernels = max_kernels;
    family.histogram = std::move(histogram);
    family.race_seconds = 0.05;
    family.progress = [this](const std::string& line) { log_ += line + "\n"; };
    const auto measurer = emulated_measurer();
    TuneOptions tuning;
    tuning.target = an_h200();
    tuning.measurer = measurer.get();
    tuning.max_trials = 12;
    tuning.batch = 4;
    tuning.budget = std::chrono::seconds(60);
    tuning.warm_start = false;
    return tune_family({family_.n}, all_args(ComputeDag({family_.result})), family, tuning);
  }

  /// "" when the variant that the family picks at `n` computes what the interpreter does.
  std::string wrong_at(const FamilyResult& f, int64_t n) {
    const ComputeDag dag(at_sizes({family_.result}, {{family_.n, n}}).outputs);
    const std::vector<NDArray> arrays = call_arrays(dag);
    const std::string& picked = f.kernel.picked(arrays);
    for (const FamilyVariant& v : f.variants) {
      if (v.name != picked) continue;
      const GpuProgram program =
          driver::lower_for_gpu(v.schedule, all_args(v.schedule.dag()), {.name = "kernel"});
      emulate_kernels(driver_, program);
    }
    f.kernel.call(arrays);
    driver_.kernels["kernel"] = {.buffers = 3, .body = {}, .seconds = seconds_of};
    return differs(dag, arrays, 1e-4);
  }

  Family family_ = matmul_family(dim("n", 1, 64), 20, 32);
  cuda::FakeDriver driver_;
  cuda::ScopedDriver installed_{&driver_.api()};
  std::string log_;
};

TEST_F(CudaFamily, IsTunedRacedAndKeepsTheBest) {
  const FamilyResult f = tuned(2);
  for (const char* line : {"chosen at n=1: ", "chosen at n=64: ", "tuning at 3 sizes",
                           " tuned: ", "raced at n=1\n", "raced at n=64\n"})
    EXPECT_THAT(log_, HasSubstr(line));
  EXPECT_GT(f.rows.size(), 3U) << "sizes between the points";
  EXPECT_GT(f.candidates, 3);
  ASSERT_GE(f.variants.size(), 1U);
  EXPECT_LE(f.variants.size(), 2U);
  for (const FamilyRow& row : f.rows) {
    ASSERT_EQ(row.seconds.size(), f.variants.size());
    const int picked = variant_at(f.tree, row.point.sizes);
    EXPECT_EQ(row.variant, picked);
    EXPECT_GE(row.slowdown, 1);
    EXPECT_GT(row.seconds[static_cast<size_t>(picked)], 0);
  }
  for (const int64_t n : {1, 7, 23, 64}) EXPECT_EQ(wrong_at(f, n), "") << n;
  const std::string text = to_text(f);
  EXPECT_THAT(text, HasSubstr(std::to_string(f.variants.size()) + " of " +
                              std::to_string(f.candidates) + " kernels are kept"));
}

TEST_F(CudaFamily, OneKernelIsTheLeastSlowdownOverTheHistogram) {
  const FamilyResult one = tuned(1, {{{60}, 10}, {{2}, 1}});
  ASSERT_EQ(one.variants.size(), 1U);
  EXPECT_EQ(one.tree.size(), 1U);
  EXPECT_THAT(log_, HasSubstr("raced at n=60"));
  EXPECT_THAT(log_, HasSubstr("raced at n=2"));
  for (const int64_t n : {2, 33, 60}) EXPECT_EQ(wrong_at(one, n), "") << n;
}

}  // namespace
}  // namespace heddle::testing
