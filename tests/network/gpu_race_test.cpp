// Networks for a GPU race in calls of the whole network. A fake driver replaces NVIDIA's: the
// emulator runs the kernels, and each takes as long as the test says.
#include <unistd.h>

#include <cstdio>
#include <map>
#include <set>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/cuda.h"
#include "heddle/family/schedule.h"
#include "heddle/network/size_kernels.h"
#include "measure/cuda/candidate.h"
#include "measure/process/task.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"
#include "network/race/timed_network.h"
#include "network/race/variant_runner.h"
#include "network/sizes/size_race.h"

namespace heddle::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpuRace : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  }

  /// A chain of three different tasks, the first of which runs twice.
  Network chain() const {
    const Tensor x = placeholder({8, 24}, f32, "x");
    const auto layer = [](const Tensor& t, int64_t columns) {
      const Tensor w = constant(NDArray::random({t.extent(1), columns}, f32, 3));
      return ops::relu(ops::matmul(t, w));
    };
    return Network({layer(layer(layer(layer(x, 24), 24), 12), 40)}, gpu_, {},
                   parse_passes("-horizontal"));
  }

  /// Lists of a static and another schedule for each task of `network`.
  std::vector<std::vector<Schedule>> variants(const Network& network) {
    const std::vector<Schedule> untuned = network.static_schedules(),
                                others = network.naive_schedules();
    std::vector<std::vector<Schedule>> lists;
    for (size_t t = 0; t < untuned.size(); ++t) {
      lists.push_back({untuned[t], others[t]});
      order_.push_back(t);
    }
    return lists;
  }

  /// The kernels of a task take `seconds` together, by their names and grids. Those of schedules
  /// that are not static all have one name.
  void take(const GpuProgram& program, double seconds) {
    for (const GpuKernel& k : program.main) {
      seconds_[{k.name, k.grid[0], k.block[0]}] =
          seconds / static_cast<double>(program.main.size());
      driver_.kernels[k.name].seconds = [this](const cuda::FakeDriver::Call& c) {
        return seconds_.at({c.kernel, c.grid[0], c.block[0]});
      };
    }
  }

  /// Kernels that compute the first element of the output wrong.
  void spoil(const GpuProgram& program) {
    emulate_kernels(driver_, program);
    for (const GpuKernel& k : program.main) {
      const auto at = std::find(k.args.begin(), k.args.end(), program.args.back());
      if (at == k.args.end()) continue;
      const auto output = static_cast<size_t>(at - k.args.begin());
      driver_.kernels[k.name].body =
          [output, right = driver_.kernels[k.name].body](const std::vector<void*>& parameters) {
            right(parameters);
            *static_cast<float*>(parameters[output]) = 1000;
          };
    }
  }

  /// The program of a variant as the race compiles it.
  GpuProgram program_of(const std::vector<std::vector<Schedule>>& lists, size_t task,
                        size_t variant) const {
    const Schedule& s = lists[task][variant];
    const std::string name = variant == 0 ? "network_task" + std::to_string(task) : "kernel";
    return driver::lower_for_gpu(s, network::task_args(s), {.name = name});
  }

  const Target gpu_ = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver_;
  const cuda::ScopedDriver scope_{&driver_.api()};
  std::map<std::tuple<std::string, int64_t, int64_t>, double> seconds_;
  std::vector<size_t> order_;
  TuneClock endless_;
};

