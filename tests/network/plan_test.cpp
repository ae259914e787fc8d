// Plans: their file, and what of them a network takes.
#include "heddle/network/plan.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <thread>

#include "heddle/driver/build.h"
#include "heddle/network/export_network.h"
#include "heddle/network/tune.h"
#include "network/cut/sizes/family_tasks.h"
#include "network/exported_library.h"
#include "network/network_testing.h"
#include "network/plan/planned_schedules.h"
#include "network/sizes_testing.h"
#include "records/records_testing.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Target threads(int count) {
  Target target = Target::host();
  target.cores = count;
  return target;
}

/// Results that take `schedules` where they are not null, each as proven by a race.
TuneReport report_of(const Network& network, const std::vector<Schedule>& schedules) {
  TuneReport report;
  for (size_t t = 0; t < network.tasks().size(); ++t) {
    TaskResult result{.name = network.tasks()[t].name, .config = {}, .schedule = schedules[t]};
    result.static_seconds = 2e-3;
    result.best_seconds = 1e-3;
    result.rounds = 24;
    result.trials = 7;
    result.improved = true;
    report.tasks.push_back(std::move(result));
  }
  report.network = NetworkTimes{.static_seconds = 4e-3,
                                .best_seconds = 3e-3,
                                .rounds = 12,
                                .changed = 1,
                                .verdict = RaceResult::Faster};
  return report;
}

/// Two attention layers, of which one does not join its products, with naive kernels.
struct Planned {
  Planned() : x(placeholder({1, 8, 16}, f32, "x")) {
    outputs = {attention(linear(attention(x), 32))};
    network = with_passes(outputs, "-join_products@16x48");
    plan = plan_of(*network, report_of(*network, network->naive_schedules()));
    plan.model = "net.onnx:batch=1";
  }
  Tensor x;
  std::vector<Tensor> outputs;
  std::optional<Network> network;
  NetworkPlan plan;
};

TEST(Plan, SurvivesItsFile) {
  const Planned p;
  const Folder folder;
  const std::string path = folder / "net.heddle";
  save_plan(p.plan, path);
  const NetworkPlan read = load_plan(path);
  EXPECT_EQ(to_text(read), to_text(p.plan));
  EXPECT_EQ(read.passes, "-join_products@16x48");
  EXPECT_EQ(read.target, p.plan.target);
  EXPECT_EQ(read.nodes.size(), p.network->tasks().size());
  EXPECT_EQ(read.nodes[0].proof, PlanProof::Race);
  EXPECT_EQ(read.nodes[0].rounds, 24);
  EXPECT_EQ(read.rounds, 12);
  EXPECT_TRUE(plan_differences(read, p.plan).empty());
}

TEST(Plan, HasALineForEachNode) {
  const Planned p;
  const std::string text = to_text(p.plan);
  for (const PlannedNode& node : p.plan.nodes) {
    const size_t at = text.find(Json(node.name).dump());
    ASSERT_NE(at, std::string::npos) << node.name;
    const std::string line = text.substr(text.rfind('\n', at) + 1, 9);
    EXPECT_EQ(line, "{\"hash\":\"") << node.name;
  }
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')),
            p.plan.nodes.size() + 15);
}

TEST(Plan, DecidesWhatANetworkIsBuiltFrom) {
  const Planned p;
  const Network usual(p.outputs);
  const Network planned = usual.with_plan(p.plan);
  ASSERT_NE(planned.plan_use(), nullptr);
  EXPECT_EQ(usual.plan_use(), nullptr);
  EXPECT_TRUE(planned.plan_use()->whole()) << to_string(*planned.plan_use());
  EXPECT_EQ(planned.plan_use()->rules(), 0);
  EXPECT_EQ(planned.nodes().size(), p.network->nodes().size()) << "with the plan's passes";
  EXPECT_NE(planned.nodes().size(), usual.nodes().size());
  const std::vector<Schedule> naive = planned.naive_schedules();
  for (size_t t = 0; t < naive.size(); ++t) {
    const network::TaskFamily& task = network::families_of(planned)[t];
    ASSERT_TRUE(task.planned);
    EXPECT_EQ(task.planned->schedules[0].to_json().at("steps"), naive[t].to_json().at("steps"));
  }
  const std::vector<Tensor> args = args_of(p.outputs);
  const std::vector<NDArray> arrays = arrays_for(args);
  usual.build(args, p.plan).call(arrays);
  EXPECT_EQ(differs_from_interpreter(p.outputs, args, arrays), "");
}

