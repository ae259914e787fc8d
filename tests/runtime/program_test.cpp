// Programs of kernels that are plain functions: steps, sizes, constants and the memory between steps.
#include "runtime/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "heddle/support/error.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.message;
  }
  return "";
}

std::atomic<int> large_calls{0}, preparations{0};

float* floats(void* const* args, int i) { return static_cast<float*>(args[i]); }
int64_t size(void* const* args, int i) { return reinterpret_cast<int64_t>(args[i]); }

/// y[n] = x[n] + 1.
int add_one(void* const* args) {
  for (int64_t i = 0; i < size(args, 2); ++i) floats(args, 1)[i] = floats(args, 0)[i] + 1;
  return 0;
}
int add_one_large(void* const* args) {
  ++large_calls;
  return add_one(args);
}
/// y[n] = x[n] * w, of which 2 * w is prepared: x, w, y, prepared, n.
int scale(void* const* args) {
  for (int64_t i = 0; i < size(args, 4); ++i)
    floats(args, 2)[i] = floats(args, 0)[i] * floats(args, 3)[0];
  return 0;
}
int prepare_scale(void* const* args) {
  ++preparations;
  floats(args, 1)[0] = 2 * floats(args, 0)[0];
  return 0;
}
int out_of_memory(void* const*) { return 1; }

KernelArg over_n(const std::string& name, bool output = false) {
  KernelArg arg{.name = name, .dtype = f32, .shape = {-1}, .output = output};
  arg.symbolic = {{.dim = 0, .terms = {{0, 1}}}};
  return arg;
}

Kernel kernel(KernelCode::Entry main) {
  KernelCode code;
  code.name = "add";
  code.args = {over_n("x"), over_n("y", true)};
  code.sizes = {{"n", 1, 8}};
  code.main = main;
  return Kernel(std::move(code));
}

Kernel scaling_kernel() {
  KernelCode code;
  code.name = "scale";
  code.args = {over_n("x"),
               {.name = "w", .dtype = f32, .shape = {1}, .constant = true, .only_prepared = true},
               over_n("y", true)};
  code.persistent = {{.name = "twice", .dtype = f32, .shape = {1}}};
  code.sizes = {{"n", 1, 8}};
  code.main = scale;
  code.prepare = prepare_scale;
  return Kernel(std::move(code));
}

/// y = (x + 1) * 2 * w, where w is an argument or a constant of the program.
ProgramParts parts(bool given) {
  ProgramParts p{.name = "two", .args = {over_n("x"), over_n("y", true)}, .sizes = {{"n", 1, 8}}};
  if (given) {
    p.args.push_back({.name = "w", .dtype = f32, .shape = {1}, .constant = true});
  } else {
    p.arrays = {NDArray::full({1}, f32, 5)};
  }
  using P = ProgramPlace;
  const std::vector<P> first = {{P::Argument, 0}, {P::Arena, 64}};
  p.steps = {{"add",
              {{kernel(add_one), first, {0}}, {kernel(add_one_large), first, {0}}},
              SizeTree{{.feature = 0, .yes = 1, .no = 2, .at_most = 4}, {.yes = 0}, {.yes = 1}}},
             {"scale",
              {{scaling_kernel(),
                {{P::Arena, 64}, given ? P{P::Argument, 2} : P{P::Array, 0}, {P::Argument, 1}},
                {0}}}}};
  p.arena_bytes = 128;
  return p;
}

struct Arrays {
  explicit Arrays(int64_t n) : x(NDArray::full({n}, f32, 2)), y(NDArray::zeros({n}, f32)) {}
  NDArray x, y;
  std::vector<NDArray> list() const { return {x, y}; }
};

