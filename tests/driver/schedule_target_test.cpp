// A schedule and a template hold the target and the options that they were made with: what is built
// from them depends on nothing else.
#include <dlpack/dlpack.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "driver/driver_testing.h"
#include "heddle/cost_model/features.h"
#include "heddle/driver/export.h"
#include "heddle/network/network.h"
#include "heddle/records/database.h"
#include "heddle/search/tune.h"

namespace heddle::testing {
namespace {

Target a_gpu() { return Target::parse("cuda -gpu=h200"); }

Tensor product() { return ops::matmul(placeholder({64, 48}), placeholder({48, 80})); }

// Of every kind of AutoSchedulerOptions, what a CPU has no use for: whoever reads the options of
// the scope, in place of those that a schedule holds, runs into an error.
AutoSchedulerOptions not_for_cpus() { return {.block_threads = 128}; }

template <class F>
Error error_from(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::Internal, "no error", {}, "");
}

TEST(ScheduleTarget, BuildTakesTheTargetFromTheSchedule) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  for (const Schedule& s :
       {create_schedule({product()}, a_gpu()), naive_schedule({product()}, a_gpu())}) {
    EXPECT_EQ(s.target(), a_gpu());
    const Kernel kernel = build(s, all_args(s.dag()));
    EXPECT_NE(kernel.source("cuda").find("__global__"), std::string::npos);
  }
}

TEST(ScheduleTarget, MadeByHandItIsForThisMachineUnlessToldOtherwise) {
  const Tensor c = product();
  EXPECT_EQ(Schedule({c}).target(), Target::host());
  EXPECT_EQ(Schedule(ComputeDag({c})).target(), Target::host());
  EXPECT_EQ(naive_schedule({c}).target(), Target::host());
  EXPECT_EQ(Schedule({c}, a_gpu()).target(), a_gpu());
  const Schedule narrow({c}, Target::host(), {.vector_bytes = 16});
  EXPECT_EQ(narrow.target().vector_bytes, 16);
  EXPECT_EQ(narrow.options().vector_bytes, 16);
  Schedule copy({c});
  copy = narrow;
  EXPECT_EQ(copy.target(), narrow.target());
  EXPECT_EQ(copy.options(), narrow.options());
}

TEST(ScheduleTarget, AnotherTargetInBuildIsAnErrorThatSaysWhatToDo) {
  const Schedule s = create_schedule({product()}, Target::host());
  const std::vector<Tensor> args = all_args(s.dag());
  Target wider = Target::host();
  wider.vector_bytes = wider.vector_bytes == 16 ? 32 : 16;
  const Target other_cpu = Target::parse("llvm -mcpu=nehalem");
  for (const Target& target : {a_gpu(), wider, other_cpu}) {
    const Error e = error_from([&] { build(s, args, {.target = target}); });
    EXPECT_EQ(e.kind, ErrorKind::User);
    EXPECT_NE(e.message.find(to_string(target)), std::string::npos) << e.message;
    EXPECT_NE(e.message.find(to_string(Target::host())), std::string::npos) << e.message;
    EXPECT_NE(e.help.find("for_target"), std::string::npos) << e.help;
    EXPECT_EQ(error_from([&] { export_kernel(s, args, "/nowhere/x", {.target = target}); }).kind,
              ErrorKind::User);
  }
  const Schedule on_gpu = create_schedule({product()}, a_gpu());
  EXPECT_EQ(
      error_from([&] { build(on_gpu, all_args(on_gpu.dag()), {.target = Target::host()}); }).kind,
      ErrorKind::User);
  // What code does not depend on may differ.
  Target fewer = Target::host();
  fewer.cores = fewer.cores + 1;
  fewer.l2_bytes = 1 << 20;
  EXPECT_EQ(wrong_when_run(s, {.target = fewer}), "");
  EXPECT_EQ(wrong_when_run(s, {.target = Target::host()}), "");
}