TEST(Plan, ARuleIsAChoiceToo) {
  Planned p;
  p.plan.nodes[0].schedule = {};
  const PlanUse use = *p.network->with_plan(p.plan).plan_use();
  EXPECT_TRUE(use.whole());
  EXPECT_EQ(use.rules(), 1);
  EXPECT_THAT(to_string(use), HasSubstr("1 by rule"));
}

TEST(Plan, OfOtherThreadsHoldsAndSaysSo) {
  Planned p;
  const Network here(p.outputs, threads(p.plan.target.cores + 1));
  const PlanUse use = *here.with_plan(p.plan).plan_use();
  EXPECT_FALSE(use.whole());
  EXPECT_EQ(use.planned(), static_cast<int>(use.nodes.size()));
  EXPECT_THAT(to_string(use), HasSubstr("this is for " + std::to_string(p.plan.target.cores + 1)));
}

TEST(Plan, OfAnotherMachineHoldsWhereItsStepsCompile) {
  Planned p;
  p.plan.target = Target::parse("llvm -mcpu=sapphirerapids -threads=2");
  const Network planned = Network(p.outputs).with_plan(p.plan);
  EXPECT_THAT(to_string(*planned.plan_use()), HasSubstr("it was made for 'llvm -mcpu=sapphire"));
  const std::vector<Tensor> args = args_of(p.outputs);
  const std::vector<NDArray> arrays = arrays_for(args);
  planned.build(args).call(arrays);
  EXPECT_EQ(differs_from_interpreter(p.outputs, args, arrays), "");
  p.plan.target = Target::parse("cuda -gpu=h200");
  const PlanUse none = *Network(p.outputs).with_plan(p.plan).plan_use();
  EXPECT_EQ(none.planned(), 0);
  EXPECT_THAT(to_string(none), HasSubstr("another kind of machine"));
}

TEST(Plan, OfAnotherNetworkGivesTheNodesThatAreEqual) {
  const Planned p;
  // The first layer alone, and then another one.
  const std::vector<Tensor> outputs{attention(linear(attention(p.x), 24))};
  const Network planned = Network(outputs).with_plan(p.plan);
  const PlanUse& use = *planned.plan_use();
  EXPECT_GT(use.planned(), 0) << to_string(use);
  EXPECT_LT(use.planned(), static_cast<int>(use.nodes.size()));
  EXPECT_THAT(to_string(use),
              AllOf(HasSubstr("another declaration"), HasSubstr("it is not in the plan")));
  const std::vector<Tensor> args = args_of(outputs);
  const std::vector<NDArray> arrays = arrays_for(args);
  planned.build(args).call(arrays);
  EXPECT_EQ(differs_from_interpreter(outputs, args, arrays), "");
}

TEST(Plan, ChoicesThatTheGraphDoesNotHaveAreLeftOut) {
  Planned p;
  p.plan.passes = "-join_products@99x99";
  const Network planned = Network(p.outputs).with_plan(p.plan);
  EXPECT_EQ(to_string(planned.pass_options()), "");
  EXPECT_THAT(to_string(*planned.plan_use()), HasSubstr("no choice 'join_products@99x99'"));
}

TEST(Plan, IllegalStepsAreLeftOut) {
  Planned p;
  for (PlannedNode& node : p.plan.nodes)
    node.schedule = Json::object({{"v", 1}, {"steps", Json::array()}});
  Json steps = Json::array(
      {Json::array({"split", 99, Json::array({7}), Json::array({4}), Json::array({8, 9})})});
  p.plan.nodes[0].schedule["steps"] = steps;
  p.plan.nodes[1].schedule["alternative"] = "no such rule";
  p.plan.nodes[2].schedule = {};
  p.plan.nodes[2].kernels = Json::object({{"tree", 3}});
  const Network planned = Network(p.outputs).with_plan(p.plan);
  const PlanUse& use = *planned.plan_use();
  EXPECT_EQ(use.planned(), static_cast<int>(use.nodes.size()) - 3) << to_string(use);
  EXPECT_THAT(use.nodes[2].why_not, HasSubstr("kernels by size"));
  const std::vector<Tensor> args = args_of(p.outputs);
  const std::vector<NDArray> arrays = arrays_for(args);
  planned.build(args).call(arrays);
  EXPECT_EQ(differs_from_interpreter(p.outputs, args, arrays), "");
}