TEST_F(GpuRace, TheWholeNetworkDecidesByItsGraph) {
  driver_.any_kernel = true;  // times alone
  const Network net = chain();
  ASSERT_EQ(net.tasks().size(), 3u) << net.to_text();
  ASSERT_EQ(net.tasks()[0].weight, 2);
  const auto lists = variants(net);
  const double seconds[3][2] = {{10e-6, 11e-6}, {10e-6, 5e-6}, {20e-6, 15e-6}};
  for (size_t t = 0; t < 3; ++t) {
    for (size_t v = 0; v < 2; ++v) take(program_of(lists, t, v), seconds[t][v]);
  }
  const std::unique_ptr<JointRace> race = make_network_race(net);
  ASSERT_NE(race, nullptr);
  const JointRace::Verdict v = race->race(lists, {}, order_, 60, endless_);
  EXPECT_THAT(v.winners, ElementsAre(0, 1, 1));
  EXPECT_EQ(v.whole.verdict, RaceResult::Faster);
  EXPECT_EQ(v.whole.changed, 2);
  EXPECT_NEAR(v.whole.static_seconds, 50e-6, 1e-9);
  EXPECT_NEAR(v.whole.best_seconds, 40e-6, 1e-9);
  // Times of one node.
  EXPECT_NEAR(v.results[0][0].median(), 10e-6, 1e-9);
  EXPECT_NEAR(v.results[2][1].median(), 15e-6, 1e-9);
  EXPECT_GT(driver_.calls["graph_launch"], 24);
  EXPECT_EQ(cuda::memory_stats().used_bytes, 0) << "arrays that are left";
}

TEST_F(GpuRace, AllVariantsComputeTheSame) {
  const Network net = chain();
  const auto lists = variants(net);
  for (size_t changed = 0; changed < lists.size(); ++changed) {
    // One at a time, because the emulator finds a kernel by its name.
    std::vector<std::vector<Schedule>> given = lists;
    for (size_t t = 0; t < lists.size(); ++t) {
      emulate_kernels(driver_, program_of(lists, t, 0));
      if (t != changed) given[t].pop_back();
    }
    emulate_kernels(driver_, program_of(lists, changed, 1));
    network::VariantRunner runner(net, given, order_, endless_);
    std::vector<int> variants(lists.size(), 0);
    variants[changed] = 1;
    EXPECT_EQ(runner.difference(variants), "");
    variants[(changed + 1) % lists.size()] = network::kTwice;
    EXPECT_EQ(runner.difference(variants), "");
    spoil(program_of(lists, changed, 1));
    EXPECT_THAT(runner.difference(variants), HasSubstr("output 0"));
    write_nothing(driver_, program_of(lists, changed, 1));
    EXPECT_THAT(runner.difference(variants), HasSubstr("output 0"));
  }
}

TEST_F(GpuRace, ResultsOfOneNetworkAreNoneOfAnotherWithItsArrays) {
  const Network net = chain();
  emulate_network(driver_, net, gpu_);
  const std::vector<Tensor> args = network::call_args(net);
  const std::vector<NDArray> arrays = network::random_arrays(args, network::device_of(gpu_));
  network::TimedNetwork one(net, net.static_schedules(), args, arrays),
      other(net, net.static_schedules(), args, arrays);
  const std::vector<NDArray> want = one.outputs();
  EXPECT_EQ(network::output_difference(net.outputs(), other.outputs(), want), "");
  const auto lists = variants(net);
  for (size_t t = 0; t < lists.size(); ++t) write_nothing(driver_, program_of(lists, t, 0));
  EXPECT_NE(network::output_difference(net.outputs(), other.outputs(), want), "");
}

TEST_F(GpuRace, OtherAnswersLose) {
  const Network net = chain();
  auto lists = variants(net);
  for (size_t t = 0; t < lists.size(); ++t) {
    emulate_kernels(driver_, program_of(lists, t, 0));
    take(program_of(lists, t, 0), 10e-6);
    if (t > 0) lists[t].pop_back();
  }
  spoil(program_of(lists, 0, 1));
  take(program_of(lists, 0, 1), 5e-6);
  const JointRace::Verdict v = make_network_race(net)->race(lists, {}, order_, 60, endless_);
  EXPECT_EQ(v.whole.verdict, RaceResult::AnswersDiffer);
  EXPECT_THAT(v.winners, ElementsAre(0, 0, 0));
  ASSERT_EQ(v.whole.problems.size(), 1u);
  EXPECT_THAT(v.whole.problems[0], HasSubstr("computes something else: output 0"));
}

