// The check of results: correct ones pass even where a declaration is badly conditioned, and wrong
// ones are found.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "dag/errors/value_range.h"
#include "heddle/driver/build.h"
#include "heddle/ops/ops.h"
#include "heddle/search/tune.h"
#include "measure/measure_testing.h"
#include "measure/process/output_bound.h"
#include "measure/task/reference.h"
#include "network/cut/input_ranges.h"

namespace heddle::testing {
namespace {

/// The arrays of a task with its outputs as `schedule` of `dag` computes them; `args` are the
/// tensors of that declaration in the task's order.
std::vector<NDArray> run(const std::vector<Tensor>& args, const Schedule& schedule,
                         double largest = 1) {
  std::vector<NDArray> arrays;
  for (const Tensor& t : args) {
    const bool input = t.op()->is_placeholder();
    arrays.push_back(
        !input ? NDArray::empty(t.extents(), t.dtype())
        : t.dtype().is_float()
            ? NDArray::random(t.extents(), t.dtype(), arrays.size() + 1, -largest, largest)
            : NDArray::random(t.extents(), t.dtype(), arrays.size() + 1));
  }
  build(schedule, args).call(arrays);
  return arrays;
}

std::vector<NDArray> outputs_of(const std::vector<Tensor>& args, const std::vector<NDArray>& all) {
  std::vector<NDArray> out;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].op()->is_placeholder()) out.push_back(all[i]);
  }
  return out;
}

using Declare = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

struct Checked {
  Checked(std::vector<Tensor> in, const Declare& declare)
      : inputs(std::move(in)), task(make(declare)) {
    arrays = run(task.args, naive_schedule(task.tmpl.dag().outputs()));
    const std::vector<NDArray> outputs = outputs_of(task.args, arrays);
    const measuring::OutputBounds bounds = measuring::bound_outputs(task, arrays, outputs);
    problem = bounds.problem;
    allowed = bounds.allowed;
    reference = std::make_unique<measuring::Reference>(task.tmpl.dag());
    reference->store(outputs, bounds.allowed);
  }
  TuneTask make(const Declare& declare) const {
    const std::vector<Tensor> outputs = declare(inputs);
    std::vector<Tensor> args = inputs;
    args.insert(args.end(), outputs.begin(), outputs.end());
    return make_task("checked", outputs, two_threads(), args);
  }
  std::string of(const Declare& other) const {
    const TuneTask t = make(other);
    return difference(t.args, naive_schedule(t.tmpl.dag().outputs()));
  }
  std::string difference(const std::vector<Tensor>& args, const Schedule& s) const {
    return reference->difference(outputs_of(args, run(args, s)), true, 1);
  }
  double unknown() const {
    double none = 0, all = 0;
    for (const NDArray& a : allowed) {
      for (int64_t i = 0; i < a.size(); ++i) none += std::isinf(a.get(i));
      all += static_cast<double>(a.size());
    }
    return all > 0 ? none / all : 0;
  }

  std::vector<Tensor> inputs;
  TuneTask task;
  std::vector<NDArray> arrays, allowed;
  std::unique_ptr<measuring::Reference> reference;
  std::string problem;
};

/// Every schedule of the template passes.
void expect_every_schedule_passes(const Checked& c) {
  EXPECT_EQ(c.problem, "");
  for (const Schedule& schedule : candidates(c.task, 6)) {
    EXPECT_EQ(c.difference(c.task.args, schedule), "") << schedule.to_text();
  }
}

Tensor row_sum(const Tensor& x, int64_t left_out = 0) {
  const Axis k = reduce_axis(x.extent(1) - left_out, "k");
  return compute({x.extent(0)}, [&](Axis i) { return sum(x(i, k), k); }, "s");
}

Tensor reciprocal(const Tensor& s, double plus = 0) {
  return compute(
      {s.extent(0)},
      [&](Axis i) { return make_const(s.dtype(), 1) / (s(i) + make_const(s.dtype(), plus)); }, "y");
}

TEST(OutputBound, AQuotientBySumsNearZeroIsJudgedByItsCondition) {
  // Some of 1536 sums of 128 numbers from [-1, 1] come out near zero.
  const Checked c({placeholder({1536, 128}, f32, "x")},
                  [](const auto& in) { return std::vector{reciprocal(row_sum(in[0]))}; });
  ASSERT_EQ(c.allowed.size(), 1u);
  EXPECT_LT(c.unknown(), 0.01);
  expect_every_schedule_passes(c);
  // A missing term and an error in the epilogue are found, although the largest results are
  // enormous.
  EXPECT_NE(c.of([](const auto& in) { return std::vector{reciprocal(row_sum(in[0], 1))}; }), "");
  EXPECT_NE(c.of([](const auto& in) { return std::vector{reciprocal(row_sum(in[0]), 1e-3)}; }), "");
}

