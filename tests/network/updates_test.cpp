// Outputs in the memory of inputs. The interpreter is the oracle: it computes the results from the
// inputs as they were before the call.
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "environment.h"
#include "heddle/dsl/update.h"
#include "heddle/network/audit.h"
#include "heddle/network/size_kernels.h"
#include "heddle/ops/training.h"
#include "heddle/support/rng.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"
#include "network/race/timed_network.h"
#include "network/race/variant_runner.h"
#include "network/updates_testing.h"

namespace heddle::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Layers on states and an input of one shape; the next state is any result, or a state with some
/// rows replaced. States are read before and after their updates.
class Drawer {
 public:
  explicit Drawer(uint64_t seed) : rng_(seed) {}

  Drawn run() {
    rows_ = pick(1, 4);
    width_ = 4 * pick(1, 3);
    known_.push_back(placeholder({rows_, width_}, f32, "x"));
    for (int64_t n = pick(0, 2); n > 0; --n) {
      states_.push_back(placeholder({rows_, width_}, f32, "state"));
      known_.push_back(states_.back());
    }
    for (int64_t n = pick(states_.empty() ? 1 : 0, 2); n > 0; --n)
      caches_.push_back(placeholder({rows_ + pick(0, 6), width_}, f32, "cache"));
    Drawn drawn;
    for (int64_t n = pick(1, 4); n > 0; --n) known_.push_back(layer());
    for (const Tensor& cache : caches_) {
      const int64_t row = pick(0, cache.extent(0) - rows_);
      const Tensor next = update(cache, rng_.choose(known_), row);
      drawn.updates.push_back({cache, next});
      read_.push_back(next);
      if (rng_.chance(0.4)) read_.push_back(cache);
    }
    for (int64_t n = pick(1, 4); n > 0; --n) known_.push_back(layer());
    if (states_.size() == 2 && rng_.chance(0.5)) {
      const std::vector<Tensor> next = together(rng_.choose(known_), rng_.choose(known_));
      drawn.updates.insert(drawn.updates.end(), {{states_[0], next[0]}, {states_[1], next[1]}});
    } else {
      for (const Tensor& state : states_) drawn.updates.push_back({state, result(drawn.updates)});
    }
    if (rng_.chance(0.8)) drawn.outputs.push_back(result(drawn.updates));
    return drawn;
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }

  Tensor layer() {
    const Tensor x = rng_.chance(0.5) ? known_.back() : rng_.choose(known_);
    const Tensor y = rng_.choose(known_);
    if (!read_.empty() && rng_.chance(0.5)) return attend(x, rng_.choose(read_));
    switch (pick(0, 5)) {
      case 0: return ops::tanh(ops::matmul(x, weights({width_, width_})));
      case 1: return ops::softmax(x);
      case 2: return ops::mul(x, ops::sigmoid(y));
      case 3: return attend(x, y);
      case 4: return ops::add(ops::matmul(x, weights({width_, width_})), y);
      default: return ops::sub(x, y);
    }
  }
  static Tensor attend(const Tensor& x, const Tensor& all) {
    return ops::matmul(ops::softmax(ops::matmul(x, ops::transpose(all, {1, 0}))), all);
  }
  /// Two outputs of one stage, both of `x` and `y`.
  std::vector<Tensor> together(const Tensor& x, const Tensor& y) const {
    return compute_all({rows_, width_}, [&](Axis i, Axis j) {
      return std::vector<Expr>{y(i, j) - 0.5f * x(i, j), x(i, j) + 0.5f * y(i, j)};
    });
  }
  /// A result that updates nothing yet.
  Tensor result(const std::vector<StateUpdate>& updates) {
    const Tensor t = layer();
    const bool taken = std::any_of(updates.begin(), updates.end(),
                                   [&](const StateUpdate& u) { return u.next.same_as(t); });
    HEDDLE_ICHECK(!taken, "a layer is a new tensor");
    if (rng_.chance(0.5)) known_.push_back(t);
    return t;
  }

  Rng rng_;
  int64_t rows_ = 1, width_ = 4;
  std::vector<Tensor> known_, states_, caches_, read_;
};

TEST(Updates, RandomNetworksInPlaceComputeWhatTheyComputeApart) {
  int copied = 0, direct = 0;
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 60),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t n = first; n < first + count; ++n) {
    const auto seed = static_cast<uint64_t>(n);
    const Drawn drawn = Drawer(seed).run();
    const Network network(drawn.outputs, Target::host(), {}, {}, drawn.updates);
    EXPECT_EQ(wrong_after_calls(drawn, network, 1e-4), "") << "seed " << seed;
    int here = 0;
    for (const PassApplication& p : network.passes()) here += p.pass == "updates";
    copied += here;
    direct += static_cast<int>(drawn.updates.size()) - here;
  }
  EXPECT_GT(copied, 0);
  EXPECT_GT(direct, copied);
}

