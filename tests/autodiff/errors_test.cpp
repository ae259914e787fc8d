#include <algorithm>

#include "autodiff/gradient_testing.h"
#include "heddle/dsl/dim.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(GradientErrors, ATensorThatNoOutputDependsOn) {
  const Tensor x = placeholder({4}, f32, "x"), other = placeholder({3}, f32, "other");
  const Tensor y = ops::sum(ops::square(x), {0});
  EXPECT_THAT(error_of([&] { gradient(y, other); }),
              HasSubstr("no output of the gradient depends on 'other' | leave it out"));
  const Tensor zero = gradient({y}, {other}, {}, {.unconnected = Unconnected::Zero})[0];
  expect_elements(zero, {}, [](const Dims&) { return 0.0; });
  // Comparisons and conversions to integers carry no derivative.
  const Tensor steps = ops::sum(ops::cast(ops::cast(x, i32), f32), {0});
  EXPECT_THAT(error_of([&] { gradient(steps, x); }), HasSubstr("depends on 'x'"));
  // Rounding does, and it is 0.
  const Tensor rounded = ops::sum(ops::round(x), {0});
  expect_elements(gradient(rounded, x), {}, [](const Dims&) { return 0.0; });
}

TEST(GradientErrors, TensorsOfIntegers) {
  const Tensor n = placeholder({4}, i32, "n"), x = placeholder({4}, f32, "x");
  EXPECT_THAT(error_of([&] { gradient(ops::sum(ops::cast(n, f32), {0}), n); }),
              HasSubstr("'n' of type i32 is the variable of a gradient, and only floats have one"));
  EXPECT_THAT(error_of([&] { gradient(ops::argmax(x), x); }),
              HasSubstr("is an output of a gradient"));
}

TEST(GradientErrors, HeadsThatDoNotFit) {
  const Tensor x = placeholder({4}, f32, "x"), y = ops::square(x);
  EXPECT_THAT(error_of([&] { gradient(y, x); }),
              HasSubstr("has shape (4) and no head | reduce it"));
  const Tensor head = placeholder({5}, f32, "head");
  EXPECT_THAT(error_of([&] { gradient({y}, {x}, {head}); }),
              HasSubstr("the head 'head' is f32 (5), and its output"));
  EXPECT_THAT(error_of([&] { gradient({y}, {x}, {head, head}); }),
              HasSubstr("2 heads for 1 output"));
  EXPECT_THAT(error_of([&] { gradient(std::vector<Tensor>{}, {x}); }), HasSubstr("no outputs"));
  EXPECT_THAT(error_of([&] { gradient(y, Tensor{}); }), HasSubstr("never assigned"));
}

TEST(GradientErrors, ReducersWithoutDerivative) {
  const Tensor x = placeholder({3, 4}, f32, "x");
  const Reducer odd = reducer("odd", {f32}, {0.f}, [](const auto& a, const auto& b) {
    return std::vector<Expr>{a[0] + b[0] * 1.f + a[0] * b[0]};
  });
  const Axis k = reduce_axis(4, "k");
  const Tensor y = compute({Expr(3)}, [&](Axis i) { return odd({x(i, k)}, {k})[0]; }, "folded");
  EXPECT_THAT(error_of([&] { gradient(ops::sum(y, {0}), x); }),
              HasSubstr("'folded' has no gradient: the reducer 'odd' has no derivative"));
  const Reducer pair = reducer("complex", {f32, f32}, {1.f, 0.f}, [](const auto& a, const auto& b) {
    return std::vector<Expr>{a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]};
  });
  const Axis r = reduce_axis(4, "r");
  const Tensor z =
      compute_all({Expr(3)}, [&](Axis i) { return pair({x(i, r), x(i, r)}, {r}); }, "two")[0];
  EXPECT_THAT(error_of([&] { gradient(ops::sum(z, {0}), x); }),
              HasSubstr("the reducer 'complex' has no derivative"));
  const auto few = [](const auto&, const auto&, const auto&) { return std::vector<Expr>{}; };
  EXPECT_THAT(error_of([&] { gradient({ops::sum(z, {0})}, {x}, {}, {.reducers = {{pair, few}}}); }),
              HasSubstr("gives 0 values for 2 components"));
}

