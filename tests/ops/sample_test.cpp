#include "ops/ops_testing.h"

namespace heddle {
namespace {

/// The value between the four neighbours of a position, zero outside.
double bilinear(const Input& x, int64_t n, int64_t c, double row, double column) {
  double sum = 0;
  const double r = std::floor(row), q = std::floor(column);
  for (int a : {0, 1})
    for (int b : {0, 1}) {
      const double weight = (a ? row - r : 1 - (row - r)) * (b ? column - q : 1 - (column - q));
      const Dims at{n, c, static_cast<int64_t>(r) + a, static_cast<int64_t>(q) + b};
      sum += weight * x.or_else(0, at);
    }
  return sum;
}

TEST(Sample, GridsReadBetweenElementsAndZerosOutside) {
  const Input x = input({2, 2, 4, 5}), grid = input({2, 3, 2, 2}, f32, 2, -1.3, 1.3);
  for (const bool corners : {false, true}) {
    const Tensor y = ops::grid_sample(x, grid, {.align_corners = corners});
    expect_elements(
        y, {x, grid},
        [&](const Dims& i) {
          const auto place = [&](int64_t k, double extent) {
            const double g = grid(i[0], i[2], i[3], k);
            return corners ? (g + 1) / 2 * (extent - 1) : ((g + 1) * extent - 1) / 2;
          };
          return bilinear(x, i[0], i[1], place(1, 4), place(0, 5));
        },
        1e-4);
  }
}

TEST(Sample, GridsReadNearestElementsOfMirrorImages) {
  const Input x = input({1, 1, 5}), grid = input({1, 40, 1}, f32, 2, -3.5, 3.5);
  const Tensor y =
      ops::grid_sample(x, grid, {ops::GridMode::Nearest, ops::GridPadding::Reflection, false});
  expect_elements(y, {x, grid}, [&](const Dims& i) {
    auto at = static_cast<int64_t>(std::nearbyint(((grid(0, i[2], 0) + 1) * 5 - 1) / 2));
    while (at < 0 || at > 4) at = at < 0 ? -1 - at : 9 - at;
    return x(0, 0, at);
  });
}

// Positions that are no numbers, and infinite ones, are outside.
TEST(Sample, GridsOfNoNumbersReadNothing) {
  const Input x = input({1, 1, 3});
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Input grid =
      input_of(NDArray::from<float>({inf, -inf, nan, 1e30F, -1e30F}, {1, 5, 1}), "g");
  expect_elements(ops::grid_sample(x, grid, {.mode = ops::GridMode::Nearest}), {x, grid},
                  [](const Dims&) { return 0.0; });
}

TEST(Sample, AffineGridsMapThePositions) {
  const Input theta = input({2, 2, 3});
  expect_elements(
      ops::affine_grid(theta, {3, 4}), {theta},
      [&](const Dims& i) {
        const double x = (2 * static_cast<double>(i[2]) + 1) / 4 - 1;
        const double y = (2 * static_cast<double>(i[1]) + 1) / 3 - 1;
        return theta(i[0], i[3], 0) * x + theta(i[0], i[3], 1) * y + theta(i[0], i[3], 2);
      },
      1e-5);
}

TEST(Sample, RegionsAreMeansOfSamples) {
  const Input x = input({2, 2, 8, 9});
  const Input rois = input_of(
      NDArray::from<float>({1, 1, 6, 5, 0, 2, 3, 7, -1, -1, 9, 9, 3, 3, 3, 3}, {4, 4}), "rois");
  const Input batch = input_of(NDArray::from<int64_t>({0, 1, 0, 1}, {4}), "batch");
  for (const int64_t samples : {2, 0}) {
    const Tensor y =
        ops::roi_align(x, rois, batch, {.height = 2, .width = 3, .scale = 0.8, .samples = samples});
    expect_elements(
        y, {x, rois, batch},
        [&](const Dims& i) {
          double begin[2], bin[2];
          int64_t count[2];
          for (int d : {0, 1}) {
            begin[d] = rois(i[0], 1 - d) * 0.8 - 0.5;
            bin[d] = (rois(i[0], 3 - d) * 0.8 - 0.5 - begin[d]) / (d == 0 ? 2 : 3);
            count[d] = samples > 0 ? samples : static_cast<int64_t>(std::ceil(bin[d]));
          }
          double sum = 0;
          for (int64_t a = 0; a < count[0]; ++a)
            for (int64_t b = 0; b < count[1]; ++b) {
              const auto place = [&](int d, int64_t s) {
                return begin[d] +
                       bin[d] * (static_cast<double>(i[static_cast<size_t>(d) + 2]) +
                                 (static_cast<double>(s) + 0.5) / static_cast<double>(count[d]));
              };
              const double r = place(0, a), c = place(1, b);
              if (r < -1 || r > 8 || c < -1 || c > 9) continue;
              sum += bilinear(x, static_cast<int64_t>(batch(i[0])), i[1], std::clamp(r, 0.0, 7.0),
                              std::clamp(c, 0.0, 8.0));
            }
          return sum / static_cast<double>(std::max<int64_t>(count[0] * count[1], 1));
        },
        1e-4);
  }
}

// 7 elements in 3 bins: a third of 7 is rounded, and three of them are 7.
TEST(Sample, RegionsHaveLargestElements) {
  const Input x = input({2, 2, 9, 10});
  const Input rois = input_of(NDArray::from<float>({0,  0,  0, 6,  5,  1,   2,   1, 5, 3, 1, 9, 9,
                                                    12, 12, 0, .5, .5, 2.5, 4.5, 1, 1, 1, 7, 7},
                                                   {5, 5}),
                              "rois");
  for (const int64_t bins : {2, 3})
    expect_elements(ops::roi_max_pool(x, rois, bins, bins), {x, rois}, [&](const Dims& i) {
      double most = -1e9;
      for (int64_t r = 0; r < 9; ++r)
        for (int64_t c = 0; c < 10; ++c) {
          bool inside = true;
          for (int d : {0, 1}) {
            const double begin = std::round(rois(i[0], 2 - d)),
                         size = std::round(rois(i[0], 4 - d)) - begin + 1;
            const auto bin = static_cast<double>(i[static_cast<size_t>(d) + 2]);
            const auto at = static_cast<double>(d == 0 ? r : c), n = static_cast<double>(bins);
            inside = inside && at >= begin + std::floor(bin * size / n) &&
                     at < begin + std::ceil((bin + 1) * size / n);
          }
          if (inside) most = std::max(most, x(static_cast<int64_t>(rois(i[0], 0)), i[1], r, c));
        }
      return most == -1e9 ? 0 : most;
    });
}

TEST(Sample, DeformedConvolutionsMoveTheirWindows) {
  const Input x = input({1, 4, 5, 6}, f32, 1), w = input({4, 2, 3, 2}, f32, 2);
  const Input offset = input({1, 2 * 6 * 2, 3, 4}, f32, 3, -1.5, 1.5);
  const Input mask = input({1, 2 * 6, 3, 4}, f32, 4), bias = input({4}, f32, 5);
  const Tensor y = ops::deform_conv2d(x, w, offset, mask, bias,
                                      {.stride = {2, 1},
                                       .padding = {1, 0, 1, 0},
                                       .dilation = {1, 2},
                                       .groups = 2,
                                       .offset_groups = 2});
  expect_elements(
      y, {x, w, offset, mask, bias},
      [&](const Dims& i) {
        double sum = bias(i[1]);
        for (int64_t c = 0; c < 2; ++c) {
          const int64_t channel = i[1] / 2 * 2 + c, group = channel / 2;
          for (int64_t r = 0; r < 3; ++r)
            for (int64_t q = 0; q < 2; ++q) {
              const int64_t e = group * 6 + r * 2 + q;
              const double row =
                  static_cast<double>(i[2] * 2 - 1 + r) + offset(0, 2 * e, i[2], i[3]);
              const double column =
                  static_cast<double>(i[3] + q * 2) + offset(0, 2 * e + 1, i[2], i[3]);
              sum +=
                  w(i[1], c, r, q) * mask(0, e, i[2], i[3]) * bilinear(x, 0, channel, row, column);
            }
        }
        return sum;
      },
      2e-4);
}

TEST(Sample, CropsAreRegionsResized) {
  const Input x = input({2, 2, 5, 7});
  const Input boxes = input_of(
      NDArray::from<float>({0, 0, 1, 1, 0.9F, 0.1F, 0.2F, 0.8F, -0.3F, 0.2F, 0.6F, 1.4F}, {3, 4}));
  const Input batch = input_of(NDArray::from<int64_t>({1, 0, 1}, {3}), "batch");
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{3, 4}, {1, 1}})
    for (const bool nearest : {false, true}) {
      const ops::Crop crop{.height = height, .width = width, .nearest = nearest, .outside = 7.5};
      const auto place = [&](int64_t box, int64_t side, int64_t i, int64_t count, double last) {
        const double low = boxes(box, side), high = boxes(box, side + 2);
        if (count == 1) return (low + high) / 2 * last;
        return low * last +
               static_cast<double>(i) * (high - low) * last / static_cast<double>(count - 1);
      };
      expect_elements(
          ops::crop_and_resize(x, boxes, batch, crop), {x, boxes, batch},
          [&](const Dims& i) {
            const double row = place(i[0], 0, i[2], height, 4);
            const double column = place(i[0], 1, i[3], width, 6);
            const auto image = static_cast<int64_t>(batch(i[0]));
            if (row < 0 || row > 4 || column < 0 || column > 6) return 7.5;
            if (!nearest) return bilinear(x, image, i[1], row, column);
            return x(image, i[1], static_cast<int64_t>(std::floor(row + 0.5)),
                     static_cast<int64_t>(std::floor(column + 0.5)));
          },
          1e-4);
    }
}