/// y = x + 1 by two kernels, of constant extents.
struct TwoWays {
  static Kernel add(int value) {
    KernelCode code;
    code.name = "add";
    code.args = {{.name = "x", .dtype = f32, .shape = {1}},
                 {.name = "y", .dtype = f32, .shape = {1}, .output = true}};
    code.main = value == 0 ? +[](void* const* a) { return plus(a, 0); }
                           : +[](void* const* a) { return plus(a, 1); };
    return Kernel(std::move(code));
  }
  static int plus(void* const* args, int variant) {
    ++runs[variant];
    floats(args, 1)[0] = floats(args, 0)[0] + 1;
    return 0;
  }
  static ProgramParts parts() {
    ProgramParts p{.name = "one", .args = add(0).args()};
    using P = ProgramPlace;
    const std::vector<P> places = {{P::Argument, 0}, {P::Argument, 1}};
    p.steps = {{"add", {{add(0), places}, {add(1), places}}}};
    return p;
  }

  /// Settles the step, where a run takes `seconds` of its variant.
  void settle(std::vector<double> seconds) {
    runs[0] = runs[1] = 0;
    TrialOptions options;
    options.time = [seconds](size_t, size_t variant, FunctionRef<void()> run) {
      run();
      return seconds[variant];
    };
    options.settled = [this](size_t, size_t won, const std::vector<std::vector<double>>& times) {
      winner = static_cast<int>(won);
      samples = times[0].size() + times[1].size();
    };
    program.settle({0}, std::move(options));
  }
  void call(int times) {
    const NDArray x = NDArray::full({1}, f32, 2), y = NDArray::zeros({1}, f32);
    for (int n = 0; n < times; ++n) {
      y.fill(0);
      program.call(std::vector{x, y});
      ASSERT_EQ(y.get(0), 3);
    }
  }

  static constexpr int kCalls = 2 * (StepTrials::kWarm + StepTrials::kRounds);
  static inline std::atomic<int> runs[2];
  Program program{parts()};
  int winner = -1;
  size_t samples = 0;
};

TEST(Program, AStepSettlesInItsFirstCalls) {
  TwoWays faster;
  faster.settle({2e-6, 1e-6});
  faster.call(TwoWays::kCalls - 1);
  EXPECT_EQ(faster.winner, -1);
  faster.call(1);
  EXPECT_EQ(faster.winner, 1);
  EXPECT_EQ(faster.samples, 2U * StepTrials::kRounds);
  EXPECT_EQ(TwoWays::runs[0], TwoWays::runs[1]);
  faster.call(5);
  EXPECT_EQ(TwoWays::runs[1], TwoWays::runs[0] + 5);
  TwoWays equal;
  equal.settle({1e-6, 1e-6});
  equal.call(TwoWays::kCalls + 5);
  EXPECT_EQ(equal.winner, 0) << "the first stays";
  EXPECT_EQ(TwoWays::runs[0], TwoWays::runs[1] + 5);
}

TEST(Program, AForcedVariantPrecedesWhatIsSettled) {
  TwoWays steps;
  steps.settle({2e-6, 1e-6});
  steps.program.force(0);
  steps.call(TwoWays::kCalls + 3);
  EXPECT_EQ(TwoWays::runs[1], 0);
  EXPECT_EQ(steps.winner, 0) << "without times the first stays";
  steps.program.force(-1);
  steps.program.pick(0, 1);
  steps.call(2);
  EXPECT_EQ(TwoWays::runs[1], 2);
}