TEST(Updates, RandomNetworksWithinLessMemoryComputeTheSame) {
  int limited = 0;
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 60),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t n = first; n < first + count; ++n) {
    const auto seed = static_cast<uint64_t>(n);
    const Drawn drawn = Drawer(seed).run();
    const Network usual(drawn.outputs, Target::host(), {}, {}, drawn.updates);
    std::vector<Tensor> args = inputs_of(drawn);
    args.insert(args.end(), drawn.outputs.begin(), drawn.outputs.end());
    const int64_t limit = usual.build(args).workspace_bytes() - 1;
    if (limit <= 0) continue;
    try {
      const Network network(drawn.outputs, Target::host(), {}, {.memory = limit}, drawn.updates);
      ++limited;
      EXPECT_LE(network.build(args).workspace_bytes(), limit) << "seed " << seed;
      EXPECT_EQ(wrong_after_calls(drawn, network, 1e-4), "") << "seed " << seed;
    } catch (const Error& e) {
      ASSERT_EQ(e.kind, ErrorKind::User) << e.what() << ", seed " << seed;
    }
  }
  EXPECT_GT(limited, 0);
}

TEST(Updates, RandomNetworksOfAGpuComputeWhatTheyComputeApart) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Target gpu = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 12),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t n = first; n < first + count; ++n) {
    const auto seed = static_cast<uint64_t>(n);
    const Drawn drawn = Drawer(seed).run();
    const Network network(drawn.outputs, gpu, {}, {}, drawn.updates);
    emulate_network(driver, network, gpu);
    EXPECT_EQ(wrong_after_calls(drawn, network, 1e-3), "") << "seed " << seed;
  }
}

// A weight, its states and its gradient were read by a node for each of them.
TEST(Updates, AGpuUpdatesAWeightAndItsStatesInOneNode) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Target gpu = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  const auto named = [](const char* name) { return placeholder({24, 40}, f32, name); };
  const Tensor w = named("w"), v = named("v"), s = named("s"), step = placeholder({1}, f32, "step"),
               g = ops::transpose(placeholder({40, 24}, f32, "g"), {1, 0});
  for (const double decay : {0.0, 0.25}) {
    const ops::Momentum sgd =
        ops::sgd(w, g, v, {.rate = 0.5, .momentum = 0.5, .decay = decay, .nesterov = decay > 0});
    const ops::Moments adam = ops::adam(w, g, v, s, step, step, {.decay = decay});
    for (const Drawn& drawn :
         {Drawn{{}, {{w, sgd.parameter}, {v, sgd.velocity}}},
          Drawn{{}, {{w, adam.parameter}, {v, adam.mean}, {s, adam.square}}}}) {
      const Network network(drawn.outputs, gpu, {}, {}, drawn.updates);
      EXPECT_EQ(network.nodes().size(), 1u) << network.to_text();
      EXPECT_EQ(Network(drawn.outputs, gpu, {}, parse_passes("-horizontal"), drawn.updates)
                    .nodes()
                    .size(),
                drawn.updates.size());
      EXPECT_THAT(
          network.passes(),
          Not(Contains(::testing::Field(&PassApplication::pass, ::testing::StrEq("updates")))));
      emulate_network(driver, network, gpu);
      EXPECT_EQ(wrong_after_calls(drawn, network, 1e-3), "");
    }
  }
}

/// What races of the network compute, in calls one after the other, against the interpreter; "" where
/// it is the same.
std::string wrong_in_races(const Drawn& drawn, const Network& network, double tolerance) {
  const std::vector<Tensor> args = network::call_args(network);
  const std::vector<NDArray> arrays =
      network::random_arrays(args, network::device_of(network.tasks()[0].tmpl.target()));
  std::vector<TensorValue> inputs;
  std::vector<Tensor> next;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].op()->is_placeholder()) inputs.push_back({args[i], arrays[i].to_host().copy()});
  }
  for (const StateUpdate& u : drawn.updates) next.push_back(u.next);
  const std::vector<NDArray> want = interpret(next, inputs);
  network::TimedNetwork timed(network, network.static_schedules(), args, arrays);
  for (int call = 0; call < 3; ++call) timed.call();
  const std::vector<NDArray> got = timed.outputs();
  for (size_t u = 0; u < want.size(); ++u) {
    const Difference d = compare(got[got.size() - want.size() + u], want[u], tolerance, tolerance);
    if (!d.ok()) return "state " + std::to_string(u) + ": " + describe(d, want[u]);
  }
  return "";
}