TEST(Plan, HasTheChoicesThatTuningTook) {
  const Planned p;
  const Network usual(p.outputs);
  ASSERT_NE(usual.to_text(), p.network->to_text());
  TuneReport report = report_of(*p.network, p.network->naive_schedules());
  report.passes = "-join_products@16x48";
  const NetworkPlan plan = plan_of(usual, report);
  EXPECT_EQ(plan.passes, "-join_products@16x48");
  for (const PlannedNode& node : p.plan.nodes) EXPECT_NE(plan.find(node.hash), nullptr);
}

struct OverRows {
  Dim rows;
  Tensor x, y;
};

/// A product with weights, over a number of rows.
OverRows product_over_rows() {
  const Dim rows = dim("rows", 1, 40);
  const Axis k = reduce_axis(12, "k");
  const Tensor x = placeholder({rows, 12}, f32, "x"),
               w = constant(NDArray::random({12, 30}, f32, 3), "w");
  const Tensor y =
      compute({rows, 30}, [&](Axis i, Axis j) { return sum(x(i, k) * w(k, j), k); }, "y");
  return {rows, x, y};
}

TEST(Plan, OverSizesHasKernelsAndTheirTree) {
  const auto [rows, x, y] = product_over_rows();
  const Network network({y}, threads(1));
  KernelRaceOptions quick;
  quick.race_seconds = 0.01;
  const std::vector<TaskKernels> kernels = choose_kernels(network, {rows}, quick);
  const NetworkPlan plan = parse_plan(
      to_text(plan_of(network, report_of(network, network.static_schedules()), kernels)), "text");
  ASSERT_EQ(plan.nodes.size(), 1U);
  EXPECT_FALSE(plan.nodes[0].kernels.is_null());
  const Network planned = network.with_plan(plan);
  EXPECT_TRUE(planned.plan_use()->whole()) << to_string(*planned.plan_use());
  const NetworkKernel kernel = planned.build({x, y});
  EXPECT_EQ(kernel.build_report().kernels, static_cast<int>(kernels[0].kernels.variants.size()));
  for (const int64_t n : {1, 7, 40}) EXPECT_EQ(wrong_at(kernel, {y}, {x, y}, {{rows, n}}), "") << n;
}

TEST(Plan, OverSizesIsRetunedWithItsKernels) {
  const auto [rows, x, y] = product_over_rows();
  const Network network({y}, threads(1));
  int compiled = 0;
  KernelRaceOptions quick;
  quick.race_seconds = 0.01;
  quick.progress = [&](const std::string& line) {
    std::sscanf(line.c_str(), "compiling %d", &compiled);
  };
  std::vector<TaskKernels> kernels = choose_kernels(network, {rows}, quick);
  const int without_plan = compiled;
  FamilyResult& family = kernels[0].kernels;
  family.variants = {{"naive", {}, naive_schedule({y}, threads(1))}};
  family.tree = {TreeNode{}};
  family.rows.clear();
  const Network planned =
      network.with_plan(plan_of(network, report_of(network, network.static_schedules()), kernels));
  ASSERT_TRUE(planned.plan_use()->whole()) << to_string(*planned.plan_use());
  (void)choose_kernels(planned, {rows}, quick);
  EXPECT_EQ(compiled, without_plan + 1) << "the kernel of the plan races, too";

  const TuneClock clock(30);
  const NetworkPlan again = plan_of(retune(planned, 0.05, clock, {rows}));
  ASSERT_EQ(again.nodes.size(), 1U);
  EXPECT_EQ(again.nodes[0].proof, PlanProof::Race);
  const NetworkKernel kernel = network.with_plan(again).build({x, y});
  for (const int64_t n : {1, 7, 40}) EXPECT_EQ(wrong_at(kernel, {y}, {x, y}, {{rows, n}}), "") << n;
  EXPECT_THAT(message_of([&] { (void)retune(planned, 0.05, clock); }),
              HasSubstr("the dimensions are not those of the network"));
  EXPECT_THAT(message_of([&] { (void)retune(network, 0.05, clock, {rows}); }),
              HasSubstr("has no plan"));
}