// A worker leaves the code of a candidate on the disk, where the race finds it by its text.
TEST_F(GpuRace, CandidatesHaveTheTextThatWorkersCompiled) {
  const Network nets[] = {chain(), Network({digits_network()}, gpu_),
                          Network({attention(placeholder({1, 8, 16}, f32, "x"))}, gpu_)};
  for (const Network& net : nets) {
    for (const TuneTask& task : net.tasks_to_tune()) {
      const auto told = measuring::told_task(measuring::task_message_for_elsewhere(0, task));
      for (const Schedule& s :
           {task.tmpl.static_schedule(), task.tmpl.instantiate(task.tmpl.default_config())}) {
        const measuring::ReplayedSchedule there = measuring::replay_schedule(*told, s.to_json());
        EXPECT_EQ(emit_cuda(driver::lower_for_gpu(s, network::task_args(s), {})),
                  emit_cuda(measuring::lower_candidate(there.schedule, there.args)))
            << task.name;
      }
    }
  }
}

TEST_F(GpuRace, ALostDeviceEndsTheRaceWithAnError) {
  const Network net = chain();
  const auto lists = variants(net);
  driver_.any_kernel = true;
  driver_.failing["graph_launch"] = 700;
  EXPECT_THAT(message_of([&] { make_network_race(net)->race(lists, {}, order_, 60, endless_); }),
              HasSubstr("illegal"));
}

// Kernels of joined nodes depend on the schedules of all of them.
TEST_F(GpuRace, NodesThatShareLaunchesRaceAsTheyAreDeployed) {
  driver_.any_kernel = true;
  const Tensor x = placeholder({4, 24}, f32, "x");
  std::vector<Tensor> outputs;
  for (const int64_t columns : {16, 24, 40})
    outputs.push_back(ops::relu(ops::matmul(x, weights({24, columns}))));
  const Network net(outputs, gpu_, {}, parse_passes("horizontal,-join_products"));
  ASSERT_FALSE(net.shared_launches().empty()) << net.to_text();
  const auto lists = variants(net);
  for (size_t t = 0; t < lists.size(); ++t) {
    take(program_of(lists, t, 0), 10e-6);
    take(program_of(lists, t, 1), t == 0 ? 5e-6 : 11e-6);
  }
  const JointRace::Verdict v = make_network_race(net)->race(lists, {}, order_, 60, endless_);
  EXPECT_GE(v.whole.rounds, 12);
  const std::string problems = ::testing::PrintToString(v.whole.problems);
  EXPECT_NE(v.whole.verdict, RaceResult::AnswersDiffer) << problems;
  EXPECT_NEAR(v.results[0][1].median(), 5e-6, 1e-9);  // with a launch of its own
  const auto joined = [](const auto& call) { return call.kernel.starts_with("network_tasks_"); };
  EXPECT_TRUE(std::any_of(driver_.launches.begin(), driver_.launches.end(), joined));
}

TEST_F(GpuRace, ChoicesAboutANetworkAreTriedInItsGraph) {
  driver_.any_kernel = true;
  const Network apart({attention(placeholder({1, 8, 16}, f32, "x"))}, gpu_, {},
                      parse_passes("-join_products,-horizontal"));
  const PassChoice choice = choose_passes(apart, 60, endless_);
  ASSERT_FALSE(choice.trials.empty()) << apart.to_text();
  EXPECT_EQ(choice.trials[0].change, "join_products");
  EXPECT_GT(choice.trials[0].whole_before, 0);
  EXPECT_EQ(choice.trials[0].before, choice.trials[0].whole_before);
  EXPECT_EQ(choice.trials[0].verdict, TrialResult::Taken);
  EXPECT_EQ(choice.times.verdict, RaceResult::Faster);
  EXPECT_TRUE(choice.options.join_products);
  EXPECT_TRUE(choice.times.problems.empty());
}

TEST_F(GpuRace, AGpuWithoutMemoryForARaceKeepsTheNetworkAsItIs) {
  driver_.any_kernel = true;
  driver_.memory = 1024;
  const Network apart({attention(placeholder({1, 8, 16}, f32, "x"))}, gpu_, {},
                      parse_passes("-join_products,-horizontal"));
  const PassChoice choice = choose_passes(apart, 60, endless_);
  EXPECT_EQ(choice.options, apart.pass_options());
  ASSERT_EQ(choice.times.problems.size(), 1u);
  EXPECT_THAT(choice.times.problems[0], HasSubstr("did not race"));
}

/// Two layers on rows of f32, as many as a call has; the first one runs twice.
struct Rows {
  Dim rows = dim("rows", 1, 100);
  Tensor x = placeholder({rows, 24}, f32, "x"), y;

