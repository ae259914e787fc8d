// tune(network): every task gets its trials, and the result builds and computes the same.
#include <set>

#include "heddle/network/tune.h"
#include "heddle/ops/ops.h"
#include "measure/cpu/server.h"
#include "network/network_testing.h"
#include "records/records_testing.h"

namespace heddle::testing {
namespace {

// Times without running anything: schedules that are not the static choice are faster.
class InstantMeasurer : public Measurer {
 public:
  void measure(const TuneTask& task, std::span<const Schedule> schedules, double, const TuneClock&,
               const std::function<void(size_t, const MeasureResult&)>& done) override {
    for (size_t i = 0; i < schedules.size(); ++i) done(i, time(task, schedules[i]));
  }
  std::vector<MeasureResult> race(const TuneTask& task, std::span<const Schedule> schedules, double,
                                  const TuneClock&) override {
    std::vector<MeasureResult> results;
    for (const Schedule& s : schedules) results.push_back(time(task, s));
    return results;
  }
  std::string protocol() const override { return "instant"; }

  std::set<std::string> measured;  // names of tasks

 private:
  MeasureResult time(const TuneTask& task, const Schedule& schedule) {
    measured.insert(task.name);
    const Template& t = task.tmpl;
    // As a candidate, and as the static choice, whose text says that it is.
    const std::string text = schedule.to_text();
    const bool is_static = text == t.static_schedule().to_text() ||
                           text == t.instantiate(t.default_config()).to_text();
    MeasureResult r;
    r.seconds.assign(5, is_static ? 2e-3 : 1e-3);
    return r;
  }
};

std::set<std::string> names_of_tasks(const Network& net) {
  std::set<std::string> names;
  for (const TuneTask& task : net.tasks()) names.insert(task.name);
  return names;
}

TEST(TuneNetwork, ReturnsAScheduleATaskThatBuildsTheSameNetwork) {
  const std::vector<Tensor> outputs{digits_network()}, args = args_of(outputs);
  const Network net(outputs);
  InstantMeasurer measurer;
  TuneOptions options;
  options.budget = std::chrono::seconds(20);
  options.batch = 8;
  options.max_trials = 100;
  options.measurer = &measurer;
  options.policy = [](const SearchContext& c) { return make_random_policy(c); };
  const TuneReport report = tune(net, options);
  ASSERT_EQ(report.tasks.size(), net.tasks().size());
  EXPECT_EQ(names_of_tasks(net), measurer.measured);
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    EXPECT_EQ(report.tasks[i].name, net.tasks()[i].name);
    EXPECT_LE(report.tasks[i].best_seconds, report.tasks[i].static_seconds);
    EXPECT_TRUE(report.tasks[i].improved) << report.tasks[i].name;
  }
  const NetworkKernel run = net.build(args, report);
  const std::vector<NDArray> arrays = arrays_for(args);
  run.call(arrays);
  EXPECT_EQ(differs_from_interpreter(outputs, args, arrays), "");
}

TEST(TuneNetwork, AReportMayBeOfTheNetworkWithOtherChoices) {
  const Tensor x = placeholder({1, 8, 16}, f32, "x");
  const std::vector<Tensor> outputs{attention(x)}, args = args_of(outputs);
  const Network net(outputs);
  TuneReport report;
  report.passes = "-join_products";
  const Network separate = net.as_tuned(report);
  ASSERT_GT(separate.nodes().size(), net.nodes().size());
  for (const Schedule& schedule : separate.static_schedules())
    report.tasks.push_back({.name = "task", .config = {}, .schedule = schedule});
  const std::vector<NDArray> arrays = arrays_for(args);
  net.build(args, report).call(arrays);
  EXPECT_EQ(differs_from_interpreter(outputs, args, arrays), "");
}

TEST(TuneNetwork, TriesTheChoicesAboutTheGraph) {
  const Tensor x = placeholder({1, 8, 16}, f32, "x");
  const std::vector<Tensor> outputs{attention(x)}, args = args_of(outputs);
  const Network net(outputs, Target::parse("llvm -mcpu=native -threads=1"));
  TuneOptions options;
  options.budget = std::chrono::seconds(8);
  options.max_trials = 4;
  const TuneReport report = tune(net, options);
  ASSERT_TRUE(report.passes);
  EXPECT_EQ(report.tasks.size(), net.as_tuned(report).tasks().size());
  const std::vector<NDArray> arrays = arrays_for(args);
  net.build(args, report).call(arrays);
  EXPECT_EQ(differs_from_interpreter(outputs, args, arrays), "");
  options.budget = std::chrono::seconds(0);
  EXPECT_THAT(message_of([&] { (void)tune(net, options); }), ::testing::HasSubstr("budget"));
}

/// Options of a run that measures nothing: a plan file, and a tuner that keeps the static choices.
NetworkTuneOptions without_measuring(const std::string& plan_file) {
  NetworkTuneOptions how;
  how.plan_file = plan_file;
  how.tune_tasks = [](const std::vector<TuneTask>& tasks, const TuneOptions& options) {
    TuneReport report;
    report.log = options.log;
    for (const TuneTask& task : tasks)
      report.tasks.push_back(
          {.name = task.name, .config = {}, .schedule = task.tmpl.static_schedule()});
    return report;
  };
  return how;
}

TEST(TuneNetwork, GoesOnFromAPlanThatTriedAllChoices) {
  const Tensor x = placeholder({1, 8, 16}, f32, "x");
  const Network net({attention(x)}, Target::parse("llvm -mcpu=native -threads=1"));
  const Folder folder;
  NetworkTuneOptions how = without_measuring(folder / "net.heddle");
  const Network separate = net.with_passes(parse_passes("-join_products"));
  how.race_here = false;
  NetworkPlan plan = plan_of(tune_network(separate, {}, how));
  EXPECT_EQ(plan.passes_proof, PlanProof::None);
  plan.passes_proof = PlanProof::Race;
  save_plan(plan, how.plan_file);

  how.race_here = true;
  int times = 0;
  how.chosen = [&](const Network& chosen, const PassChoice& choices) {
    ++times;
    EXPECT_TRUE(choices.trials.empty()) << "the choices raced again";
    EXPECT_EQ(chosen.nodes().size(), separate.nodes().size());
  };
  const TunedNetwork tuned = tune_network(net, {}, how);
  EXPECT_EQ(times, 1);
  EXPECT_TRUE(tuned.choices_proven);
  const NetworkPlan next = plan_of(tuned);
  EXPECT_EQ(next.passes_proof, PlanProof::Race);
  EXPECT_EQ(next.passes, plan.passes);

  const Network other({attention(placeholder({1, 4, 16}, f32, "x"))}, plan.target);
  EXPECT_THAT(message_of([&] { (void)tune_network(other, {}, how); }),
              ::testing::HasSubstr("is the plan of another network"));
  how.chosen = nullptr;
  how.plan_of_others = true;
  how.race_here = false;
  EXPECT_FALSE(tune_network(other, {}, how).choices_proven);
}

TEST(TuneNetwork, APlanHasTheGoodSchedulesOfTheLogAsRunnersUp) {
  const Network net({digits_network()});
  const Folder folder;
  InstantMeasurer measurer;
  TuneOptions options;
  options.budget = std::chrono::seconds(20);
  options.max_trials = 60;
  options.measurer = &measurer;
  options.log = folder / "net.jsonl";
  options.policy = [](const SearchContext& c) { return make_random_policy(c); };
  const NetworkPlan plan = plan_of(tune_network(net, options, {.race_here = false}));
  EXPECT_TRUE(std::any_of(plan.nodes.begin(), plan.nodes.end(),
                          [](const PlannedNode& n) { return !n.runners_up.empty(); }));
}

// All schedules but the static one take the same time, so nothing beats those of the plan.
TEST(TuneNetwork, TuningAgainKeepsWhatNothingBeats) {
  const Network net({digits_network()});
  const Folder folder;
  const auto tuned = [&](uint64_t seed) {
    InstantMeasurer measurer;
    TuneOptions options;
    options.budget = std::chrono::seconds(20);
    options.max_trials = 60;
    options.measurer = &measurer;
    options.seed = seed;
    options.warm_start = false;
    options.policy = [seed](const SearchContext& c) {
      SearchContext own = c;
      own.seed = seed;
      return make_random_policy(own);
    };
    return plan_of(
        tune_network(net, options, {.plan_file = folder / "net.heddle", .race_here = false}));
  };
  const NetworkPlan first = tuned(1), others = tuned(2);
  ASSERT_FALSE(plan_differences(first, others).empty()) << "both searches found the same";
  save_plan(first, folder / "net.heddle");
  const NetworkPlan again = tuned(2);
  EXPECT_THAT(plan_differences(first, again), ::testing::IsEmpty());
  for (const PlannedNode& node : again.nodes)
    EXPECT_TRUE(node.is_rule() || node.proof == PlanProof::Race) << node.name;
}

TEST(TuneNetwork, TasksKnowWhatAllWeightsTake) {
  const Tensor x = placeholder({6, 32}, f32, "x"), w = constant_placeholder({32, 48}, f32, "w"),
               v = constant_placeholder({48, 32}, f32, "v"),
               b = constant_placeholder({32}, f32, "b");
  // Three equal layers. The last two read the same weights, which are packed once.
  const Tensor w2 = constant_placeholder({32, 48}, f32, "w2"),
               v2 = constant_placeholder({48, 32}, f32, "v2");
  Tensor h = ops::add(ops::matmul(ops::relu(ops::matmul(x, w2)), v2), b);
  for (int layer = 0; layer < 2; ++layer)
    h = ops::add(ops::matmul(ops::relu(ops::matmul(h, w)), v), b);
  const Network net({h});
  const int64_t bytes = 4 * 2 * (32 * 48 + 48 * 32 + 32);
  for (const TuneTask& task : net.tasks_to_tune()) EXPECT_EQ(task.network_bytes, bytes);
  for (const TuneTask& task : net.tasks()) EXPECT_EQ(task.network_bytes, 0);
}

// A sum of exponentials is positive; drawn from [-1, 1] it would make quotients of anything.
TEST(TuneNetwork, TasksGetInputsOfTheKindThatTheirProducersGive) {
  const Tensor x = placeholder({6, 32}, f32, "x"), w = constant_placeholder({32, 48}, f32, "w"),
               v = constant_placeholder({48, 16}, f32, "v");
  const Tensor a = ops::matmul(x, w);
  const Axis k = reduce_axis(48, "k");
  const Tensor e = compute({6, 48}, [&](Axis i, Axis j) { return exp(a(i, j)); }, "e");
  const Tensor s = compute({6}, [&](Axis i) { return sum(e(i, k), k); }, "s");
  const Tensor p = compute({6, 48}, [&](Axis i, Axis j) { return e(i, j) / s(i); }, "p");
  const Network net({ops::matmul(ops::relu(ops::matmul(p, v)), constant_placeholder({16, 8}))});
  int positive = 0;
  for (const TuneTask& task : net.tasks()) {
    for (size_t i = 0; i < task.args.size(); ++i) {
      const std::string& name = task.args[i].name();
      if (!task.args[i].op()->is_placeholder() || name == "x" || name == "w" || name == "v")
        continue;
      if (name != "e" && name != "s" && name != "p" && name != "relu") continue;
      ++positive;
      const NDArray values = measuring::random_input(task, i);
      double least = 1;
      for (int64_t n = 0; n < values.size(); ++n) least = std::min(least, values.get(n));
      EXPECT_GE(least, 0) << name << " of " << task.name;
    }
  }
  EXPECT_GT(positive, 0);
}

}  // namespace
}  // namespace heddle::testing
