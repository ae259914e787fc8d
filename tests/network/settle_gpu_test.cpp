// Unsure choices of networks for GPUs, settled in real calls on a driver that is faked: the emulator
// runs the kernels, and each takes as long as the test says.
#include <unistd.h>

#include <filesystem>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/network/plan.h"
#include "heddle/runtime/cuda.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::IsEmpty;

class SettleGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
    NetworkPlan plan = plan_of(network_, report());
    plan.nodes.at(0).proof = PlanProof::None;
    planned_ = network_.with_plan(plan);
    const Schedule variants[] = {network_.naive_schedules()[0],
                                 planned_->tasks()[0].tmpl.static_schedule()};
    for (size_t v = 0; v < 2; ++v) {
      programs_.push_back(driver::lower_for_gpu(variants[v], network::task_args(variants[v]),
                                                {.name = "network_task" + std::to_string(v)}));
      emulate_kernels(driver_, programs_[v]);
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// A report in which the naive schedule won.
  TuneReport report() const {
    TuneReport report;
    TaskResult result{.name = "node", .config = {}, .schedule = network_.naive_schedules()[0]};
    result.improved = true;
    report.tasks.push_back(std::move(result));
    return report;
  }

  /// The kernels of the variants take so long by the clock of the events.
  void take(double of_plan, double of_rule) {
    const double seconds[] = {of_plan, of_rule};
    for (size_t v = 0; v < 2; ++v) {
      const double each = seconds[v] / static_cast<double>(programs_[v].main.size());
      for (const GpuKernel& k : programs_[v].main)
        driver_.kernels[k.name].seconds = [each](const cuda::FakeDriver::Call&) { return each; };
    }
  }

  std::vector<NDArray> arrays_on_gpu() const {
    std::vector<NDArray> there;
    for (const NDArray& a : arrays_for(args_)) there.push_back(a.to_device(Device::cuda()));
    return there;
  }

  void expect_right_calls(const NetworkKernel& kernel, int times) const {
    const std::vector<NDArray> there = arrays_on_gpu();
    std::vector<NDArray> got = arrays_for(args_);
    for (int n = 0; n < times; ++n) {
      there.back().fill(77);
      kernel.call(there);
      got.back() = there.back().to_host();
      ASSERT_EQ(differs_from_interpreter({y_}, args_, got), "") << "call " << n;
    }
  }

  /// Launches of a variant so far.
  long launches(size_t variant) const {
    return std::count_if(driver_.launches.begin(), driver_.launches.end(), [&](const auto& call) {
      return call.kernel == programs_[variant].main[0].name;
    });
  }

  static constexpr int kCalls = 24;
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("heddle_settle_gpu_" + std::to_string(::getpid()));
  const std::shared_ptr<const PickStore> store_ = std::make_shared<PickStore>(folder_.string());
  cuda::FakeDriver driver_;
  const cuda::ScopedDriver scope_{&driver_.api()};
  const Tensor y_ = ops::relu(ops::matmul(placeholder({8, 24}, f32, "x"), weights({24, 40})));
  const std::vector<Tensor> args_ = args_of({y_});
  const Network network_{{y_}, Target::parse("cuda -gpu=h200")};
  std::optional<Network> planned_;
  std::vector<GpuProgram> programs_;
};

TEST_F(SettleGpu, EventsDecideThenCallsAreGraphs) {
  take(10e-6, 5e-6);
  const NetworkKernel kernel = planned_->build_settling(args_, {.store = store_});
  ASSERT_EQ(kernel.picks().size(), 1u);
  EXPECT_EQ(kernel.picks()[0].reason, PickReason::Static);
  driver_.calls.clear();
  expect_right_calls(kernel, kCalls - 1);
  EXPECT_EQ(kernel.picks()[0].reason, PickReason::Static);
  EXPECT_EQ(driver_.calls["graph_launch"], 0) << "single kernels are timed";
  expect_right_calls(kernel, 1);
  const PickRow row = kernel.picks()[0];
  EXPECT_EQ(row.reason, PickReason::Measured);
  EXPECT_EQ(row.picked, "rule");
  EXPECT_NEAR(row.variants[0].seconds.at(0), 10e-6, 1e-9);
  EXPECT_NEAR(row.variants[1].seconds.at(0), 5e-6, 1e-9);
  const long of_plan = launches(0), of_rule = launches(1);
  expect_right_calls(kernel, 6);
  EXPECT_EQ(launches(0), of_plan);
  EXPECT_EQ(launches(1), of_rule + 6);
  EXPECT_GT(driver_.calls["graph_launch"], 0);
  // A later process finds the pick.
  take(1e-6, 5e-6);
  const NetworkKernel later = planned_->build_settling(args_, {.store = store_});
  EXPECT_EQ(later.picks().at(0).reason, PickReason::Remembered);
  EXPECT_EQ(later.picks()[0].picked, "rule");
  expect_right_calls(later, 2);
}

TEST_F(SettleGpu, NothingIsMeasuredInACapture) {
  take(10e-6, 5e-6);
  const NetworkKernel kernel = planned_->build_settling(args_, {.store = store_});
  expect_right_calls(kernel, 1);  // the code is loaded: that cannot be captured
  const std::vector<NDArray> there = arrays_on_gpu();
  const long of_rule = launches(1);
  for (int n = 0; n < kCalls; ++n) (void)cuda::capture([&] { kernel.call(there); });
  EXPECT_EQ(launches(1), of_rule);
  EXPECT_EQ(kernel.picks()[0].reason, PickReason::Static);
  expect_right_calls(kernel, kCalls - 1);
  EXPECT_EQ(kernel.picks()[0].picked, "rule");
}

TEST_F(SettleGpu, ASecondVariantThatComputesSomethingElseIsDropped) {
  take(10e-6, 5e-6);
  write_nothing(driver_, programs_[1]);
  const NetworkKernel kernel = planned_->build_settling(args_, {.store = store_});
  EXPECT_THAT(kernel.picks(), IsEmpty());
  const long of_rule = launches(1);
  expect_right_calls(kernel, kCalls + 1);
  EXPECT_EQ(launches(1), of_rule);
}

}  // namespace
}  // namespace heddle::testing