TEST(Plan, IsInTheExportedLibrary) {
  const Folder folder;
  const std::vector<Tensor> outputs{ops::relu(
      ops::matmul(placeholder({3, 5}, f32, "x"), constant(NDArray::random({5, 7}, f32, 2), "w")))};
  const Network network(outputs);
  const NetworkPlan plan = plan_of(network, report_of(network, network.naive_schedules()));
  std::vector<Tensor> args;
  for (const Tensor& t : args_of(outputs)) {
    if (!t.op()->is_constant()) args.push_back(t);
  }
  const ExportedNetwork written =
      export_network(network.with_plan(plan), args, folder.path(), {.name = "planned"});
  const ExportedLibrary library(written.library, "planned");
  EXPECT_EQ(library.find<const char*()>("planned_plan")(), to_text(plan));
  EXPECT_THAT(library.find<const char*()>("planned_version")(), HasSubstr("model "));
}

/// A network of layers that the seed draws, with weights.
std::vector<Tensor> drawn(uint64_t seed) {
  Rng rng(seed);
  const auto pick = [&](int64_t low, int64_t high) { return rng.uniform_int(low, high); };
  int64_t width = 8 * pick(1, 4);
  Tensor y = placeholder({pick(1, 6), width}, f32, "x");
  for (int64_t layers = pick(2, 4); layers > 0; --layers) {
    const int64_t next = 8 * pick(1, 4);
    const NDArray values =
        NDArray::random({width, next}, f32, seed + static_cast<uint64_t>(layers));
    y = ops::matmul(y, constant(values, "w" + std::to_string(layers)));
    y = rng.chance(0.5) ? ops::relu(y) : ops::softmax(y);
    width = next;
  }
  return {y};
}

// Tuned once; then written, read by what stands for a process that starts again, exported, and used
// with another number of threads.
TEST(Plan, OfDrawnNetworksSurvivesExportRestartAndOtherThreads) {
  for (const uint64_t seed : {11, 12}) {
    SCOPED_TRACE(seed);
    const Folder folder;
    std::vector<std::string> steps;
    {
      const Network network(drawn(seed));
      std::vector<Schedule> tuned;
      for (const TuneTask& task : network.tasks()) {
        tuned.push_back(task.tmpl.instantiate(other_config(task.tmpl)));
        steps.push_back(tuned.back().to_json().at("steps").dump());
      }
      save_plan(plan_of(network, report_of(network, tuned)), folder / "net.heddle");
    }
    const NetworkPlan plan = load_plan(folder / "net.heddle");
    const std::vector<Tensor> outputs = drawn(seed);
    const Tensor x = [&] {
      for (const Tensor& t : ComputeDag(outputs).placeholders()) {
        if (!t.op()->is_constant()) return t;
      }
      return Tensor();
    }();
    const NDArray in = NDArray::random(x.extents(), f32, seed);
    const NDArray want = interpret(outputs, {{x, in}})[0];
    for (const int more : {0, 1}) {
      const Network planned = Network(outputs, threads(plan.target.cores + more)).with_plan(plan);
      EXPECT_EQ(planned.plan_use()->whole(), more == 0) << to_string(*planned.plan_use());
      for (size_t t = 0; t < steps.size(); ++t) {
        const auto& kernels = network::families_of(planned)[t].planned;
        ASSERT_TRUE(kernels);
        EXPECT_EQ(kernels->schedules[0].to_json().at("steps").dump(), steps[t]);
      }
      NDArray out = NDArray::zeros(want.shape(), f32);
      planned.build({x, outputs[0]}).call(std::vector<NDArray>{in, out});
      EXPECT_TRUE(allclose(out, want, 1e-4, 1e-4));
      const ExportedNetwork written = export_network(
          planned, {x, outputs[0]}, folder / std::to_string(more), {.name = "drawn"});
      const ExportedLibrary library(written.library, "drawn");
      EXPECT_EQ(library.find<const char*()>("drawn_plan")(), to_text(plan));
      void* opened = library.open(nullptr);
      ASSERT_NE(opened, nullptr) << library.error();
      NDArray got = NDArray::zeros(want.shape(), f32);
      const void* inputs[] = {in.data()};
      void* results[] = {got.data()};
      EXPECT_EQ(library.run(opened, inputs, results), 0) << library.error();
      library.close(opened);
      EXPECT_TRUE(allclose(got, want, 1e-4, 1e-4));
    }
  }
}