TEST(Updates, NetworksThatRaceUpdateAsInOneCall) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Drawn drawn = Drawer(seed).run();
    const Network network(drawn.outputs, Target::host(), {}, {}, drawn.updates);
    EXPECT_EQ(wrong_in_races(drawn, network, 1e-4), "") << "seed " << seed;
    std::vector<std::vector<Schedule>> lists;
    std::vector<size_t> order;
    for (size_t t = 0; t < network.tasks().size(); ++t) {
      lists.push_back({network.static_schedules()[t], network.naive_schedules()[t]});
      order.push_back(t);
    }
    network::VariantRunner runner(network, lists, order, TuneClock());
    const std::vector<int> naive(lists.size(), 1);
    runner.call(naive);
    EXPECT_EQ(runner.difference(naive), "") << "seed " << seed;
  }
}

/// state * 4 + x in the place of the state, over rows.
struct Growing {
  Dim rows = dim("rows", 1, 24);
  Tensor state = placeholder({rows, 16}, f32, "state"), x = placeholder({rows, 16}, f32, "x");
  Tensor next =
      compute({rows, 16}, [&](Axis i, Axis j) { return state(i, j) * 4.f + x(i, j); }, "next");
  std::vector<StateUpdate> updates{{state, next}};
};

TEST(Updates, TimedCallsBeginWithTheStateAsItWas) {
  const Tensor state = placeholder({24, 16}, f32, "state"), x = placeholder({24, 16}, f32, "x");
  const Tensor next =
      compute({24, 16}, [&](Axis i, Axis j) { return state(i, j) * 4.f + x(i, j); }, "next");
  const Kernel kernel = build(create_schedule({next}), {state, x, next});
  const NDArray array = NDArray::full({24, 16}, f32, 1), ones = array.copy();
  const network::CallTimer::Args args = {{{array, ones, array}, {}}};
  EXPECT_THAT(message_of([&] { kernel.call(args[0].arrays); }), HasSubstr("overlap in memory"));
  const network::StateCopies states(std::vector<size_t>{0}, args[0].arrays);
  const std::vector<network::StepCall> call{{0, &kernel}};
  network::run_once(call, args);
  EXPECT_EQ(array.get(0), 5);
  const std::unique_ptr<network::CallTimer> timer =
      network::make_call_timer(Target::host(), args, states);
  // A call is made once or twice for a time.
  for (int n = 0; n < 20; ++n) {
    timer->time(call);
    EXPECT_THAT(array.get(383), AnyOf(5, 21)) << n;
  }
  states.restore();
  EXPECT_EQ(array.get(0), 1);
}

TEST(Updates, KernelsOfAWholeStateRaceAtSeveralSizes) {
  const Growing g;
  const Network network({}, Target::host(), {}, {}, g.updates);
  KernelRaceOptions options;
  options.race_seconds = 0.01;
  const std::vector<TaskKernels> kernels = choose_kernels(network, {g.rows}, options);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_GT(kernels[0].kernels.candidates, 1);
  const NetworkKernel run = network.build({g.state, g.x}, kernels);
  for (const int64_t n : {1, 7, 24}) {
    const NDArray state = NDArray::random({n, 16}, f32, 1), x = NDArray::random({n, 16}, f32, 2);
    const float before = state.at<float>({n - 1, 3});
    run(state, x);
    EXPECT_FLOAT_EQ(state.at<float>({n - 1, 3}), before * 4 + x.at<float>({n - 1, 3}));
  }
}

TEST(Updates, AGpuRacesAWholeState) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Growing g;
  const Target gpu = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  const Network network = Network({}, gpu, {}, {}, g.updates).at({{g.rows, 24}});
  emulate_network(driver, network, gpu);
  EXPECT_EQ(wrong_in_races({{}, network.updates()}, network, 1e-4), "");
}

/// Rows `total` - n to `total` - 1 of a cache are replaced, and the first `total` rows are read.
struct Cached {
  Dim total = dim("total", 1, 12), n = dim("n", 1, 4);
  Tensor cache = placeholder({12, 8}, f32, "cache"), rows = placeholder({n, 8}, f32, "rows");
  Tensor length = placeholder({total}, u8, "length");
  Tensor next = update(cache, rows, Expr(total) - Expr(n));
  Tensor sums = compute(
      {8},
      [&](Axis d) {
        const Axis j = reduce_axis(total, "j");
        return sum(next(j, d), j);
      },
      "sums");
  Network network{{sums}, Target::host(), {}, {}, {{cache, next}}};
  NetworkKernel run = network.build({cache, rows, length, sums});
};