  Rows() {
    const Tensor w = constant(NDArray::random({24, 24}, f32, 3));
    const Tensor v = constant(NDArray::random({24, 40}, f32, 4));
    y = layer(layer(layer(x, w, 24), w, 24), v, 40);
  }
  Tensor layer(const Tensor& a, const Tensor& w, int64_t to) const {
    const Axis k = reduce_axis(24, "k");
    const Tensor sums =
        compute({rows, to}, [&](Axis i, Axis j) { return sum(a(i, k) * w(k, j), k); }, "sums");
    return compute({rows, to}, [&](Axis i, Axis j) { return max(sums(i, j), 0.f); }, "layer");
  }
};

class GpuSizeRace : public GpuRace {
 protected:
  /// Each launch of a kernel of this candidate takes `seconds` over the number of launches.
  void take_always(const Schedule& s, size_t number, double seconds) {
    const GpuProgram p = driver::lower_for_gpu(s, network::task_args(s),
                                               {.name = "network_task" + std::to_string(number)});
    const double each = seconds / static_cast<double>(p.main.size());
    for (const GpuKernel& k : p.main)
      driver_.kernels[k.name].seconds = [each](const cuda::FakeDriver::Call&) { return each; };
  }

  /// Names of kernels of two tasks may be the same, their blocks not.
  void take_10us_or_less(const Schedule& s, size_t number, bool untuned, unsigned slow_to) {
    const std::string name = "network_task" + std::to_string(number);
    for (const GpuKernel& k :
         driver::lower_for_gpu(s, network::task_args(s), {.name = name}).main) {
      if (untuned) untuned_.insert({k.name, k.block[0]});
      driver_.kernels[k.name].seconds = [this, slow_to](const cuda::FakeDriver::Call& c) {
        if (untuned_.contains({c.kernel, c.block[0]})) return 10e-6;
        return in_whole_calls_ && c.grid[0] <= slow_to ? 20e-6 : 2e-6;
      };
    }
  }

  /// What a race of naive schedules keeps. Kernels of the static choice take 10 us, others 2 us in
  /// the races of tasks and then, in whole calls, 20 us where a grid has at most `slow_to` blocks.
  std::vector<TaskKernels> keep_where_calls_are_slow(unsigned slow_to) {
    const Network net({net_.y}, gpu_, {}, parse_passes("-horizontal"));
    const std::vector<Schedule> statics = net.static_schedules(), others = net.naive_schedules();
    const std::span<const Schedule> all = statics;
    const std::span<const TuneTask> tasks = net.tasks();
    for (size_t t = 0; t < statics.size(); ++t) {
      const network::TaskFamily& f = network::families_of(net)[t];
      if (f.outputs.empty()) continue;
      std::vector<Schedule> list =
          network::variants_for_all_sizes(f, all.subspan(t, f.count), tasks.subspan(t, f.count))
              .schedules;
      for (size_t v = 0; v < list.size(); ++v) take_10us_or_less(list[v], t + v, true, slow_to);
      for (size_t i = 0; i < f.count; ++i) {
        const Schedule other = for_all_sizes(others[t + i], f.outputs);
        for (size_t v = 0; v < f.count; ++v)
          take_10us_or_less(other, t + list.size() + v, false, slow_to);
      }
    }
    KernelRaceOptions options;
    options.race_seconds = 0.01;
    options.progress = [this](const std::string& line) {
      in_whole_calls_ = in_whole_calls_ || line == "raced at rows = 100";
    };
    return choose_kernels(net, {net_.rows}, options, others);
  }
  /// Whether each task has the static choice at 1 and at 100 rows.
  static void expect_untuned(const std::vector<TaskKernels>& kernels, bool at_1, bool at_100) {
    EXPECT_EQ(kernels.size(), 2U);
    for (const TaskKernels& k : kernels) {
      EXPECT_EQ(untuned_at(k, 1), at_1);
      EXPECT_EQ(untuned_at(k, 100), at_100);
    }
  }
  static bool untuned_at(const TaskKernels& k, int64_t rows) {
    const auto v = static_cast<size_t>(variant_at(k.kernels.tree, std::vector<int64_t>{rows}));
    return k.kernels.variants.at(v).name.ends_with(", untuned");
  }

