// Networks for a GPU race in calls of the whole network. A fake driver replaces NVIDIA's: the
// emulator runs the kernels, and each takes as long as the test says.
#include <map>

#include "codegen/cuda/nvrtc.h"
#include "heddle/codegen/cuda.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"
#include "network/variant_runner.h"

namespace heddle::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpuRace : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  }

  /// A chain of three different tasks, the second of which runs twice.
  Network chain() const {
    const Tensor x = placeholder({8, 16}, f32, "x");
    const auto layer = [](const Tensor& t, int64_t columns) {
      const Tensor w = constant(NDArray::random({t.extent(1), columns}, f32, 3));
      return ops::relu(ops::matmul(t, w));
    };
    return Network({layer(layer(layer(layer(x, 24), 24), 24), 12)}, gpu_);
  }

  /// Lists of a static and another schedule for each task of `network`. Each kernel of a node takes
  /// `seconds[task][variant]`.
  std::vector<std::vector<Schedule>> variants(const Network& network,
                                              const std::vector<std::vector<double>>& seconds) {
    const std::vector<Schedule> untuned = network.static_schedules(),
                                others = network.naive_schedules();
    std::vector<std::vector<Schedule>> lists;
    for (size_t t = 0; t < untuned.size(); ++t) {
      lists.push_back({untuned[t], others[t]});
      teach(untuned[t], t, seconds[t][0]);
      // The variant runner gives the others the numbers after those of the tasks.
      teach(others[t], untuned.size() + t, seconds[t][1]);
      order_.push_back(t);
    }
    return lists;
  }

  void teach(const Schedule& schedule, size_t number, double seconds) {
    const GpuProgram program = lower_for_gpu(schedule, network::task_args(schedule),
                                             {.name = "network_task" + std::to_string(number)});
    emulate_kernels(driver_, program);
    for (const GpuKernel& kernel : program.main) {
      const double share = seconds / static_cast<double>(program.main.size());
      driver_.kernels[kernel.name].seconds = [share](const auto&) { return share; };
      names_[number].push_back(kernel.name);
    }
  }

  const Target gpu_ = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver_;
  const cuda::ScopedDriver scope_{&driver_.api()};
  std::map<size_t, std::vector<std::string>> names_;  ///< of the kernels, by number
  std::vector<size_t> order_;
  TuneClock endless_;
};

TEST_F(GpuRace, TheWholeNetworkDecidesByItsGraph) {
  const Network net = chain();
  ASSERT_EQ(net.tasks().size(), 3u) << net.to_text();
  const auto lists = variants(net, {{10e-6, 5e-6}, {10e-6, 11e-6}, {20e-6, 15e-6}});
  for (auto& [name, kernel] : driver_.kernels) kernel.body = {};  // times alone
  const std::unique_ptr<JointRace> race = make_network_race(net);
  ASSERT_NE(race, nullptr);
  const JointRace::Verdict v = race->race(lists, order_, 60, endless_);
  EXPECT_THAT(v.winners, ElementsAre(1, 0, 1));
  EXPECT_EQ(v.whole.verdict, "faster");
  EXPECT_EQ(v.whole.changed, 2);
  const double weight = net.tasks()[1].weight;
  EXPECT_NEAR(v.whole.static_seconds, (30 + 10 * weight) * 1e-6, 1e-9);
  EXPECT_NEAR(v.whole.best_seconds, (20 + 10 * weight) * 1e-6, 1e-9);
  // Times of one node.
  EXPECT_NEAR(v.results[1][0].median(), 10e-6, 1e-9);
  EXPECT_NEAR(v.results[2][1].median(), 15e-6, 1e-9);
  EXPECT_GT(driver_.calls["graph_launch"], 24);
  EXPECT_EQ(cuda::memory_stats().used_bytes, 0) << "arrays that are left";
}

TEST_F(GpuRace, OtherAnswersLose) {
  const Network net = chain();
  const auto lists = variants(net, {{10e-6, 5e-6}, {10e-6, 11e-6}, {20e-6, 20e-6}});
  for (const std::string& name : names_[net.tasks().size()])
    driver_.kernels[name].body = [](const auto&) {};
  const JointRace::Verdict v = make_network_race(net)->race(lists, order_, 60, endless_);
  EXPECT_EQ(v.whole.verdict, "answers differ");
  EXPECT_THAT(v.winners, ElementsAre(0, 0, 0));
  ASSERT_EQ(v.whole.problems.size(), 1u);
  EXPECT_THAT(v.whole.problems[0], HasSubstr("computes something else: output 0"));
}

TEST_F(GpuRace, EveryMixtureComputesTheSame) {
  const Network net = chain();
  const auto lists = variants(net, {{1e-6, 1e-6}, {1e-6, 1e-6}, {1e-6, 1e-6}});
  network::VariantRunner runner(net, lists, order_, endless_);
  for (const std::vector<int>& list : runner.available()) EXPECT_THAT(list, ElementsAre(0, 1));
  for (const std::vector<int>& mixture :
       {std::vector<int>{1, 0, 0}, {0, 1, 0}, {1, 1, 1}, {network::kTwice, 1, network::kTwice}})
    EXPECT_EQ(runner.difference(mixture), "");
}

TEST_F(GpuRace, ALostDeviceEndsTheRaceWithAnError) {
  const Network net = chain();
  const auto lists = variants(net, {{1e-6, 1e-6}, {1e-6, 1e-6}, {1e-6, 1e-6}});
  driver_.failing["graph_launch"] = 700;
  EXPECT_THAT(message_of([&] { make_network_race(net)->race(lists, order_, 60, endless_); }),
              HasSubstr("illegal"));
}

TEST_F(GpuRace, NodesThatShareLaunchesDoNotRace) {
  const Network net = chain();
  EXPECT_NE(make_network_race(net), nullptr);
  EXPECT_EQ(make_network_race(net.with_passes(parse_passes("horizontal"))), nullptr);
}

TEST_F(GpuRace, ChoicesAboutANetworkAreTriedInItsGraph) {
  driver_.any_kernel = true;
  const Network apart({attention(placeholder({1, 8, 16}, f32, "x"))}, gpu_, {},
                      parse_passes("-join_products"));
  const PassChoice choice = choose_passes(apart, 60, endless_);
  ASSERT_FALSE(choice.trials.empty()) << apart.to_text();
  EXPECT_EQ(choice.trials[0].change, "join_products");
  EXPECT_GT(choice.trials[0].whole_before, 0);
  EXPECT_EQ(choice.trials[0].before, choice.trials[0].whole_before);
  EXPECT_EQ(choice.trials[0].verdict, "taken");
  EXPECT_EQ(choice.times.verdict, "faster");
  EXPECT_TRUE(choice.options.join_products);
  EXPECT_TRUE(choice.times.problems.empty());
}

TEST_F(GpuRace, AGpuWithoutMemoryForARaceKeepsTheNetworkAsItIs) {
  driver_.any_kernel = true;
  driver_.memory = 1024;
  const Network apart({attention(placeholder({1, 8, 16}, f32, "x"))}, gpu_, {},
                      parse_passes("-join_products"));
  const PassChoice choice = choose_passes(apart, 60, endless_);
  EXPECT_EQ(choice.options, apart.pass_options());
  ASSERT_EQ(choice.times.problems.size(), 1u);
  EXPECT_THAT(choice.times.problems[0], HasSubstr("did not race"));
}

}  // namespace
}  // namespace heddle::testing