TEST(Gradient, OfSeveralOutputsIsTheirSum) {
  const Input x = input({5});
  const Tensor a = ops::sum(ops::square(x), {0}), b = ops::sum(x, {0});
  expect_elements(gradient({a, b}, {x.tensor})[0], {x},
                  [&](const Dims& p) { return 2 * x.at(p) + 1; });
}

TEST(Gradient, WithRespectToAStageAndToTheOutput) {
  const Input x = input({5});
  const Tensor s = ops::square(x), y = ops::sum(ops::exp(s), {0});
  const std::vector<Tensor> both = gradient({y}, {s, x.tensor});
  expect_elements(both[0], {x}, [&](const Dims& p) { return std::exp(x.at(p) * x.at(p)); }, 1e-4);
  expect_elements(gradient(y, y), {x}, [](const Dims&) { return 1.0; });
}

TEST(Gradient, OverDimensionsHasTheirSizes) {
  const Dim n = dim("n", 1, 64);
  const Tensor x = placeholder({n, 8}, f32, "x"), w = placeholder({8, 16}, f32, "w");
  const Axis k = reduce_axis(8, "k");
  const Tensor y = compute({n, 16}, [&](Axis i, Axis j) { return sum(x(i, k) * w(k, j), k); }, "y");
  const Tensor head = placeholder({n, 16}, f32, "head");
  const std::vector<Tensor> d = gradient({y}, {x, w}, {head});
  EXPECT_TRUE(equal(d[0].shape()[0], Expr(n)));
  EXPECT_EQ(d[1].extents(), (std::vector<int64_t>{8, 16}));
  const ComputeDag dag(d);
  for (const Access& a : dag.info(dag.index_of(d[0].op())).reads) EXPECT_FALSE(a.guarded);
  for (const Tensor& t : d)
    EXPECT_EQ(dag.info(dag.index_of(t.op())).stage_class, StageClass::ComplexReduction)
        << dag.to_text();
}

TEST(Gradient, StopsAtConstants) {
  const Input x = input({5});
  const Tensor s = ops::square(x), y = ops::sum(ops::mul(s, x), {0});
  expect_elements(gradient({y}, {x.tensor}, {}, {.stop = {s}})[0], {x},
                  [&](const Dims& p) { return x.at(p) * x.at(p); });
  EXPECT_THAT(error_of([&] { gradient({ops::sum(s, {0})}, {x.tensor}, {}, {.stop = {s}}); }),
              HasSubstr("no output of the gradient depends on"));
}

TEST(Gradient, OfTheProgram) {
  const Input x = input({5});
  // The gradient of rounding, passed straight through, clipped.
  const Tensor rounded = ops::round(x), y = ops::sum(ops::mul(rounded, rounded), {0});
  const CustomGradient straight{rounded, {x.tensor}, [](const Tensor& head) {
                                  return std::vector<Tensor>{ops::clip(head, -2, 2)};
                                }};
  expect_elements(
      gradient({y}, {x.tensor}, {}, {.custom = {straight}})[0], {x},
      [&](const Dims& p) { return std::clamp(2 * std::nearbyint(x.at(p)), -2.0, 2.0); });
  const CustomGradient wrong{rounded, {x.tensor}, [](const Tensor& head) {
                               return std::vector<Tensor>{ops::sum(head, {0})};
                             }};
  EXPECT_THAT(error_of([&] { gradient({y}, {x.tensor}, {}, {.custom = {wrong}}); }),
              HasSubstr("for its input 'x1', f32 (5)"));
}

}  // namespace
}  // namespace heddle