TEST(ScheduleTarget, LoopsBoundToAGpuAreNotBuiltForACpu) {
  const Tensor x = placeholder({1024}, f32, "x");
  const Tensor y = compute({1024}, [&](Axis i) { return x(i) + 1.f; }, "y");
  auto bind = [&](Schedule s) {
    auto [block, thread] = s[y].split(s[y].axis(0), 128);
    s[y].bind(block, LoopKind::BlockX).bind(thread, LoopKind::ThreadX);
    return s;
  };
  const Error e = error_from([&] { build(bind(Schedule({y})), {x, y}); });
  EXPECT_EQ(e.kind, ErrorKind::User);
  EXPECT_NE(e.message.find("bound to blockIdx.x"), std::string::npos) << e.message;
  EXPECT_EQ(error_from([&] { lower_gpu(bind(Schedule({y})), {x, y}); }).kind, ErrorKind::User);
  EXPECT_EQ(lower_gpu(bind(Schedule({y}, a_gpu())), {x, y}).main.size(), 1u);
}

TEST(ScheduleTarget, OtherOptionsInScopeGiveTheSameCode) {
  for (const Tensor& t : usual_programs()) {
    const Schedule s = create_schedule({t}, Target::host(), {.use_records = false});
    const std::vector<Tensor> args = all_args(s.dag());
    const std::string once = build(s, args).source();
    const std::string text = make_template(s.dag(), Target::host(), {}).to_text();
    const Features features = schedule_features(s, args);
    clear_template_cache();
    for (const AutoSchedulerOptions& other :
         {AutoSchedulerOptions{.max_unroll = 2, .max_knob_values = 1, .use_alternatives = false},
          AutoSchedulerOptions{.vector_bytes = 16, .threads = 1}, not_for_cpus()}) {
      const AutoSchedulerOptionsScope scope(other);
      EXPECT_EQ(build(s, args).source(), once) << t.name();
      const Schedule again = create_schedule({t}, Target::host(), {.use_records = false});
      EXPECT_EQ(again.to_json().dump(), s.to_json().dump()) << t.name();
      EXPECT_EQ(make_template(s.dag(), Target::host(), {}).to_text(), text) << t.name();
      EXPECT_EQ(schedule_features(s, args), features) << t.name();
    }
  }
}

TEST(ScheduleTarget, NothingBelowTheApiReadsTheScope) {
  const Tensor c = product();
  const Target two = Target::parse("llvm -mcpu=native -threads=2");
  const TuneTask task = make_task("product", {c}, two);
  const Network network({c}, two);
  const Record record = make_record("product", task.tmpl, task.tmpl.default_config());
  std::vector<Tensor> args = task.args;
  const AutoSchedulerOptionsScope scope(not_for_cpus());
  EXPECT_EQ(error_from([&] { make_task("product", {c}, two); }).kind, ErrorKind::User);
  // None of these is told what the scope says, and so none fails.
  EXPECT_EQ(task.tmpl.static_schedule().target(), two);
  EXPECT_EQ(schedule_of(record, task.tmpl.dag(), two).target(), two);
  EXPECT_EQ(replay(record, task.tmpl.dag(), two).target(), two);
  EXPECT_EQ(naive_schedule({c}, two).target(), two);
  EXPECT_TRUE(network.build(args));
  EXPECT_TRUE(network.build(args, network.static_schedules()));
  const TuneReport report = tune_tasks(
      {task},
      {.budget = std::chrono::seconds(20), .max_trials = 3, .batch = 4, .final_race_share = 0});
  EXPECT_EQ(report.tasks.at(0).schedule.target(), two);
}

TEST(ScheduleTarget, OptionsComeWithTheSchedule) {
  const Tensor c = product();
  const Schedule s = create_schedule({c}, Target::host(), {.max_unroll = 2, .use_records = false});
  const Schedule usual = create_schedule({c}, Target::host(), {.use_records = false});
  EXPECT_EQ(s.options().max_unroll, 2);
  EXPECT_NE(build(s, all_args(s.dag())).source("loops"),
            build(usual, all_args(usual.dag())).source("loops"));
  const Error e = error_from([&] { build(s, all_args(s.dag()), {.max_unroll = 100}); });
  EXPECT_EQ(e.kind, ErrorKind::User);
  EXPECT_EQ(wrong_when_run(s, {.max_unroll = 2}), "");
  // By a scope, too; and from a template.
  const AutoSchedulerOptionsScope scope({.max_unroll = 2});
  EXPECT_EQ(create_schedule({c}).options().max_unroll, 2);
  EXPECT_EQ(make_template(ComputeDag({c}), Target::host()).static_schedule().options().max_unroll,
            2);
}

