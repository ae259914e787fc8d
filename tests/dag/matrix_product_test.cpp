// The rule matrix_product: where it is legal and of use, and what becomes of the graph.
#include <gmock/gmock.h>
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

// wgmma multiplies bytes and 8-bit floats that lie along the sum, as channels do in the filters of an ONNX file.
TEST(MatrixProduct, IsOfBytesAlongTheSum) {
  const auto conv = [](DataType of_image, DataType of_filters, bool across = false) {
    const Axis c = reduce_axis(64), r = reduce_axis(1), q = reduce_axis(1);
    const Tensor x = placeholder({2, 14, 14, 64}, of_image, "x");
    const Tensor w = across ? constant_placeholder({1, 1, 64, 48}, of_filters, "w")
                            : constant_placeholder({48, 64, 1, 1}, of_filters, "w");
    const DataType sums = of_image.is_float() ? f32 : i32;
    return compute({2, 14, 14, 48}, [&](Axis n, Axis i, Axis j, Axis k) {
      return sum(
          cast(sums, x(n, i + r, j + q, c)) * cast(sums, across ? w(r, q, c, k) : w(k, c, r, q)),
          {c, r, q});
    });
  };
  constexpr const char* kHopper = "cuda -gpu=h200";
  for (const auto& [a, b] : {std::pair{i8, i8}, {u8, i8}, {u8, u8}, {f8e4m3, f8e4m3}}) {
    EXPECT_TRUE(matrix_product(conv(a, b), kHopper)) << a << " " << b;
    EXPECT_FALSE(matrix_product(conv(a, b, true), kHopper)) << a << " " << b;
  }
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

// A convolution of one tap of an image with its channels innermost and of the filters of an ONNX
// file, whose taps come last.
struct Pointwise {
  int64_t stride = 1, groups = 1;
  bool scaled = false;  // the filters have a factor, as where batch norm was folded
  Tensor y() const {
    const Tensor x = placeholder({2, 10, 14, 64 * groups}, f16, "x"),
                 w = constant_placeholder({48 * groups, 64, 1, 1}, f16, "w"),
                 factor = constant_placeholder({48 * groups}, f16, "factor");
    const Tensor filters =
        scaled ? compute(w.shape(),
                         [&](Axis k, Axis c, Axis r, Axis q) { return w(k, c, r, q) * factor(k); })
               : w;
    const Axis c = reduce_axis(64), r = reduce_axis(1), q = reduce_axis(1);
    return compute({2, 10 / stride, 14 / stride, 48 * groups}, [&](Axis n, Axis i, Axis j, Axis k) {
      const Expr group = groups == 1 ? Expr(0) : floordiv(k, 48) * 64;
      return sum(cast(f32, x(n, i * stride + r, j * stride + q, group + c)) *
                     cast(f32, filters(k, c, r, q)),
                 {c, r, q});
    });
  }
};

// The extents of all stages of `y` by matrix_product, in order.
std::vector<Extents> stages_of(const Tensor& y) {
  const std::optional<Alternative> found = matrix_product(y, "cuda -gpu=h200");
  if (!found) return {};
  const ComputeDag other = apply_alternative(ComputeDag({y}), found->name);
  std::vector<Extents> out;
  for (int s = 0; s < other.size(); ++s) out.push_back(other.stage(s).output(0).extents());
  return out;
}

TEST(MatrixProduct, DropsTheTapsOfItsFilters) {
  EXPECT_EQ(stages_of(Pointwise{}.y()), (std::vector<Extents>{{280, 64}, {48, 64}, {280, 48}}));
}

// The pixels between are left out, so that rows of the image are not merged.
TEST(MatrixProduct, IsOfUseWithAStrideToo) {
  EXPECT_EQ(stages_of(Pointwise{.stride = 2}.y()),
            (std::vector<Extents>{{2, 10, 14, 64}, {48, 64}, {2, 5, 7, 48}}));
}

TEST(MatrixProduct, DropsTheTapsOfScaledFilters) {
  const Extents image{2, 10, 14, 64}, filters{48, 64}, factor{48}, result{2, 5, 7, 48};
  EXPECT_THAT(stages_of(Pointwise{.stride = 2, .scaled = true}.y()),
              ::testing::UnorderedElementsAre(image, filters, factor, filters, result));
}

TEST(MatrixProduct, IsOfNoUseForGroups) {
  EXPECT_TRUE(stages_of(Pointwise{.groups = 2}.y()).empty());
}

// Where channels come first, rows of pixels are what TMA loads, and a stride leaves none.
TEST(MatrixProduct, TakesImagesWithTheirChannelsFirst) {
  const auto conv = [](int64_t side, int64_t stride) {
    ops::Conv at;
    at.stride = {stride};
    return ops::conv2d(placeholder({8, 64, side, side}, f16),
                       constant_placeholder({48, 64, 1, 1}, f16), at);
  };
  const Extents result{8, 48, 784};  // of the sum, and rounded
  EXPECT_EQ(stages_of(conv(28, 1)), (std::vector<Extents>{{8, 64, 784}, {48, 64}, result, result}));
  EXPECT_TRUE(stages_of(conv(7, 1)).empty()) << "rows of 98 bytes";
  EXPECT_TRUE(stages_of(conv(28, 2)).empty());
}

}  // namespace
}  // namespace heddle
