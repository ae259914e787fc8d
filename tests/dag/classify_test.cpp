#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dag/declarations.h"

namespace heddle::dag_test {
namespace {

using ::testing::HasSubstr;

/// An index into a table of 1000 rows.
Expr clamp(Expr index) { return max(min(index, 999), 0); }

TEST(Classify, MatmulBiasRelu) {
  const Matmul m;
  const ComputeDag dag({m.d});
  EXPECT_EQ(info(dag, "A").stage_class, StageClass::Placeholder);
  EXPECT_EQ(info(dag, "A").reason, "A is an input");
  EXPECT_EQ(info(dag, "C").stage_class, StageClass::ComplexReduction);
  EXPECT_EQ(info(dag, "C").reason,
            "C is a complex reduction: A is reused along j (extent 512), B along i (extent 512)");
  EXPECT_EQ(info(dag, "D").stage_class, StageClass::DirectCompute);
  EXPECT_EQ(info(dag, "D").reason, "D is a direct compute: an output without a reduction");
}

TEST(Classify, MatmulTransposedAndGram) {
  Tensor a = placeholder({64, 32}, f32, "A"), b = placeholder({48, 32}, f32, "B");
  Axis k = reduce_axis(32, "k");
  Tensor t = compute({64, 48}, [&](Axis i, Axis j) { return sum(a(i, k) * b(j, k), k); }, "T");
  EXPECT_EQ(info(ComputeDag({t}), "T").stage_class, StageClass::ComplexReduction);
  Tensor g = compute({64, 64}, [&](Axis i, Axis j) { return sum(a(i, k) * a(j, k), k); }, "G");
  EXPECT_EQ(info(ComputeDag({g}), "G").reason,
            "G is a complex reduction: A[i, k] is reused along j (extent 64), A[j, k] along i "
            "(extent 64)");
}

TEST(Classify, ASpatialAxisOfExtentOneReusesNothing) {
  Tensor a = placeholder({1, 32}, f32, "A"), b = placeholder({32, 1}, f32, "B");
  Axis k = reduce_axis(32, "k");
  Tensor t = compute({1, 1}, [&](Axis i, Axis j) { return sum(a(i, k) * b(k, j), k); }, "dot");
  EXPECT_EQ(info(ComputeDag({t}), "dot").stage_class, StageClass::SimpleReduction);
}

TEST(Classify, OperandsAreWhatMattersNotTheOperator) {
  Tensor a = placeholder({64, 32}, f32, "A"), b = placeholder({48, 32}, f32, "B");
  Axis k = reduce_axis(32, "k");
  Tensor distance =
      compute({64, 48}, [&](Axis i, Axis j) { return sum(abs(a(i, k) - b(j, k)), k); }, "distance");
  EXPECT_EQ(info(ComputeDag({distance}), "distance").stage_class, StageClass::ComplexReduction);
  Tensor p = placeholder({64, 32}, boolean, "P"), q = placeholder({32, 48}, boolean, "Q");
  Tensor reach =
      compute({64, 48}, [&](Axis i, Axis j) { return any(p(i, k) && q(k, j), k); }, "reach");
  EXPECT_EQ(info(ComputeDag({reach}), "reach").stage_class, StageClass::ComplexReduction);
}

TEST(Classify, ConvBiasReluWithPad) {
  const Conv c(64, 56, 64, 3, 1, 1);
  const ComputeDag dag({c.relu});
  EXPECT_EQ(info(dag, "pad").stage_class, StageClass::LocationTunable);
  EXPECT_EQ(info(dag, "pad").reason,
            "pad is location-tunable: no reduction, not an output, read by conv (affine)");
  EXPECT_TRUE(info(dag, "pad").reads[0].guarded);
  EXPECT_EQ(info(dag, "pad").reads[0].pattern, AccessPattern::Injective);
  EXPECT_EQ(info(dag, "pad").flops, 0);  // index arithmetic and comparisons are no work
  EXPECT_EQ(info(dag, "conv").stage_class, StageClass::ComplexReduction);
  EXPECT_EQ(info(dag, "conv").reason,
            "conv is a complex reduction: pad is reused along i1 (extent 64) and in overlapping "
            "windows along i2 (extent 56) and i3 (extent 56), weight along i0 (extent 2), i2 "
            "(extent 56) and i3 (extent 56)");
  EXPECT_EQ(info(dag, "weight").reason, "weight is a constant input");
  EXPECT_EQ(info(dag, "relu").stage_class, StageClass::DirectCompute);
}

TEST(Classify, DepthwiseConvolution) {
  Tensor x = placeholder({32, 58, 58}, f32, "x"), w = placeholder({32, 3, 3}, f32, "w");
  Axis r = reduce_axis(3, "r"), s = reduce_axis(3, "s");
  Tensor y = compute(
      {32, 56, 56},
      [&](Axis c, Axis h, Axis v) { return sum(x(c, h + r, v + s) * w(c, r, s), {r, s}); }, "y");
  const StageInfo i = info(ComputeDag({y}), "y");
  EXPECT_EQ(i.stage_class, StageClass::ComplexReduction);
  EXPECT_THAT(i.reason, HasSubstr("x is reused in overlapping windows along"));
  EXPECT_EQ(i.flops, 32. * 56 * 56 * 9 * 2);
}

TEST(Classify, PoolingHasNoSecondOperand) {
  Tensor x = placeholder({64, 57, 57}, f32, "x");
  Axis r = reduce_axis(3, "r"), s = reduce_axis(3, "s");
  Tensor y = compute(
      {64, 28, 28},
      [&](Axis c, Axis h, Axis w) { return reduce_max(x(c, h * 2 + r, w * 2 + s), {r, s}); },
      "pool");
  const StageInfo i = info(ComputeDag({y}), "pool");
  EXPECT_EQ(i.stage_class, StageClass::SimpleReduction);
  EXPECT_EQ(i.reason,
            "pool is a simple reduction: x is reused in overlapping windows along i1 (extent 28) "
            "and i2 (extent 28), but no second operand varies along r and s");
}

TEST(Classify, Softmax) {
  const Softmax s;
  const ComputeDag dag({s.y});
  EXPECT_EQ(info(dag, "high").reason,
            "high is a simple reduction: no element of x serves two output points");
  EXPECT_EQ(info(dag, "total").stage_class, StageClass::SimpleReduction);
  EXPECT_EQ(info(dag, "y").stage_class, StageClass::DirectCompute);
  EXPECT_EQ(info(dag, "total").transcendentals_per_point, 1);
  EXPECT_EQ(info(dag, "total").flops_per_point, 3);  // subtract, exp, add
}

TEST(Classify, LayerNorm) {
  const int m = 32, n = 64;
  Tensor x = placeholder({m, n}, f32, "x"), gamma = placeholder({n}, f32, "gamma");
  Axis k = reduce_axis(n, "k"), r = reduce_axis(n, "r");
  Tensor total = compute({m}, [&](Axis i) { return sum(x(i, k), k); }, "total");
  Tensor mean = compute({m}, [&](Axis i) { return total(i) * (1.f / n); }, "mean");
  Tensor square = compute(
      {m},
      [&](Axis i) {
        Expr d = x(i, r) - mean(i);
        return sum(d * d, r);
      },
      "square");
  Tensor y = compute(
      {m, n},
      [&](Axis i, Axis j) {
        return (x(i, j) - mean(i)) * rsqrt(square(i) * (1.f / n) + 1e-5f) * gamma(j);
      },
      "y");
  const ComputeDag dag({y});
  EXPECT_EQ(info(dag, "total").stage_class, StageClass::SimpleReduction);
  EXPECT_EQ(info(dag, "mean").reason,
            "mean is location-tunable: no reduction, not an output, read by square (elementwise) "
            "and y (broadcast)");
  EXPECT_EQ(info(dag, "square").stage_class, StageClass::SimpleReduction);
  EXPECT_EQ(info(dag, "square").flops_per_point, 3);  // d is counted once
  EXPECT_EQ(info(dag, "y").stage_class, StageClass::DirectCompute);
}

TEST(Classify, AStatisticThatDoesNotVaryAlongTheReductionIsNoOperand) {
  Tensor x = placeholder({8, 16, 32}, f32, "x"), scale = placeholder({16}, f32, "scale");
  Axis k = reduce_axis(32, "k");
  Tensor y = compute({8, 16}, [&](Axis b, Axis i) { return sum(x(b, i, k) * scale(i), k); }, "y");
  EXPECT_EQ(
      info(ComputeDag({y}), "y").reason,
      "y is a simple reduction: no element of x serves two output points; scale does not vary "
      "along k");
}

TEST(Classify, AMaskThatIsOnlyAddedStaysSimple) {
  Tensor x = placeholder({8, 16, 32}, f32, "x"), mask = placeholder({8, 32}, f32, "mask");
  Axis k = reduce_axis(32, "k");
  Tensor y =
      compute({8, 16}, [&](Axis b, Axis i) { return sum(exp(x(b, i, k) + mask(b, k)), k); }, "y");
  EXPECT_EQ(
      info(ComputeDag({y}), "y").reason,
      "y is a simple reduction: mask is reused along j (extent 16), but it is multiplied with no "
      "other operand, and no other is reused");
  // The square of (x + b) is no product of x and b either.
  Tensor b = placeholder({32}, f32, "b");
  Tensor z = compute(
      {8, 16},
      [&](Axis n, Axis i) {
        Expr d = x(n, i, k) + b(k);
        return sum(d * d, k);
      },
      "z");
  EXPECT_EQ(info(ComputeDag({z}), "z").stage_class, StageClass::SimpleReduction);
}

TEST(Classify, GatherAndConcatAndTranspose) {
  Tensor table = placeholder({1000, 64}, f32, "table"), ids = placeholder({16}, i64, "ids");
  Tensor rows = compute({16, 64}, [&](Axis i, Axis j) { return table(clamp(ids(i)), j); }, "rows");
  Tensor other = placeholder({16, 64}, f32, "other");
  Tensor both = compute(
      {32, 64}, [&](Axis i, Axis j) { return select(Expr(i) < 16, rows(i, j), other(i - 16, j)); },
      "both");
  Tensor turned = compute({64, 32}, [&](Axis j, Axis i) { return both(i, j); }, "turned");
  const ComputeDag dag({turned});
  EXPECT_EQ(info(dag, "rows").stage_class, StageClass::LocationTunable);
  EXPECT_EQ(info(dag, "rows").reads[0].pattern, AccessPattern::Opaque);
  EXPECT_EQ(info(dag, "both").reads[0].pattern, AccessPattern::Elementwise);
  EXPECT_EQ(info(dag, "both").reads[1].pattern, AccessPattern::Injective);
  EXPECT_TRUE(info(dag, "both").reads[1].guarded);
  EXPECT_EQ(info(dag, "turned").reads[0].pattern, AccessPattern::Injective);
}

TEST(Classify, EmbeddingBagAndTupleReduction) {
  Tensor table = placeholder({1000, 64}, f32, "table"), ids = placeholder({16, 8}, i64, "ids");
  Axis k = reduce_axis(8, "k");
  Tensor bag =
      compute({16, 64}, [&](Axis i, Axis j) { return sum(table(clamp(ids(i, k)), j), k); }, "bag");
  EXPECT_EQ(info(ComputeDag({bag}), "bag").stage_class, StageClass::SimpleReduction);

  Tensor a = placeholder({16, 8}, f32, "A");
  Reducer argmax = reducer("argmax", {i64, f32}, {Expr(int64_t{-1}), lowest_value(f32)},
                           [](const std::vector<Expr>& p, const std::vector<Expr>& q) {
                             return std::vector<Expr>{select(p[1] >= q[1], p[0], q[0]),
                                                      select(p[1] >= q[1], p[1], q[1])};
                           });
  const auto best = compute_all({16}, [&](Axis i) { return argmax({k, a(i, k)}, {k}); }, "best");
  const ComputeDag dag({best[0]});
  EXPECT_EQ(info(dag, "best").stage_class, StageClass::SimpleReduction);
  EXPECT_TRUE(info(dag, "best").is_output);
  EXPECT_EQ(info(dag, "best").flops_per_point, 1);
}

}  // namespace
}  // namespace heddle::dag_test
