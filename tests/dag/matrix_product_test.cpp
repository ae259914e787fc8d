// The rule matrix_product: where it is legal and of use, and what becomes of the graph.
#include <gtest/gtest.h>

#include <optional>

#include "heddle/dag/alternatives.h"
#include "heddle/ops/ops.h"

namespace heddle {
namespace {

using Extents = std::vector<int64_t>;

// The one alternative of `y` by matrix_product; none where the rule has no such name.
std::optional<Alternative> matrix_product(const Tensor& y, const char* target) {
  for (const Alternative& a : alternatives_of(ComputeDag({y}), Target::parse(target), {})) {
    if (a.name.starts_with("matrix_product") && a.legal()) return a;
  }
  return {};
}

TEST(MatrixProduct, IsWhatA1x1ConvolutionIsOnHopper) {
  constexpr const char* kHopper = "cuda -gpu=h100";
  ops::Conv at;
  at.layout = ops::NHWC;
  const auto conv = [&](DataType t, int64_t channels, int64_t taps = 1) {
    return ops::conv2d(placeholder({2, 14, 14, channels}, t, "x"),
                       constant_placeholder({taps, taps, channels, 48}, t, "w"), at);
  };
  const Tensor y = conv(f16, 128);
  const std::optional<Alternative> found = matrix_product(y, kHopper);
  ASSERT_TRUE(found);
  EXPECT_GT(found->speedup, 1);
  const ComputeDag other = apply_alternative(ComputeDag({y}), found->name);
  for (int s = 0; s < other.size(); ++s) {
    if (!other.stage(s).is_reduction()) continue;
    EXPECT_EQ(other.stage(s).output(0).extents(), (Extents{392, 48}));
    EXPECT_EQ(other.stage(s).reduce_axes().size(), 1) << "the taps have one value";
  }
  EXPECT_FALSE(matrix_product(y, "cuda -gpu=a100")) << "there is no wgmma";
  EXPECT_FALSE(matrix_product(y, "llvm -mcpu=znver3 -threads=2"));
  EXPECT_FALSE(matrix_product(conv(f32, 128), kHopper));
  EXPECT_TRUE(matrix_product(conv(f16, 64), kHopper)) << "one step";
  EXPECT_FALSE(matrix_product(conv(f16, 132), kHopper)) << "rows of no 16 bytes";
  EXPECT_FALSE(matrix_product(conv(f16, 128, 3), kHopper));
  EXPECT_FALSE(matrix_product(
      ops::matmul(placeholder({2, 96, 128}, f16), placeholder({128, 64}, f16)), kHopper))
      << "collapse does it";
}

TEST(MatrixProduct, IsNotOfTwoTypes) {
  Axis k = reduce_axis(128, "k"), tap = reduce_axis(1, "tap");
  const Tensor x = placeholder({6, 64, 128}, f16, "x"), w = placeholder({1, 128, 48}, bf16, "w");
  const Tensor y = compute({6, 64, 48}, [&](Axis n, Axis i, Axis j) {
    return sum(cast(f32, x(n, i, k)) * cast(f32, w(tap, k, j)), {tap, k});
  });
  EXPECT_FALSE(matrix_product(y, "cuda -gpu=h100"));
}

// Both merge the rows, 28 of which are less than half of a tile of 64; this one keeps TMA and wgmma.
TEST(MatrixProduct, IsExpectedToGainMoreThanCollapse) {
  ops::Conv at;
  at.layout = ops::NHWC;
  const Tensor y = ops::conv2d(placeholder({32, 28, 28, 128}, f16),
                               constant_placeholder({1, 1, 128, 512}, f16), at);
  double collapsed = 0, product = 0;
  for (const Alternative& a :
       alternatives_of(ComputeDag({y}), Target::parse("cuda -gpu=h100"), {})) {
    if (a.name.starts_with("collapse")) collapsed = a.speedup;
    if (a.name.starts_with("matrix_product")) product = a.speedup;
  }
  EXPECT_GT(collapsed, 1.4);
  EXPECT_GT(product, collapsed);
}

// The filters of an ONNX file, whose taps come last.
TEST(MatrixProduct, DropsTheTapsOfItsFilters) {
  const Tensor x = placeholder({2, 5, 7, 64}, f16, "x"),
               w = constant_placeholder({48, 64, 1, 1}, f16, "w");
  const Axis c = reduce_axis(64), r = reduce_axis(1), q = reduce_axis(1);
  const Tensor y = compute({2, 5, 7, 48}, [&](Axis n, Axis i, Axis j, Axis k) {
    return sum(cast(f32, x(n, i + r, j + q, c)) * cast(f32, w(k, c, r, q)), {c, r, q});
  });
  const std::optional<Alternative> found = matrix_product(y, "cuda -gpu=h200");
  ASSERT_TRUE(found);
  const ComputeDag other = apply_alternative(ComputeDag({y}), found->name);
  std::vector<Extents> inputs;
  for (int s = 0; s < other.size(); ++s) {
    if (other.stage(s).is_placeholder()) inputs.push_back(other.stage(s).output(0).extents());
  }
  EXPECT_EQ(inputs, (std::vector<Extents>{{70, 64}, {48, 64}}));
}

}  // namespace
}  // namespace heddle