TEST(OutputBound, OneWrongElementIsFoundBesideLargeOnes) {
  const Checked c({placeholder({1536, 128}, f32, "x")},
                  [](const auto& in) { return std::vector{reciprocal(row_sum(in[0]))}; });
  const std::vector<NDArray> right = outputs_of(c.task.args, c.arrays);
  int64_t most = 0, least = 0;
  for (int64_t i = 1; i < right[0].size(); ++i) {
    if (std::abs(right[0].get(i)) > std::abs(right[0].get(most))) most = i;
    if (std::abs(right[0].get(i)) < std::abs(right[0].get(least))) least = i;
  }
  ASSERT_GT(std::abs(right[0].get(most)), 1000 * std::abs(right[0].get(least)));
  NDArray wrong = right[0].copy();
  wrong.data<float>()[least] *= 1.001f;
  EXPECT_NE(c.reference->difference(std::vector{wrong}, true, 1), "");
  measuring::poison(wrong);
  EXPECT_NE(c.reference->difference(std::vector{wrong}, false, 1), "");
}

TEST(OutputBound, SoftmaxAndNormsOfEveryFloatType) {
  for (const DataType t : {f16, bf16, f32, f64}) {
    SCOPED_TRACE(to_string(t));
    const Checked soft({placeholder({37, 100}, t, "x")},
                       [](const auto& in) { return std::vector{ops::softmax(in[0])}; });
    ASSERT_EQ(soft.allowed.size(), 1u);
    EXPECT_EQ(soft.unknown(), 0);
    expect_every_schedule_passes(soft);
    // One term less in the denominator.
    EXPECT_NE(soft.of([&](const auto& in) {
      const Tensor e =
          compute({37, 100}, [&](Axis i, Axis j) { return exp(cast(f32, in[0](i, j))); });
      const Axis k = reduce_axis(99);
      const Tensor s = compute({37}, [&](Axis i) { return sum(e(i, k), k); });
      return std::vector{
          compute({37, 100}, [&](Axis i, Axis j) { return cast(t, e(i, j) / s(i)); })};
    }),
              "");
  }
}

TEST(OutputBound, FunctionsAndDecisions) {
  const std::vector<std::pair<const char*, std::function<Expr(Expr)>>> bodies = {
      {"log", [](const Expr& x) { return log(x * x); }},
      {"sqrt", [](const Expr& x) { return sqrt(x + 1.f); }},
      {"rsqrt", [](const Expr& x) { return rsqrt(x * x + 1e-5f); }},
      {"gelu", [](const Expr& x) { return x * 0.5f * (1.f + erf(x * 0.70710678f)); }},
      {"swish", [](const Expr& x) { return x / (1.f + exp(-x)); }},
      {"tanh", [](const Expr& x) { return tanh(x * 3.f); }},
      {"sine", [](const Expr& x) { return sin(x * 10.f) + cos(x); }},
      {"power", [](const Expr& x) { return pow(abs(x) + 0.1f, Expr(1.7f)); }},
      {"floor", [](const Expr& x) { return floor(x * 7.3f); }},
      {"step", [](const Expr& x) { return select(x > 0.25f, x * 2.f, x - 1.f); }},
      {"cancel", [](const Expr& x) { return (x * 1000.f + 1.f) - x * 1000.f; }},
  };
  for (const auto& [name, body] : bodies) {
    SCOPED_TRACE(name);
    const auto declare = [&](double factor) {
      return [&, factor](const std::vector<Tensor>& in) {
        const Axis k = reduce_axis(40, "k");
        const Tensor s = compute(
            {30, 50}, [&](Axis i, Axis j) { return sum(in[0](i, k) * in[1](k, j), k); }, "s");
        return std::vector{compute(
            {30, 50},
            [&](Axis i, Axis j) { return body(s(i, j) * 0.25f) * make_float(f32, factor); }, "y")};
      };
    };
    const Checked c({placeholder({30, 40}, f32, "a"), placeholder({40, 50}, f32, "b")}, declare(1));
    if (std::string(name) != "cancel") {
      ASSERT_EQ(c.allowed.size(), 1u);
      EXPECT_LT(c.unknown(), 0.02);
    }
    expect_every_schedule_passes(c);
    EXPECT_NE(c.of(declare(1.001)), "");
  }
}

