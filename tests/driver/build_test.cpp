// build() and the two ready-made schedules.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "driver/driver_testing.h"
#include "driver/lowered_variant.h"

namespace heddle::testing {
namespace {

TEST(Build, StaticAndNaiveSchedulesGiveTheAnswerOfTheInterpreter) {
  for (const Tensor& t : usual_programs()) {
    EXPECT_EQ(wrong_when_run(create_schedule({t})), "") << t.name();
    EXPECT_EQ(wrong_when_run(naive_schedule({t})), "") << t.name();
    EXPECT_EQ(wrong_when_run(Schedule({t})), "") << t.name();
  }
}

TEST(Build, NaiveSchedulesOfScalarsAndVectorsAreRight) {
  Tensor scalar = placeholder({}, f32, "s");
  EXPECT_EQ(wrong_when_run(naive_schedule(
                {compute({}, [&](const std::vector<Axis>&) { return scalar.at({}) * 3.f; })})),
            "");
  EXPECT_EQ(wrong_when_run(naive_schedule({ops::exp(placeholder({1000}))})), "");
  EXPECT_EQ(wrong_when_run(naive_schedule({ops::sum(placeholder({1000}), {0})})), "");
}

TEST(Build, AContractionMayReadAScalarThatIsComputed) {
  const Tensor s = placeholder({}, f32, "s"), a = placeholder({9, 12}), b = placeholder({12, 20});
  const Tensor t = compute({}, [&](const std::vector<Axis>&) { return s.at({}) * 3.f; }, "t");
  const Axis k = reduce_axis(12);
  const Tensor y =
      compute({9, 20}, [&](Axis i, Axis j) { return sum(a(i, k) * b(k, j) * t.at({}), k); }, "y");
  EXPECT_EQ(wrong_when_run(create_schedule({y})), "");
}

TEST(Build, RowsThatGoToPlacesAreAnOutputThatIsWrittenInPart) {
  const Tensor x = placeholder({4, 6}, f32, "x"), places = placeholder({4}, i64, "places");
  const Tensor y =
      compute({4, 6}, [&](Axis i, Axis j) { return select(places(i) >= 0, x(i, j), 0.f); }, "y");
  const std::vector<Tensor> args{y, x, places};
  Schedule s = create_schedule({y}, Target::parse("cuda -gpu=h200"));
  EXPECT_EQ(driver::lower_variant(s, args, args, {}).in_part, std::vector<int>{});
  s[y].scatter_rows(s[places], 9);
  EXPECT_EQ(driver::lower_variant(s, args, args, {}).in_part, std::vector<int>{0});
}

TEST(Build, ProvenanceSaysHowTheScheduleWasChosen) {
  Tensor t = ops::exp(placeholder({1000}));
  EXPECT_EQ(Schedule({t}).provenance, "default: serial loops");
  EXPECT_EQ(naive_schedule({t}).provenance, "naive: outer loops fused and parallel");
  EXPECT_EQ(create_schedule({t}).provenance, "analytic rule of direct_compute");
}

TEST(Build, AKernelDescribesItsArguments) {
  Tensor x = placeholder({2, 3}, f32, "x"), w = constant_placeholder({3}, f32, "w");
  Tensor p = compute({3}, [&](Axis i) { return w(i) * 2.f; }, "p");
  Tensor y = compute({2, 3}, [&](Axis i, Axis j) { return x(i, j) * p(j); }, "y");
  BuildOptions options;
  options.name = "scale";
  Kernel k = build(Schedule({y}), {y, w, x}, options);
  EXPECT_EQ(k.name(), "scale");
  ASSERT_EQ(k.args().size(), 3u);
  EXPECT_EQ(k.args()[0].name, "y");
  EXPECT_TRUE(k.args()[0].output);
  EXPECT_EQ(k.args()[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(k.args()[1].constant);
  EXPECT_FALSE(k.args()[2].constant);
  EXPECT_FALSE(k.args()[2].output);
  EXPECT_EQ(k.args()[2].dtype, f32);
}

TEST(Build, TheSourceComesInThreeForms) {
  Tensor x = placeholder({16}, f32, "x");
  Tensor y = compute({16}, [&](Axis i) { return x(i) + 1.f; }, "y");
  Schedule s({y});
  s[y].vectorize(s[y].axis(0));
  Kernel k = build(s, {x, y});
  EXPECT_EQ(k.source("loops"), R"(func kernel(x: f32[16], y: f32[16]) {
  y[ramp(0, 1, 16)] = x[ramp(0, 1, 16)] + x16(1.0f)
}
)");
  EXPECT_NE(k.source().find("define"), std::string::npos);
  EXPECT_EQ(k.source(), k.source("llvm"));
  EXPECT_NE(k.source("asm").find("ret"), std::string::npos);
  EXPECT_EQ(error_of([&] { k.source("wasm"); }), R"(a kernel has no source of the form 'wasm'
  help: ask for llvm, asm or loops)");
}

TEST(Build, TheSameScheduleGivesTheSameCodeToTheByte) {
  for (const Tensor& t : usual_programs()) {
    Schedule s = create_schedule({t});
    std::string once = build(s, all_args(s.dag())).source();
    clear_template_cache();
    Schedule again = Schedule::from_json(create_schedule({t}).to_json(), s.dag());
    EXPECT_EQ(build(again, all_args(s.dag())).source(), once) << t.name();
  }
}

TEST(Build, TimesAddUp) {
  Schedule s = create_schedule({conv_block()});
  const auto [kernel, times] = build_timed(s, all_args(s.dag()));
  EXPECT_EQ(kernel.name(), "kernel");
  EXPECT_GT(times.lower, 0);
  EXPECT_GT(times.codegen, 0);
  EXPECT_LE(times.lower + times.llvm_ir + times.optimize + times.codegen + times.link,
            times.total + 1);
  ASSERT_FALSE(times.passes.empty());
  EXPECT_EQ(times.passes.front().name, "build_nest");
  double passes = 0;
  for (const PassRecord& p : times.passes) passes += p.ms;
  EXPECT_LE(passes, times.lower);
}

TEST(Build, HigherOptimizationLevelsGiveTheSameAnswer) {
  BuildOptions options;
  options.opt_level = 2;
  EXPECT_EQ(wrong_when_run(create_schedule({conv_block()}), options), "");
}

TEST(Build, AMachineThatIsNotThisOneIsRefused) {
  Tensor t = ops::exp(placeholder({100}));
  const Target arm = Target::parse("llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu");
  if (arm.runs_here()) GTEST_SKIP();
  const Schedule s = create_schedule({t}, arm);
  EXPECT_NE(error_of([&] { build(s, all_args(s.dag())); }), "no error");
}

TEST(Build, AKernelOutlivesItsScheduleAndTensors) {
  Kernel k;
  {
    Tensor x = placeholder({64}, f32, "x");
    Tensor y = compute({64}, [&](Axis i) { return x(i) * 2.f; }, "y");
    Schedule s = create_schedule({y});
    k = build(s, {x, y});
  }
  NDArray x = NDArray::full({64}, f32, 3), y = NDArray::zeros({64}, f32);
  k(x, y);
  EXPECT_EQ(y.get(63), 6);
  EXPECT_NE(k.source("loops").find("func kernel(x: f32[64], y: f32[64])"), std::string::npos);
  Kernel copy = k;
  k = Kernel();
  copy(x, y);
}

TEST(Build, ThreadsOfOneKernelDoNotDisturbEachOther) {
  Schedule s = create_schedule({conv_block()});
  Kernel k = build(s, all_args(s.dag()));
  std::vector<std::string> result(4, "did not run");
  std::vector<std::thread> threads;
  const std::vector<NDArray> shared = call_arrays(s.dag());
  for (size_t n = 0; n < result.size(); ++n) {
    threads.emplace_back([&, n] {
      for (int i = 0; i < 10; ++i) {
        // Two have the constants of their own, two share them.
        std::vector<NDArray> arrays = n < 2 ? call_arrays(s.dag()) : shared;
        arrays.back() = NDArray::full(arrays.back().shape(), f32, 77);
        k.call(arrays);
        result[n] = differs(s.dag(), arrays, 1e-4);
        if (!result[n].empty()) return;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& r : result) EXPECT_EQ(r, "");
}

TEST(Build, ThreadsBuildAtTheSameTime) {
  std::vector<std::string> result(8, "did not run");
  std::vector<std::thread> threads;
  for (size_t n = 0; n < result.size(); ++n) {
    threads.emplace_back([&, n] {
      const auto size = static_cast<int64_t>(5 + n);
      result[n] = wrong_when_run(create_schedule({ops::softmax(placeholder({size, 33}))}));
      if (result[n].empty()) result[n] = wrong_when_run(create_schedule({conv_block()}));
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& r : result) EXPECT_EQ(r, "");
}

// A child has one thread, and the compiler that the parent has used.
TEST(Build, AForkedChildBuildsAndRuns) {
  EXPECT_EQ(wrong_when_run(create_schedule({conv_block()})), "");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0)
    ::_exit(wrong_when_run(create_schedule({ops::softmax(placeholder({9, 33}))})).empty() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Build, AnyNumberOfThreadsGivesTheSameAnswer) {
  Schedule s = naive_schedule({conv_block()});
  Kernel k = build(s, all_args(s.dag()));
  std::vector<NDArray> one = call_arrays(s.dag());
  {
    ScopedThreads scope(1);
    k.call(one);
  }
  EXPECT_EQ(differs(s.dag(), one), "");
  for (int n : {2, 3, 8}) {
    ScopedThreads scope(n);
    std::vector<NDArray> many = call_arrays(s.dag());
    k.call(many);
    EXPECT_EQ(max_abs_diff(one.back(), many.back()), 0) << n;
  }
}

}  // namespace
}  // namespace heddle::testing