TEST(ScheduleTarget, TemplatesFromTheCacheHaveTheOptionsThatWereAskedFor) {
  const ComputeDag dag({product()});
  for (const double growth : {16.0, 1.0, 16.0}) {
    const AutoSchedulerOptions options{.max_error_growth = growth};
    EXPECT_EQ(make_template(dag, Target::host(), options).options().max_error_growth, growth);
  }
}

TEST(ScheduleTarget, JsonCarriesTargetAndOptions) {
  const Tensor c = product();
  const Target haswell = Target::parse("llvm -mcpu=haswell -threads=3");
  for (const Target& target : {haswell, a_gpu()}) {
    AutoSchedulerOptions options{.use_records = false, .max_error_growth = 1.5};
    (target.is_cuda() ? options.block_threads : options.max_unroll) = 128;
    const Schedule s = create_schedule({c}, target, options);
    const Schedule back =
        Schedule::from_json(Json::parse(s.to_json().dump()), s.dag(), Target::host());
    EXPECT_EQ(back.target(), s.target());
    EXPECT_EQ(back.to_json().dump(), s.to_json().dump());
    options.use_records = true;  // where it was looked for is no part of what was made
    EXPECT_EQ(back.options(), options);
  }
}

TEST(ScheduleTarget, JsonWithoutATargetTakesTheOneGiven) {
  const Tensor c = product();
  const Target haswell = Target::parse("llvm -mcpu=haswell -threads=3");
  const TuneTask task = make_task("product", {c}, haswell);
  const Record record = make_record("product", task.tmpl, task.tmpl.default_config());
  // As records of all versions are: their target stands beside the steps.
  EXPECT_FALSE(record.steps.contains("target"));
  const ComputeDag& dag = task.tmpl.dag();
  EXPECT_EQ(Schedule::from_json(record.steps, dag, record.target).target(), haswell);
  EXPECT_EQ(Schedule::from_json(record.steps, dag).target(), Target::host());
  EXPECT_EQ(schedule_of(record, dag, haswell).target(), haswell);
}

TEST(ScheduleTarget, ARecordKeepsTheLimitToUnrollingThatItWasMadeWith) {
  const Tensor c = product();
  const TuneTask task = make_task("product", {c}, Target::host(), {}, {.max_unroll = 2});
  Record record = make_record("product", task.tmpl, task.tmpl.default_config());
  const ComputeDag& dag = task.tmpl.dag();
  EXPECT_EQ(schedule_of(record, dag, Target::host()).options().max_unroll, 2);
  record.template_version += 1;  // by its steps
  EXPECT_EQ(schedule_of(record, dag, Target::host()).options().max_unroll, 2);
}

TEST(ScheduleTarget, BadOptionsInJsonAreErrors) {
  const Tensor c = product();
  const Schedule s({c});
  auto error_of_options = [&](const Json& options) {
    Json json = s.to_json();
    json["options"] = options;
    return error_from([&] { Schedule::from_json(json, s.dag()); }).message;
  };
  EXPECT_NE(error_of_options(Json::object({{"blub", 1}})).find("no option 'blub'"),
            std::string::npos);
  EXPECT_NE(error_of_options(Json::object({{"threads", -1}})).find("threads is -1"),
            std::string::npos);
  EXPECT_NE(error_of_options(Json::object({{"threads", int64_t{1} << 40}})).find("threads is"),
            std::string::npos);
  EXPECT_NE(error_of_options(Json::object({{"block_threads", 128}})).find("block_threads"),
            std::string::npos);
  EXPECT_NE(error_of_options(Json(3)), "no error");
}