TEST(Updates, RowsOfACacheAreWrittenWhereTheSizesSay) {
  const Cached c;
  EXPECT_THAT(c.network.passes(), IsEmpty());
  const NDArray cache = NDArray::full({12, 8}, f32, 100), sums = NDArray::zeros({8}, f32);
  const NDArray all = NDArray::random({12, 8}, f32, 3);
  int64_t total = 0;
  for (const int64_t n : {3, 1, 1, 4, 2, 1}) {
    total += n;
    c.run(cache, all.rows(total - n, total), NDArray::zeros({total}, u8), sums);
    EXPECT_TRUE(allclose(cache.rows(0, total), all.rows(0, total)));
    for (int64_t j = total; j < 12; ++j) EXPECT_EQ(cache.at<float>({j, 0}), 100);
    float want = 0;
    for (int64_t j = 0; j < total; ++j) want += all.at<float>({j, 5});
    EXPECT_NEAR(sums.at<float>({5}), want, 1e-5);
  }
}

TEST(Updates, StepsAreTimedAtSizesThatNoneOfTheirArraysGives) {
  const Cached c;
  const NDArray cache = NDArray::full({12, 8}, f32, 1), sums = NDArray::zeros({8}, f32);
  const std::vector<NDArray> arrays{cache, NDArray::full({2, 8}, f32, 3), NDArray::zeros({5}, u8),
                                    sums};
  EXPECT_FALSE(c.run.profile(arrays, 0.01).rows.empty());
  EXPECT_EQ(sums.get(7), 3 + 2 * 3);
  EXPECT_FALSE(audit(c.network, {.at = {{c.total, 5}, {c.n, 2}}}).rows.empty());
  KernelRaceOptions options;
  options.race_seconds = 0.05;
  const std::vector<TaskKernels> kernels = choose_kernels(c.network, {c.total, c.n}, options);
  c.network.build({c.cache, c.rows, c.length, c.sums}, kernels).call(arrays);
  EXPECT_EQ(sums.get(7), 3 + 2 * 3);
}

TEST(Updates, RowsOutsideOfTheStateAreAnError) {
  const Cached c;
  const NDArray cache = NDArray::full({12, 8}, f32, 100), sums = NDArray::zeros({8}, f32);
  EXPECT_THAT(
      message_of([&] { c.run(cache, NDArray::zeros({4, 8}, f32), NDArray::zeros({3}, u8), sums); }),
      HasSubstr("writes rows -1 to 2 of 'cache', which has 12 rows"));
  EXPECT_EQ(cache.at<float>({0, 0}), 100);
  EXPECT_THAT(message_of([&] {
                c.run(cache, NDArray::zeros({1, 8}, f32), NDArray::zeros({13}, u8), sums);
              }),
              HasSubstr("has extent 13"));
}

TEST(Updates, NothingRunsAtSizesThatACallRefuses) {
  const Cached c;
  const Tensor marked =
      compute({c.total}, [&](Axis t) { return c.next(t, 0) + cast(f32, c.length(t)); }, "marked");
  const Network network({marked}, Target::host(), {}, {}, {{c.cache, c.next}});
  const std::vector<NDArray> arrays{NDArray::zeros({12, 8}, f32), NDArray::zeros({4, 8}, f32),
                                    NDArray::zeros({3}, u8), NDArray::zeros({8}, f32)};
  EXPECT_THAT(message_of([&] { (void)c.run.profile(arrays, 0.01); }),
              HasSubstr("writes rows -1 to 2 of 'cache', which has 12 rows"));
  EXPECT_THAT(message_of([&] { (void)audit(network, {.at = {{c.total, 3}, {c.n, 4}}}); }),
              HasSubstr("updates rows that its state does not have"));
  // Some points of the race are of fewer rows than a call writes.
  KernelRaceOptions options;
  options.race_seconds = 0.1;
  const std::vector<TaskKernels> kernels = choose_kernels(network, {c.total, c.n}, options);
  EXPECT_FALSE(kernels.empty());
  for (const TaskKernels& k : kernels) {
    for (const FamilyRow& r : k.kernels.rows) EXPECT_GE(r.point.sizes[0], r.point.sizes[1]);
  }
  options.histogram = {{{3, 4}, 1}};
  EXPECT_THAT(message_of([&] { (void)choose_kernels(network, {c.total, c.n}, options); }),
              HasSubstr("at all sizes of the race"));
}

