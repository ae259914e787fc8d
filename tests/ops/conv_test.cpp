#include "ops/ops_testing.h"

namespace heddle {
namespace {

struct Case {
  Dims x, w;  ///< (N, C, H, W) and (K, C / groups, R, S)
  int64_t stride = 1, before = 0, after = 0, dilation = 1, groups = 1;
};

const Case kCases[] = {
    {{2, 3, 7, 6}, {4, 3, 3, 2}},
    {{1, 2, 8, 9}, {3, 2, 3, 3}, 2, 1, 1},
    {{1, 2, 9, 9}, {2, 2, 3, 3}, 1, 2, 1, 2},
    {{1, 6, 5, 5}, {4, 3, 3, 3}, 1, 1, 1, 1, 2},
    {{1, 3, 5, 7}, {3, 1, 3, 3}, 2, 1, 1, 1, 3},
    {{1, 4, 1, 1}, {2, 4, 1, 1}},
};

double conv_reference(const Case& c, const Input& x, const Input& w, int64_t n, int64_t k,
                      int64_t y, int64_t z) {
  const int64_t per_group = c.w[0] / c.groups, group = k / per_group;
  double s = 0;
  for (int64_t ch = 0; ch < c.w[1]; ++ch)
    for (int64_t r = 0; r < c.w[2]; ++r)
      for (int64_t q = 0; q < c.w[3]; ++q)
        s += x.or_else(0, {n, group * c.w[1] + ch, y * c.stride - c.before + r * c.dilation,
                           z * c.stride - c.before + q * c.dilation}) *
             w(k, ch, r, q);
  return s;
}

TEST(Conv2d, AgreesWithTheReference) {
  for (const Case& c : kCases) {
    for (DataType t : {f32, f16}) {
      SCOPED_TRACE(testing::PrintToString(c.x) + testing::PrintToString(c.w));
      const Input x = input(c.x, t, 1), w = input(c.w, t, 2), b = input({c.w[0]}, t, 3);
      const Tensor y = ops::conv2d(x, w,
                                   {.stride = {c.stride},
                                    .padding = {c.before, c.before, c.after, c.after},
                                    .dilation = {c.dilation},
                                    .groups = c.groups},
                                   b);
      EXPECT_EQ(y.extent(2),
                (c.x[2] + c.before + c.after - c.dilation * (c.w[2] - 1) - 1) / c.stride + 1);
      expect_elements(y, {x, w, b}, [&](const Dims& i) {
        return conv_reference(c, x, w, i[0], i[1], i[2], i[3]) + b(i[1]);
      });
    }
  }
}

TEST(Conv2d, OfChannelsLast) {
  const Input x = input({2, 6, 5, 4}, f32, 1), w = input({3, 3, 2, 6}, f32, 2);
  const Tensor y = ops::conv2d(x, w, {.padding = {1}, .groups = 2, .layout = ops::NHWC});
  EXPECT_EQ(y.extents(), (Dims{2, 6, 5, 6}));
  expect_elements(y, {x, w}, [&](const Dims& i) {
    double s = 0;
    for (int c = 0; c < 2; ++c)
      for (int r = 0; r < 3; ++r)
        for (int q = 0; q < 3; ++q)
          s +=
              x.or_else(0, {i[0], i[1] + r - 1, i[2] + q - 1, i[3] / 3 * 2 + c}) * w(r, q, c, i[3]);
    return s;
  });
}

TEST(Conv2d, OfBytesAnswersInI32) {
  const Case c{{1, 3, 5, 5}, {2, 3, 3, 3}};
  const Input x = input(c.x, u8, 1), w = input(c.w, i8, 2, -90, 90);
  const Tensor y = ops::conv2d(x, w);
  EXPECT_EQ(y.dtype(), i32);
  expect_elements(y, {x, w},
                  [&](const Dims& i) { return conv_reference(c, x, w, i[0], i[1], i[2], i[3]); });
}

TEST(Conv2d, HasAPaddingStageOnlyWhereThereIsPadding) {
  const Input x = input({1, 2, 5, 5}), w = input({2, 2, 3, 3});
  EXPECT_TRUE(ops::conv2d(x, w).op()->inputs()[0].same_as(x));
  const Tensor padded = ops::conv2d(x, w, {.padding = {1}}).op()->inputs()[0];
  EXPECT_EQ(padded.op()->tag(), "pad");
}

TEST(Conv1dAnd3d, AgreeWithTheReference) {
  const Input x = input({2, 3, 9}, f32, 1), w = input({4, 3, 3}, f32, 2);
  expect_elements(ops::conv1d(x, w, {.stride = {2}, .padding = {1, 0}}), {x, w},
                  [&](const Dims& i) {
                    double s = 0;
                    for (int c = 0; c < 3; ++c)
                      for (int r = 0; r < 3; ++r)
                        s += x.or_else(0, {i[0], c, i[2] * 2 + r - 1}) * w(i[1], c, r);
                    return s;
                  });
  const Input v = input({1, 2, 4, 5, 3}, f32, 3), u = input({2, 2, 2, 3, 2}, f32, 4);
  expect_elements(ops::conv3d(v, u, {.padding = {0, 1, 1}}), {v, u}, [&](const Dims& i) {
    double s = 0;
    for (int c = 0; c < 2; ++c)
      for (int r = 0; r < 2; ++r)
        for (int q = 0; q < 3; ++q)
          for (int p = 0; p < 2; ++p)
            s +=
                v.or_else(0, {i[0], c, i[2] + r, i[3] + q - 1, i[4] + p - 1}) * u(i[1], c, r, q, p);
    return s;
  });
}

TEST(DepthwiseConv2d, TakesEachChannelByItself) {
  for (int64_t multiplier : {1, 2}) {
    const Case c{{2, 3, 6, 5}, {3 * multiplier, 1, 3, 3}, 1, 1, 1, 1, 3};
    const Input x = input(c.x, f32, 1), w = input(c.w, f32, 2);
    expect_elements(ops::depthwise_conv2d(x, w, {.padding = {1}}), {x, w},
                    [&](const Dims& i) { return conv_reference(c, x, w, i[0], i[1], i[2], i[3]); });
  }
}

struct TransposeCase {
  Dims x, w;  ///< (N, C, H, W) and (C, K / groups, R, S)
  int64_t stride = 1, padding = 0, dilation = 1, output_padding = 0, groups = 1;
};

TEST(ConvTranspose2d, ScattersAsTheDefinitionSays) {
  const TransposeCase cases[] = {
      {{1, 3, 4, 4}, {3, 2, 4, 4}, 2, 1},       {{2, 2, 3, 4}, {2, 3, 3, 2}},
      {{1, 2, 3, 3}, {2, 2, 3, 3}, 2, 1, 1, 1}, {{1, 2, 3, 2}, {2, 1, 2, 2}, 3},
      {{1, 2, 4, 3}, {2, 2, 3, 3}, 2, 2, 2, 1}, {{1, 4, 3, 3}, {4, 3, 4, 4}, 2, 1, 1, 0, 2},
      {{1, 2, 4, 4}, {2, 2, 3, 3}, 1, 1},       {{1, 2, 4, 4}, {2, 2, 5, 5}, 2, 4},
  };
  for (const TransposeCase& c : cases) {
    for (bool first : {true, false}) {
      SCOPED_TRACE(testing::PrintToString(c.x) + testing::PrintToString(c.w) +
                   (first ? " first" : " last"));
      const auto layout = first ? ops::NCHW : ops::NHWC;
      const Input x = input(first ? c.x : Dims{c.x[0], c.x[2], c.x[3], c.x[1]}, f32, 1);
      const Input w = input(first ? c.w : Dims{c.w[2], c.w[3], c.w[1], c.w[0]}, f32, 2);
      const int64_t filters = c.w[1] * c.groups;
      const Input b = input({filters}, f32, 3);
      const Tensor y = ops::conv_transpose2d(x, w,
                                             {.stride = {c.stride},
                                              .padding = {c.padding},
                                              .dilation = {c.dilation},
                                              .output_padding = {c.output_padding},
                                              .groups = c.groups,
                                              .layout = layout},
                                             b);
      Dims out;
      for (int d = 0; d < 2; ++d)
        out.push_back((c.x[2 + d] - 1) * c.stride - 2 * c.padding + c.dilation * (c.w[2 + d] - 1) +
                      c.output_padding + 1);
      // As defined: every input element is spread over a window of the result.
      std::vector<double> want(static_cast<size_t>(c.x[0] * filters * out[0] * out[1]));
      const auto element = [&](int64_t n, int64_t k, int64_t p, int64_t q) -> double& {
        return want[static_cast<size_t>(((n * filters + k) * out[0] + p) * out[1] + q)];
      };
      const int64_t in_group = c.x[1] / c.groups;
      for (int64_t n = 0; n < c.x[0]; ++n)
        for (int64_t ch = 0; ch < c.x[1]; ++ch)
          for (int64_t i = 0; i < c.x[2]; ++i)
            for (int64_t j = 0; j < c.x[3]; ++j)
              for (int64_t k = 0; k < c.w[1]; ++k)
                for (int64_t r = 0; r < c.w[2]; ++r)
                  for (int64_t s = 0; s < c.w[3]; ++s) {
                    const int64_t p = i * c.stride + r * c.dilation - c.padding;
                    const int64_t q = j * c.stride + s * c.dilation - c.padding;
                    if (p < 0 || q < 0 || p >= out[0] || q >= out[1]) continue;
                    element(n, ch / in_group * c.w[1] + k, p, q) +=
                        (first ? x(n, ch, i, j) : x(n, i, j, ch)) *
                        (first ? w(ch, k, r, s) : w(r, s, k, ch));
                  }
      EXPECT_EQ(y.extents(), first ? (Dims{c.x[0], filters, out[0], out[1]})
                                   : (Dims{c.x[0], out[0], out[1], filters}));
      expect_elements(y, {x, w, b}, [&](const Dims& i) {
        return first ? element(i[0], i[1], i[2], i[3]) + b(i[1])
                     : element(i[0], i[3], i[1], i[2]) + b(i[3]);
      });
    }
  }
}

TEST(ConvTranspose1d, AgreesWithTheDefinition) {
  const Input x = input({1, 2, 5}, f32, 1), w = input({2, 3, 4}, f32, 2);
  expect_elements(ops::conv_transpose1d(x, w, {.stride = {2}, .padding = {1}}), {x, w},
                  [&](const Dims& o) {
                    double s = 0;
                    for (int c = 0; c < 2; ++c)
                      for (int i = 0; i < 5; ++i)
                        for (int r = 0; r < 4; ++r)
                          if (i * 2 + r - 1 == o[2]) s += x(0, c, i) * w(c, o[1], r);
                    return s;
                  });
}

TEST(ConvTranspose2d, NeverMultipliesByInsertedZeros) {
  const Input x = input({1, 3, 4, 4}), w = input({3, 2, 4, 4});
  const Tensor y = ops::conv_transpose2d(x, w, {.stride = {2}, .padding = {1}});
  const Tensor phases = y.op()->inputs()[0];
  ASSERT_TRUE(phases.op()->is_reduction());
  for (int d : {1, 2}) EXPECT_EQ(phases.op()->reduce_axes()[static_cast<size_t>(d)].extent(), 2);
}

TEST(ConvErrors, NameOperatorArgumentAndShapes) {
  const Input x = input({1, 4, 5, 5}), w = input({2, 4, 3, 3}), narrow = input({2, 3, 3, 3});
  EXPECT_EQ(error_of([&] { ops::conv2d(x, narrow); }),
            "conv2d: 'weight' (2, 3, 3, 3) takes 3 input channels, but 'x' (1, 4, 5, 5) has 4 | "
            "the weight is (K, C / groups, R, S), or (R, S, C / groups, K) for ChannelsLast");
  EXPECT_EQ(error_of([&] { ops::conv2d(x, w, {.groups = 3}); }),
            "conv2d: 4 input and 2 output channels cannot be split into 3 groups | ");
  EXPECT_EQ(error_of([&] { ops::conv2d(x, w, {.stride = {1, 2, 3}}); }),
            "conv2d: 'stride' (1, 2, 3) has 3 values for 2 dimensions | give one value for all, or "
            "one a dimension");
  EXPECT_EQ(error_of([&] { ops::conv2d(x, w, {.stride = {0}}); }),
            "conv2d: 'stride' (0, 0) has a value below 1 | ");
  EXPECT_EQ(error_of([&] { ops::conv2d(x, w, {.padding = {-1}}); }),
            "conv2d: 'padding' (-1) has a negative value | cut with ops::slice instead");
  EXPECT_EQ(error_of([&] { ops::conv2d(x, w, {.padding = {1, 1, 1}}); }),
            "conv2d: 'padding' (1, 1, 1) has 3 values for 2 spatial dimensions | give one value "
            "for all, one a dimension, or all begins and then all ends");
  EXPECT_EQ(error_of([&] { ops::conv2d(x, w, {.dilation = {3}}); }),
            "conv2d: spatial dimension 0 has extent 5 (5 with padding), but the window reaches "
            "over 7 | ");
  EXPECT_EQ(error_of([&] { ops::conv1d(x, w); }),
            "conv1d: argument 'x' has shape (1, 4, 5, 5), and needs 3 dimensions | ");
  EXPECT_EQ(error_of([&] { ops::conv2d(x, w, {}, input({3})); }),
            "conv2d: 'bias' has shape (3), and needs (2) | ");
  EXPECT_EQ(error_of([&] { ops::conv_transpose2d(x, w); }),
            "conv_transpose2d: 'weight' (2, 4, 3, 3) takes 2 input channels, but 'x' (1, 4, 5, 5) "
            "has 4 | the weight is (C, K / groups, R, S), or (R, S, K / groups, C) for "
            "ChannelsLast");
  EXPECT_EQ(
      error_of([&] { ops::conv_transpose2d(x, input({4, 2, 3, 3}), {.output_padding = {1}}); }),
      "conv_transpose2d: 'output_padding' (1, 1) is not in [0, max(stride, dilation)) | ");
}

TEST(Fold, CutsImagesIntoColumns) {
  const Input x = input({2, 3, 5, 6});
  const Tensor y =
      ops::unfold(x, {3, 2}, {.stride = {2, 1}, .padding = {1, 0, 2, 1}, .dilation = {1, 2}});
  ASSERT_EQ(y.extents(), (Extents{2, 18, 15}));
  expect_elements(
      y, {x},
      [&](const Dims& i) {
        const int64_t row = i[2] / 5 * 2 - 1 + i[1] % 6 / 2, column = i[2] % 5 + i[1] % 2 * 2;
        return row < 0 || row >= 5 || column >= 6 ? 0 : x(i[0], i[1] / 6, row, column);
      },
      1e-6);
  EXPECT_EQ(
      error_of([&] { ops::unfold(x, {3}); }),
      "unfold: the image (5, 6) and 'kernel' (3) do not have one extent for each dimension | ");
}

TEST(Fold, SumsWindowsIntoImages) {
  const Input x = input({2, 3 * 6, 3 * 4});
  const Tensor y =
      ops::fold(x, {5, 6}, {3, 2}, {.stride = {2, 1}, .padding = {1, 0, 1, 0}, .dilation = {1, 2}});
  expect_elements(
      y, {x},
      [&](const Dims& i) {
        double sum = 0;
        for (int64_t a = 0; a < 3; ++a)
          for (int64_t b = 0; b < 2; ++b)
            for (int64_t r = 0; r < 3; ++r)
              for (int64_t c = 0; c < 4; ++c) {
                if (r * 2 - 1 + a != i[2] || c + b * 2 != i[3]) continue;
                sum += x(i[0], i[1] * 6 + a * 2 + b, r * 4 + c);
              }
        return sum;
      },
      1e-5);
  EXPECT_EQ(
      error_of([&] { ops::fold(x, {6, 5}, {3, 2}); }),
      "fold: x (2, 18, 12) does not fit (4, 4) windows of (3, 2) | it is (N, C * window, windows)");
}

}  // namespace
}  // namespace heddle