TEST(Program, OneCallAtATimeIsMeasured) {
  TwoWays steps;
  std::atomic<int> timed{0}, together{0};
  TrialOptions options;
  options.time = [&](size_t, size_t variant, FunctionRef<void()> run) {
    if (++together > 1) ADD_FAILURE() << "two calls are measured";
    ++timed;
    run();
    --together;
    return variant == 1 ? 1e-6 : 2e-6;
  };
  steps.program.settle({0}, std::move(options));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { steps.call(100); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(timed, TwoWays::kCalls);
}

TEST(Program, RunsItsStepsAtTheSizesOfACall) {
  Program program(parts(false));
  large_calls = preparations = 0;
  for (const int64_t n : {1, 4, 5, 8}) {
    const Arrays a(n);
    program.call(a.list());
    EXPECT_TRUE(allclose(a.y, NDArray::full({n}, f32, 30))) << n;
  }
  EXPECT_EQ(large_calls, 2) << "the tree names another kernel above 4";
  EXPECT_EQ(preparations, 1);
  program.force(1);
  program.call(Arrays(1).list());
  EXPECT_EQ(large_calls, 3);
}

TEST(Program, ChecksItsArraysBeforeAnythingRuns) {
  Program program(parts(false));
  const Arrays a(3);
  EXPECT_THAT(error_of([&] { program.call(Arrays(9).list()); }),
              HasSubstr("of kernel 'two' has extent 9"));
  EXPECT_THAT(error_of([&] { program.call(std::vector<NDArray>{a.x, a.x}); }),
              HasSubstr("overlap"));
  EXPECT_THAT(error_of([&] { program.sizes_of(std::vector<NDArray>{a.x}); }),
              HasSubstr("takes 2 arguments, but 1 were given"));
}

TEST(Program, ConstantsOfCallersArePreparedOnceForEachSet) {
  Program program(parts(true));
  preparations = 0;
  const NDArray five = NDArray::full({1}, f32, 5), six = NDArray::full({1}, f32, 6);
  const Arrays a(2);
  for (const NDArray& w : {five, six, five, six}) {
    program.call(std::vector<NDArray>{a.x, a.y, w});
    EXPECT_FLOAT_EQ(a.y.data<float>()[1], 6 * w.data<float>()[0]);
  }
  EXPECT_EQ(preparations, 2);
  program.refresh();
  program.prepare(std::vector<NDArray>{NDArray(), NDArray(), five});
  EXPECT_EQ(preparations, 3);
  program.call(std::vector<NDArray>{a.x, a.y, five});
  EXPECT_EQ(preparations, 3);
  EXPECT_THAT(error_of([&] { program.prepare(); }),
              HasSubstr("kernel 'two' does not have the values of its constant 'w'"));
  EXPECT_EQ(program.prepared_bytes(), 4);
}

TEST(Program, CallsAtTheSameTimeHaveMemoryOfTheirOwn) {
  Program program(parts(false));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const Arrays a(t + 2);
      a.x.fill(t);
      for (int i = 0; i < 200; ++i) {
        a.y.fill(0);
        program.call(a.list());
        if (!allclose(a.y, NDArray::full({t + 2}, f32, 10.0 * (t + 1)))) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Program, AFailedStepLeavesItReadyForTheNextCall) {
  ProgramParts p = parts(false);
  p.steps[0].variants[1].kernel = kernel(out_of_memory);
  Program program(std::move(p));
  EXPECT_THAT(error_of([&] { program.call(Arrays(8).list()); }), HasSubstr("out of memory"));
  const Arrays a(2);
  program.call(a.list());
  EXPECT_FLOAT_EQ(a.y.data<float>()[0], 30);
}

TEST(Program, AProfileHasARowForEachStep) {
  Program program(parts(false));
  const Arrays a(8);
  const Profile profile = program.profile(a.list(), 0.01);
  ASSERT_EQ(profile.rows.size(), 2U);
  EXPECT_EQ(profile.rows[0].name, "add");
  EXPECT_EQ(profile.rows[1].name, "scale");
  EXPECT_FLOAT_EQ(a.y.data<float>()[7], 30);
}

TEST(Program, StepsCanBeCalledOneByOne) {
  Program program(parts(false));
  const Arrays a(3);
  const Program::StepCalls steps(program, a.list());
  EXPECT_EQ(steps.sizes(), std::vector<int64_t>{3});
  for (size_t s = 0; s < 2; ++s)
    program.parts().steps[s].variants[0].kernel.call(steps.args()[s].arrays);
  EXPECT_TRUE(allclose(a.y, NDArray::full({3}, f32, 30)));
}

}  // namespace
}  // namespace heddle