// The schedules of a plan race in the graph that was chosen before.
TEST(Plan, ACallByRuleHasTheGraphOfTheRules) {
  const Planned p;
  TunedNetwork tuned{.network = *p.network,
                     .report = report_of(*p.network, p.network->naive_schedules())};
  const double same_graph = plan_of(tuned).rule_seconds;
  EXPECT_GT(same_graph, 0);
  tuned.choices.times = {
      .static_seconds = 3e-3, .best_seconds = 2e-3, .verdict = RaceResult::NotProven};
  EXPECT_EQ(plan_of(tuned).rule_seconds, same_graph);
  tuned.choices.times.verdict = RaceResult::Faster;
  EXPECT_DOUBLE_EQ(plan_of(tuned).rule_seconds, 1.5 * same_graph);
}

TEST(Plan, WhatIsProvenStaysWhenTwoAreMerged) {
  const Planned p;
  NetworkPlan later = p.plan;
  for (PlannedNode& node : later.nodes) node.schedule = {};
  later.seconds = later.rule_seconds;
  later.decided = false;
  // A race that could not tell.
  EXPECT_TRUE(plan_differences(merged(p.plan, later), p.plan).empty());
  EXPECT_EQ(merged(p.plan, later).seconds, p.plan.seconds);
  // The rules' choices beat the plan.
  later.decided = true;
  EXPECT_TRUE(plan_differences(merged(p.plan, later), later).empty());
  later.decided = false;
  // A race that proved a gain with other kernels.
  later.nodes[0].schedule = p.plan.nodes[0].schedule;
  later.nodes[0].schedule["alternative"] = "another";
  EXPECT_TRUE(plan_differences(merged(p.plan, later), later).empty());
  // Less than a race.
  later.nodes[0].proof = PlanProof::Trials;
  EXPECT_EQ(merged(p.plan, later).nodes[0].schedule, p.plan.nodes[0].schedule);
  // Nodes of both.
  later = p.plan;
  later.nodes.erase(later.nodes.begin());
  EXPECT_EQ(merged(p.plan, later).nodes.size(), p.plan.nodes.size());
  EXPECT_THAT(plan_differences(p.plan, later),
              ::testing::ElementsAre(HasSubstr("only in the first")));
  later.target.cores += 1;
  EXPECT_THAT(message_of([&] { (void)merged(p.plan, later); }), HasSubstr("cannot be merged"));
}

/// The message for a text in which `from` is replaced.
std::string message_with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return message_of([&] { (void)parse_plan(text, "p.heddle"); });
}

TEST(Plan, RunnersUpComeFromTheLogAndRaceWhereItIsRetuned) {
  Planned p;
  const std::vector<TuneTask>& tasks = p.network->tasks();
  std::vector<Record> log;
  for (const TuneTask& task : tasks) {
    for (const Config& config : {task.tmpl.default_config(), other_config(task.tmpl)}) {
      log.push_back(make_record(task.name, task.tmpl, config));
      log.back().seconds = {1e-3};
    }
  }
  NetworkPlan plan = p.plan;
  for (int twice = 0; twice < 2; ++twice) add_runners_up(plan, log);
  for (const PlannedNode& node : plan.nodes) {
    EXPECT_EQ(node.runners_up.size(), 2u) << node.name << ": each once, and not its own";
  }
  EXPECT_EQ(to_text(parse_plan(to_text(plan), "f")), to_text(plan));
  // One that is illegal is left out, and the node still holds.
  plan.nodes[0].runners_up.push_back(
      Json::parse(R"({"v":1,"steps":[["split",99,[0],[4],[100,101]]]})"));
  const Network planned = Network(p.outputs).with_plan(plan);
  EXPECT_TRUE(planned.plan_use()->whole()) << to_string(*planned.plan_use());
  EXPECT_EQ(network::runners_up_of(plan, plan.nodes[0], planned.tasks()[0].tmpl).size(), 2u);
  const TuneClock clock(30);
  NetworkPlan again = plan_of(retune(planned, 5, clock));
  add_runners_up(again, plan);
  for (const PlannedNode& node : again.nodes) {
    EXPECT_FALSE(node.runners_up.empty()) << "what lost here may win on another machine";
  }
}