TEST(Updates, OutputsOfOneStageReadTheStatesAsTheyWere) {
  const Tensor a = placeholder({9}, f32, "a"), b = placeholder({9}, f32, "b");
  const std::vector<Tensor> swapped =
      compute_all({9}, [&](Axis i) { return std::vector<Expr>{b(i), a(i)}; });
  const Drawn drawn{{}, {{a, swapped[0]}, {b, swapped[1]}}};
  EXPECT_EQ(wrong_after_calls(drawn, Network({}, Target::host(), {}, {}, drawn.updates), 0), "");
}

TEST(Updates, AnOptimiserWritesWeightsAndStatesWithoutACopy) {
  const Tensor x = placeholder({6, 16}, f32, "x"), labels = placeholder({6}, i32, "labels");
  const Tensor w = placeholder({5, 16}, f32, "w"), v = placeholder({5, 16}, f32, "v");
  const Tensor loss = ops::softmax_cross_entropy(ops::dense(x, w), labels);
  const Tensor d = gradient(loss, w);
  const ops::Momentum next = ops::sgd(w, d, v, {.rate = 0.1, .momentum = 0.9, .decay = 0.01});
  const Network network({loss}, Target::host(), {}, {}, {{w, next.parameter}, {v, next.velocity}});
  EXPECT_THAT(network.passes(),
              Not(Contains(::testing::Field(&PassApplication::pass, ::testing::StrEq("updates")))));
  const NetworkKernel step = network.build({x, labels, w, v, loss});
  EXPECT_THAT(step.updated(), ::testing::ElementsAre(2, 3));
  const NDArray rows = NDArray::random({6, 16}, f32, 1), of_w = NDArray::random({5, 16}, f32, 2);
  const NDArray classes = NDArray::from<int32_t>({0, 1, 2, 3, 4, 0}), of_v = zeros_like(of_w);
  const NDArray value = NDArray::zeros({}, f32);
  double before = 0;
  for (int n = 0; n < 30; ++n) {
    const std::vector<NDArray> want =
        interpret({loss, next.parameter, next.velocity},
                  {{x, rows}, {labels, classes}, {w, of_w.copy()}, {v, of_v.copy()}});
    step(rows, classes, of_w, of_v, value);
    ASSERT_TRUE(allclose(of_w, want[1], 1e-4, 1e-5));
    ASSERT_TRUE(allclose(of_v, want[2], 1e-4, 1e-5));
    if (n == 0) before = value.get(0);
  }
  EXPECT_LT(value.get(0), before / 2);
}

TEST(Updates, MistakesAreErrors) {
  const Tensor x = placeholder({4, 8}, f32, "x"), y = placeholder({4, 8}, f32, "y");
  const Tensor c = constant_placeholder({4, 8}, f32, "c");
  const Tensor next = ops::add(x, y), other = ops::mul(x, y), shorter = ops::sum(x, {0});
  const auto made = [](std::vector<StateUpdate> updates) {
    return message_of([&] { Network({}, Target::host(), {}, {}, std::move(updates)); });
  };
  EXPECT_THAT(made({{x, next}, {x, other}}), HasSubstr("updates it, too"));
  EXPECT_THAT(made({{x, next}, {y, next}}), HasSubstr("updates 'x', too"));
  EXPECT_THAT(made({{c, next}}), HasSubstr("no input that may change"));
  EXPECT_THAT(made({{x, shorter}}), HasSubstr("another type or shape"));
  EXPECT_THAT(made({{x, y}}), HasSubstr("is an input"));
  const Network network({}, Target::host(), {}, {}, {{x, next}});
  EXPECT_THAT(message_of([&] { (void)network.build({x, y, next}); }),
              HasSubstr("lies in the memory of 'x'"));
  const NetworkKernel run = network.build({x, y});
  const NDArray a = NDArray::zeros({4, 8}, f32);
  EXPECT_THAT(message_of([&] { run(a, a); }), HasSubstr("overlap in memory"));
  EXPECT_THAT(message_of([&] { (void)update(x, placeholder({2, 7}, f32), 0); }),
              HasSubstr("all dimensions but the first are equal"));
  EXPECT_THAT(message_of([&] { (void)update(x, placeholder({2, 8}, f32), 3); }),
              HasSubstr("rows 3 to 4 lie outside of its 4"));
  EXPECT_THAT(message_of([&] { (void)update(x, placeholder({2, 8}, f16), 0); }),
              HasSubstr("convert the rows"));
}

}  // namespace
}  // namespace heddle::testing