TEST(Sample, CorrelationsCompareDisplacedPatches) {
  const Input a = input({2, 3, 9, 10}, f32, 1), b = input({2, 3, 9, 10}, f32, 2);
  for (const bool multiply : {true, false}) {
    const ops::Correlation p{
        .kernel = 3, .displacement = 4, .stride = 2, .step = 2, .padding = 3, .multiply = multiply};
    expect_elements(
        ops::correlation(a, b, p), {a, b},
        [&](const Dims& i) {
          const int64_t down = (i[1] / 5 - 2) * 2, aside = (i[1] % 5 - 2) * 2;
          double sum = 0;
          for (int64_t c = 0; c < 3; ++c)
            for (int64_t r = 0; r < 3; ++r)
              for (int64_t s = 0; s < 3; ++s) {
                const int64_t row = i[2] * 2 + 4 + r - 3, column = i[3] * 2 + 4 + s - 3;
                const double one = a.or_else(0, {i[0], c, row, column});
                const double other = b.or_else(0, {i[0], c, row + down, column + aside});
                sum += multiply ? one * other : std::abs(one - other);
              }
          return sum / 27;
        },
        1e-5);
  }
  EXPECT_THROW(ops::correlation(a, b, {.kernel = 2}), Error);
  EXPECT_THROW(ops::correlation(a, b, {.displacement = 20}), Error);
}

TEST(SampleErrors, NameArgumentsAndShapes) {
  const Input x = input({1, 2, 4, 5}), grid = input({1, 3, 3, 3});
  EXPECT_EQ(error_of([&] { ops::grid_sample(x, grid); }),
            "grid_sample: 'grid' (1, 3, 3, 3) does not fit x (1, 2, 4, 5) | it is (N, out..., 2)");
  const Input theta = input({1, 2, 2});
  EXPECT_EQ(error_of([&] { ops::affine_grid(theta, {3, 3}); }),
            "affine_grid: 'theta' (1, 2, 2) does not fit the size (3, 3) | it is (N, 2, 3) for two "
            "dimensions and (N, 3, 4) for three");
}

}  // namespace
}  // namespace heddle