// Each of four writers found another node.
TEST(Plan, WritersOfOneFileLoseNothing) {
  const Planned p;
  const Folder folder;
  const std::string path = folder / "net.heddle";
  NetworkPlan rules = p.plan;
  for (PlannedNode& node : rules.nodes) {
    node.schedule = Json();
    node.proof = PlanProof::None;
  }
  ASSERT_GE(rules.nodes.size(), 2u);
  std::vector<std::thread> writers;
  for (size_t n = 0; n < rules.nodes.size(); ++n) {
    writers.emplace_back([&, n] {
      NetworkPlan own = rules;
      own.nodes[n] = p.plan.nodes[n];
      save_merged_plan(own, path);
    });
  }
  for (std::thread& w : writers) w.join();
  const NetworkPlan all = load_plan(path);
  for (const PlannedNode& node : all.nodes) EXPECT_FALSE(node.is_rule()) << node.name;
  NetworkPlan other = p.plan;
  other.target.cores += 1;
  EXPECT_THAT(error_of([&] { save_merged_plan(other, path); }), HasSubstr("cannot be merged"));
}

TEST(Plan, RunnersUpAreReadStrictly) {
  Planned p;
  const Json steps = p.plan.nodes[0].schedule;
  p.plan.nodes[0].runners_up = {steps, steps, steps, steps};
  EXPECT_THAT(error_of([&] { parse_plan(to_text(p.plan), "f"); }),
              AllOf(HasSubstr("key 'runners_up'"), HasSubstr("at most 3")));
  p.plan.nodes[0].runners_up = {Json("rule")};
  EXPECT_THAT(error_of([&] { parse_plan(to_text(p.plan), "f"); }), HasSubstr("no runner-up"));
}

TEST(Plan, AMistakeIsNamedWithLineAndKey) {
  const Planned p;
  const std::string text = to_text(p.plan);
  EXPECT_THAT(message_with(text, "heddle-plan", "other"), HasSubstr("p.heddle:2: key 'schema'"));
  EXPECT_THAT(message_with(text, "\"version\": 1", "\"version\": 2"),
              AllOf(HasSubstr("p.heddle:3:"), HasSubstr("version 2"), HasSubstr("help:")));
  EXPECT_THAT(message_with(text, "\"passes\": \"", "\"passes\": \"no_such_pass,"),
              HasSubstr("p.heddle:8: key 'passes'"));
  EXPECT_THAT(message_with(text, "\"passes\"", "\"pases\""),
              AllOf(HasSubstr("p.heddle:8:"), HasSubstr("'pases'"), HasSubstr("passes")));
  EXPECT_THAT(message_with(text, "\"target\": \"llvm", "\"target\": \"lvm"),
              HasSubstr("p.heddle:7: key 'target'"));
  EXPECT_THAT(message_with(text, "\"rounds\":24", "\"rounds\":-1"),
              HasSubstr("p.heddle:14: key 'rounds'"));
  EXPECT_THAT(message_with(text, "\"seconds\":0.001", "\"seconds\":1e999"),
              HasSubstr("p.heddle:14:"));
  EXPECT_THAT(message_with(text, "\"calls\":", "\"cals\":"), HasSubstr("p.heddle:14: key 'cals'"));
  EXPECT_THAT(message_with(text, "\"proof\":\"race\"", "\"proof\":\"won\""),
              HasSubstr("one of: none, trials, race"));
  NetworkPlan twice = p.plan;
  twice.nodes.push_back(twice.nodes[0]);
  EXPECT_THAT(message_of([&] { (void)parse_plan(to_text(twice), "p.heddle"); }),
              HasSubstr("p.heddle:" + std::to_string(14 + p.plan.nodes.size()) + ": key 'hash'"));
}

TEST(Plan, OfEveryLengthIsAnError) {
  const std::string text = to_text(Planned().plan);
  for (size_t length = 0; length + 2 < text.size(); length += 1 + length / 50)
    EXPECT_THAT(message_of([&] { (void)parse_plan(text.substr(0, length), "p.heddle"); }),
                HasSubstr("p.heddle:"))
        << length;
  EXPECT_THAT(message_of([] { (void)load_plan("no/such.heddle"); }), HasSubstr("no/such.heddle"));
}

}  // namespace
}  // namespace heddle::testing