  bool in_whole_calls_ = false;
  std::set<std::pair<std::string, int64_t>> untuned_;  ///< kernels, and the threads of a block
  const Rows net_;
};

TEST_F(GpuSizeRace, CallsOfTheWholeNetworkDecide) {
  driver_.any_kernel = true;
  expect_untuned(keep_where_calls_are_slow(0), false, false);
}

TEST_F(GpuSizeRace, TheStaticChoiceStaysWhereWholeCallsAreSlower) {
  driver_.any_kernel = true;
  expect_untuned(keep_where_calls_are_slow(1 << 30), true, true);
}

TEST_F(GpuSizeRace, TheStaticChoiceStaysAtSomeSizes) {
  driver_.any_kernel = true;
  expect_untuned(keep_where_calls_are_slow(4), true, false);
}

TEST_F(GpuSizeRace, CandidatesTakeTurnsInGraphsOfAllNodes) {
  driver_.any_kernel = true;
  const Network net({net_.y}, gpu_, {}, parse_passes("-horizontal"));
  const std::vector<Schedule> statics = net.static_schedules();
  std::vector<network::TaskVariants> all(net.tasks().size());
  const std::vector<std::vector<double>> seconds = {{10e-6, 4e-6, 50e-6}, {20e-6, 30e-6}};
  std::vector<size_t> tasks;
  for (size_t t = 0; t < all.size(); ++t) {
    const network::TaskFamily& f = network::families_of(net)[t];
    if (f.outputs.empty()) continue;
    for (size_t v = 0; v < seconds.at(tasks.size()).size(); ++v) {
      all[t].schedules.push_back(for_all_sizes(statics[t], f.outputs));
      take_always(all[t].schedules.back(), t + v, seconds[tasks.size()][v]);
    }
    all[t].tree = {TreeNode{}};
    tasks.push_back(t);
  }
  ASSERT_EQ(tasks.size(), 2U) << net.to_text();
  const network::SizeRace race(net, all);
  for (const int64_t rows : {1, 33}) {
    const auto times = race.at({{net_.rows, rows}}, 0.01);
    for (size_t v = 0; v < 3; ++v) EXPECT_NEAR(times[tasks[0]][v], 2 * seconds[0][v], 1e-9) << v;
    for (size_t v = 0; v < 2; ++v) EXPECT_NEAR(times[tasks[1]][v], seconds[1][v], 1e-9) << v;
  }
  EXPECT_GT(driver_.calls["graph_launch"], 0);
}

// What the race keeps is what a build and a library take, and it is in the records.
TEST_F(GpuSizeRace, AFewKernelsAreKeptAndRecorded) {
  driver_.any_kernel = true;
  const Network net({net_.y}, gpu_);
  KernelRaceOptions options;
  options.race_seconds = 0.01;
  options.max_kernels = 2;
  const std::vector<TaskKernels> kernels = choose_kernels(net, {net_.rows}, options);
  ASSERT_EQ(kernels.size(), 2U);
  for (const TaskKernels& k : kernels) {
    EXPECT_GT(k.kernels.candidates, 1);
    EXPECT_LE(k.kernels.variants.size(), 2U);
    EXPECT_EQ(k.kernels.rows.back().point.sizes, std::vector<int64_t>{100});
  }
  const std::string log = ::testing::TempDir() + "gpu_size_race_" + std::to_string(getpid());
  record_kernels(net, kernels, log);
  AutoSchedulerOptions scheduler;
  scheduler.record_log = log;
  const Network again({net_.y}, gpu_, scheduler);
  EXPECT_EQ(recorded_kernels(again, {net_.rows}).size(), 2U);
  std::remove(log.c_str());
}

TEST_F(GpuSizeRace, NeedsAGpu) {
  const Network elsewhere({net_.y}, Target::parse("cuda -gpu=a100"));
  EXPECT_THAT(message_of([&] { choose_kernels(elsewhere, {net_.rows}); }),
              HasSubstr("do not race on this machine"));
}

}  // namespace
}  // namespace heddle::testing