TEST(OutputBound, IntegersAndBoolsThatFloatsDecide) {
  const Checked c({placeholder({40, 64}, f32, "x")}, [](const auto& in) {
    const Tensor p = ops::softmax(in[0]);
    const Axis k = reduce_axis(64, "k");
    return std::vector{
        ops::argmax(p),
        compute(
            {40, 64}, [&](Axis i, Axis j) { return p(i, j) > 0.02f; }, "above"),
        compute({40, 64}, [&](Axis i, Axis j) { return cast(i8, p(i, j) * 1000.f); }, "quantised")};
  });
  ASSERT_EQ(c.allowed.size(), 3u);
  EXPECT_LT(c.unknown(), 0.02);
  EXPECT_EQ(c.difference(c.task.args, measuring::vector_schedule(c.task.tmpl.dag())), "");
  const std::vector<NDArray> right = outputs_of(c.task.args, c.arrays);
  for (size_t o = 0; o < right.size(); ++o) {
    std::vector<NDArray> wrong = right;
    wrong[o] = right[o].copy();
    for (int64_t i = 0; i < 8; ++i) wrong[o].set(i, right[o].get(i) == 0 ? 1 : 0);
    EXPECT_NE(c.reference->difference(wrong, true, 1), "") << o;
  }
}

TEST(OutputBound, ProductsRowsOfInfinitiesAndUsersReducers) {
  const float inf = std::numeric_limits<float>::infinity();
  // The maximum and the sum of exponentials in one pass; masked elements are -inf.
  const Reducer online =
      reducer("online", {f32, f32}, {-inf, 0.f},
              [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
                const Expr m = max(a[0], b[0]);
                return std::vector<Expr>{m, select(a[0] == m, a[1], a[1] * exp(a[0] - m)) +
                                                select(b[0] == m, b[1], b[1] * exp(b[0] - m))};
              });
  const Checked c({placeholder({20, 30}, f32, "x")}, [&](const auto& in) {
    const Axis k = reduce_axis(30, "k"), q = reduce_axis(30, "q");
    const auto both = compute_all(
        {20},
        [&](Axis i) {
          return online({select(in[0](i, k) > 0.9f, Expr(-inf), in[0](i, k) * 4.f), 1.f}, {k});
        },
        "online");
    const Tensor p = compute({20}, [&](Axis i) { return prod(in[0](i, q) + 1.5f, q); }, "p");
    return std::vector{
        compute({20}, [&](Axis i) { return both[0](i) + log(both[1](i)); }, "lse"), p};
  });
  ASSERT_EQ(c.allowed.size(), 2u);
  EXPECT_EQ(c.unknown(), 0);
  EXPECT_EQ(c.problem, "");
  EXPECT_EQ(c.difference(c.task.args, measuring::vector_schedule(c.task.tmpl.dag())), "");
  for (size_t o = 0; o < 2; ++o) {
    std::vector<NDArray> wrong = outputs_of(c.task.args, c.arrays);
    wrong[o] = wrong[o].copy();
    wrong[o].data<float>()[7] *= 1.001f;
    EXPECT_NE(c.reference->difference(wrong, true, 1), "") << o;
  }
}

TEST(OutputBound, OtherFormsOfAConvolutionPassThoughTheyRoundMore) {
  ops::Conv padded;
  padded.padding = {1};
  const Checked c(
      {placeholder({1, 64, 14, 14}, f32, "x"), constant_placeholder({64, 64, 3, 3}, f32, "w")},
      [&](const auto& in) { return std::vector{ops::sigmoid(ops::conv2d(in[0], in[1], padded))}; });
  ASSERT_EQ(c.allowed.size(), 1u);
  EXPECT_EQ(c.problem, "");
  const Template& t = c.task.tmpl;
  int winograd = 0;
  for (int b = 0; b < t.num_branches(); ++b) {
    const Config config = t.config_of_branch(b, t.branch(b).default_config());
    winograd += t.branch(b).dag().alternative().starts_with("winograd");
    EXPECT_EQ(c.difference(c.task.args, t.instantiate(config)), "")
        << t.branch(b).dag().alternative();
  }
  EXPECT_GT(winograd, 0);
  // What a worker knows of a task has no alternatives; its bounds are the same.
  const TuneTask bare{
      .name = c.task.name, .args = c.task.args, .tmpl = make_template(t.dag(), t.target())};
  const measuring::OutputBounds there =
      measuring::bound_outputs(bare, c.arrays, outputs_of(c.task.args, c.arrays));
  EXPECT_TRUE(allclose(there.allowed.at(0), c.allowed[0], 0, 0));
}