TEST(ScheduleTarget, AKindThatThereIsNoneOfIsTheUsersMistake) {
  const Tensor c = product();
  const ComputeDag dag({c});
  Target metal;
  metal.kind = "metal";
  const Schedule s({c});
  const std::vector<std::function<void()>> uses = {
      [&] { create_schedule({c}, metal); },
      [&] { recorded_schedule({c}, metal); },
      [&] { naive_schedule({c}, metal); },
      [&] { Schedule wrong({c}, metal); },
      [&] { s.for_target(metal); },
      [&] { make_template(dag, metal); },
      [&] { make_template_of_alternatives(dag, metal); },
      [&] { TemplateBuilder wrong(dag, metal); },
      [&] { make_task("c", {c}, metal); },
      [&] { tune({c}, {.max_trials = 1, .target = metal}); },
      [&] { tune_tasks({make_task("c", {c}, Target::host())}, {.target = metal}); },
      [&] { Network wrong({c}, metal); },
      [&] { build(s, all_args(s.dag()), {.target = metal}); },
  };
  for (size_t i = 0; i < uses.size(); ++i) {
    const Error e = error_from(uses[i]);
    EXPECT_EQ(e.kind, ErrorKind::User) << i << ": " << e.message;
    EXPECT_NE(e.message.find("'metal'"), std::string::npos) << i << ": " << e.message;
    EXPECT_NE(e.help.find("llvm, cuda"), std::string::npos) << i << ": " << e.help;
  }
}

TEST(ScheduleTarget, EveryoneMeansTheSameStaticChoice) {
  ops::Conv at;
  at.padding = {1, 1};
  const Tensor conv =
      ops::conv2d(placeholder({1, 64, 56, 56}), constant_placeholder({64, 64, 3, 3}), at);
  const AutoSchedulerOptions options{.use_records = false};
  for (const Tensor& t : {product(), conv, ops::softmax(placeholder({20, 100}))}) {
    const ComputeDag dag({t});
    const Schedule chosen = create_schedule({t}, Target::host(), options);
    const std::string text = chosen.to_text();
    const Template all = make_template_of_alternatives(dag, Target::host(), options);
    EXPECT_EQ(all.static_schedule().to_text(), text);
    EXPECT_EQ(make_static_template(dag, Target::host(), options).static_schedule().to_text(), text);
    EXPECT_EQ(make_task("t", {t}, Target::host(), {}, options).tmpl.static_schedule().to_text(),
              text);
    const Network network({t}, Target::host(), options);
    if (network.tasks().size() == 1) {
      EXPECT_EQ(network.static_schedules().at(0).provenance, chosen.provenance);
      EXPECT_EQ(network.static_schedules().at(0).steps().size(), chosen.steps().size());
    }
  }
}

TEST(ScheduleTarget, TasksAreTunedForTheirOwnTarget) {
  const Tensor c = product();
  const Target two = Target::parse("llvm -mcpu=native -threads=2");
  const TuneTask task = make_task("product", {c}, two);
  EXPECT_EQ(error_from([&] { tune_tasks({task}, {.target = a_gpu()}); }).kind, ErrorKind::User);
  EXPECT_EQ(error_from([&] { tune(Network({c}, two), {.target = a_gpu()}); }).kind,
            ErrorKind::User);
  EXPECT_EQ(error_from([&] {
              tune_tasks({task}, {.scheduler = AutoSchedulerOptions{.vector_bytes = 16}});
            }).kind,
            ErrorKind::User);
}

TEST(ScheduleTarget, ANetworkTakesNoScheduleOfAnotherKindOfMachine) {
  const Tensor c = product();
  const Network network({c});
  const std::vector<Schedule> on_gpu{create_schedule({c}, a_gpu())};
  const Error e = error_from([&] { network.build(network.tasks().at(0).args, on_gpu); });
  EXPECT_EQ(e.kind, ErrorKind::User);
}

// With a template that leaves the cache go arrays of others. What gives them back may wait for a lock
// that a thread holds which asks for a template, as Python's interpreter has one.
TEST(TemplateCache, ArraysOfOthersAreGivenBackWithoutTheLockOfTheCache) {
  float values[4] = {1, 2, 3, 4};
  int64_t extent = 4;
  int given_back = 0;
  DLManagedTensor managed{};
  managed.dl_tensor = {values, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &extent, nullptr, 0};
  managed.manager_ctx = &given_back;
  managed.deleter = [](DLManagedTensor* self) {
    EXPECT_FALSE(meta_template_names().empty());  // takes the lock
    ++*static_cast<int*>(self->manager_ctx);
  };
  {
    const Tensor w = constant(NDArray::from_dlpack(&managed)), x = placeholder({4});
    make_template(ComputeDag({ops::add(x, w)}), Target::host());
  }
  clear_template_cache();
  EXPECT_EQ(given_back, 1);
}

}  // namespace
}  // namespace heddle::testing