TEST(OutputBound, SumsOfProductsNeedNone) {
  const Checked c({placeholder({20, 30}, f32, "a"), placeholder({30, 40}, f32, "b")},
                  [](const auto& in) { return std::vector{ops::relu(ops::matmul(in[0], in[1]))}; });
  EXPECT_TRUE(c.allowed.empty());
}

TEST(OutputBound, AReferenceInDoubtIsReported) {
  const NDArray value = NDArray::full({4}, f64, 1), error = NDArray::full({4}, f64, 1e-6);
  NDArray reference = NDArray::full({4}, f32, 1);
  int64_t wrong = 0;
  NDArray allowed = measuring::allowed_difference(reference, value, error, &wrong);
  EXPECT_EQ(wrong, 0);
  EXPECT_NEAR(allowed.get(0), 1e-6, 5e-7);
  reference.set(2, 1.5);
  allowed = measuring::allowed_difference(reference, value, error, &wrong);
  EXPECT_EQ(wrong, 1);
  EXPECT_GE(allowed.get(2), 0.5);
  EXPECT_LT(allowed.get(1), 2e-6);
}

// With a tolerance relative to the largest result, every correct result of this declaration would
// fail the check.
TEST(OutputBound, TuneFindsNothingWrongWithReciprocalsOfSums) {
  const Tensor y = reciprocal(row_sum(placeholder({1536, 128}, f32, "x")));
  TuneOptions o;
  o.max_trials = 12;
  o.batch = 12;
  o.warm_start = false;
  o.target = two_threads();
  o.policy = [](const SearchContext& c) { return make_random_policy(c); };
  const TuneResult r = tune({y}, o);
  for (const auto& [error, count] : r.failures_by_kind) {
    EXPECT_NE(error, MeasureError::WrongAnswer) << count;
  }
  EXPECT_GT(r.static_seconds, 0);
  EXPECT_LE(r.best_seconds, r.static_seconds);
  EXPECT_TRUE(r.report.problems.empty());
}

TEST(ValueRange, SignsAndBoundsOfWhatNetworksCompute) {
  const Tensor x = placeholder({8, 64}, f32, "x");
  const Axis k = reduce_axis(64, "k"), r = reduce_axis(64, "r");
  const Tensor e = compute({8, 64}, [&](Axis i, Axis j) { return exp(x(i, j)); }, "e");
  const Tensor s = compute({8}, [&](Axis i) { return sum(e(i, k), k); }, "s");
  const Tensor p = compute({8, 64}, [&](Axis i, Axis j) { return e(i, j) / s(i); }, "p");
  const Tensor leaky =
      compute({8, 64}, [&](Axis i, Axis j) { return select(x(i, j) > 0.f, x(i, j), 0.f); }, "relu");
  const Tensor squares = compute({8}, [&](Axis i) { return sum(x(i, r) * x(i, r), r); }, "q");
  const dag::ValueRanges ranges(ComputeDag({p, leaky, squares}));
  EXPECT_NEAR(ranges.of(e).lo, std::exp(-1), 1e-6);
  EXPECT_NEAR(ranges.of(s).lo, 64 * std::exp(-1), 1e-4);
  EXPECT_NEAR(ranges.of(s).hi, 64 * std::exp(1), 1e-3);
  EXPECT_GT(ranges.of(p).lo, 0);
  EXPECT_LT(ranges.of(p).hi, 1);
  EXPECT_EQ(ranges.of(leaky).lo, 0);
  EXPECT_EQ(ranges.of(leaky).hi, 1);
  EXPECT_EQ(ranges.of(squares).lo, 0);
  const auto drawn = network::drawn_range(ranges.of(s), f32);
  ASSERT_TRUE(drawn.has_value());
  EXPECT_GT(drawn->lo, 20);
  EXPECT_FALSE(network::drawn_range(ranges.of(x), f32).has_value());
  EXPECT_FALSE(network::drawn_range({}, f32).has_value());
}

}  // namespace
}  // namespace heddle::testing
