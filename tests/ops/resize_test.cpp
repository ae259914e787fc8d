#include "ops/ops_testing.h"

namespace heddle {
namespace {

using ops::NearestRounding;
using ops::ResizeCoordinates;
using ops::ResizeMode;

double position(ResizeCoordinates c, int64_t o, int64_t in, int64_t out) {
  const double i = static_cast<double>(in), n = static_cast<double>(out);
  const double at = static_cast<double>(o);
  if (c == ResizeCoordinates::HalfPixel) return (at + 0.5) * i / n - 0.5;
  if (c == ResizeCoordinates::Asymmetric) return at * i / n;
  return out == 1 ? 0 : at * (i - 1) / (n - 1);
}

int64_t clamped(double v, int64_t n) {
  return static_cast<int64_t>(std::min(std::max(v, 0.0), static_cast<double>(n - 1)));
}

const ResizeCoordinates kCoordinates[] = {
    ResizeCoordinates::HalfPixel, ResizeCoordinates::Asymmetric, ResizeCoordinates::AlignCorners};
const Dims kSizes[] = {{8, 10}, {2, 3}, {7, 1}, {4, 5}, {11, 4}};

TEST(Resize, BilinearAgreesWithTheReference) {
  const Input x = input({2, 2, 4, 5});
  for (ResizeCoordinates c : kCoordinates) {
    for (const Dims& size : kSizes) {
      const Tensor y = ops::resize(x, size, {.coordinates = c});
      expect_elements(y, {x}, [&](const Dims& i) {
        const double p = position(c, i[2], 4, size[0]), q = position(c, i[3], 5, size[1]);
        double s = 0;
        for (int a : {0, 1})
          for (int b : {0, 1}) {
            const double wp = a ? p - std::floor(p) : 1 - (p - std::floor(p));
            const double wq = b ? q - std::floor(q) : 1 - (q - std::floor(q));
            s += wp * wq *
                 x(i[0], i[1], clamped(std::floor(p) + a, 4), clamped(std::floor(q) + b, 5));
          }
        return s;
      });
    }
  }
}

// Keys' weight of an element at a distance.
double cubic(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

TEST(Resize, BicubicAgreesWithTheReference) {
  const Input x = input({1, 2, 4, 5});
  for (ResizeCoordinates c : kCoordinates) {
    for (const double coefficient : {-0.75, -0.5}) {
      for (const Dims& size : kSizes) {
        const Tensor y = ops::resize(
            x, size,
            {.mode = ResizeMode::Cubic, .coordinates = c, .cubic_coefficient = coefficient});
        expect_elements(y, {x}, [&](const Dims& i) {
          const double p = position(c, i[2], 4, size[0]), q = position(c, i[3], 5, size[1]);
          double s = 0;
          for (int a = -1; a <= 2; ++a)
            for (int b = -1; b <= 2; ++b) {
              const double row = std::floor(p) + a, column = std::floor(q) + b;
              s += cubic(p - row, coefficient) * cubic(q - column, coefficient) *
                   x(i[0], i[1], clamped(row, 4), clamped(column, 5));
            }
          return s;
        });
      }
    }
  }
}

TEST(Resize, NearestAgreesWithTheReference) {
  const Input x = input({1, 2, 4, 5}, i8);
  const NearestRounding kRoundings[] = {NearestRounding::Floor, NearestRounding::Ceil,
                                        NearestRounding::PreferFloor, NearestRounding::PreferCeil};
  for (ResizeCoordinates c : kCoordinates) {
    for (NearestRounding rounding : kRoundings) {
      for (const Dims& size : kSizes) {
        const Tensor y = ops::resize(
            x, size, {.mode = ResizeMode::Nearest, .coordinates = c, .rounding = rounding});
        // A small tolerance, because the reference's positions are rounded and the operator's are
        // not.
        const auto nearest = [&](int64_t o, int64_t in, int64_t out) {
          const double p = position(c, o, in, out), e = 1e-9;
          switch (rounding) {
            case NearestRounding::Floor: return clamped(std::floor(p + e), in);
            case NearestRounding::Ceil: return clamped(std::ceil(p - e), in);
            case NearestRounding::PreferFloor: return clamped(std::ceil(p - 0.5 - e), in);
            case NearestRounding::PreferCeil: return clamped(std::floor(p + 0.5 + e), in);
          }
          return int64_t{0};
        };
        expect_elements(y, {x}, [&](const Dims& i) {
          return x(i[0], i[1], nearest(i[2], 4, size[0]), nearest(i[3], 5, size[1]));
        });
      }
    }
  }
}

TEST(Resize, OfChannelsLastAndOneDimension) {
  const Input x = input({1, 3, 2}, f16);
  expect_elements(ops::resize(x, {6}, {.mode = ResizeMode::Nearest, .layout = ops::NHWC}), {x},
                  [&](const Dims& i) { return x(i[0], i[1] / 2, i[2]); });
  expect_elements(
      ops::resize(x, {5}, {.coordinates = ResizeCoordinates::AlignCorners, .layout = ops::NHWC}),
      {x}, [&](const Dims& i) {
        const int64_t low = i[1] / 2, high = (i[1] + 1) / 2;
        return (x(i[0], low, i[2]) + x(i[0], high, i[2])) / 2;
      });
}

TEST(ResizeErrors, NameOperatorArgumentAndShapes) {
  const Input x = input({1, 2, 4, 5});
  EXPECT_EQ(error_of([&] { ops::resize(x, {3}); }),
            "resize: the size (3) has 1 extents for 2 spatial dimensions of (1, 2, 4, 5) | ");
  EXPECT_EQ(error_of([&] { ops::resize(x, {3, 0}); }),
            "resize: the size (3, 0) has an extent below 1 | ");
  EXPECT_EQ(error_of([&] { ops::resize(input({1, 2, 4}, i32), {3}); }),
            "resize: argument 'x' is i32 (1, 2, 4), and needs a float type | convert it with "
            "ops::cast(x, f32)");
}

TEST(Resize, ResampledElementsAreSumsOfThoseThatAreNamed) {
  const Input x = input({2, 5, 3});
  const Input at = input_of(NDArray::from<int64_t>({0, 1, 4, 2, 3, 3, 1, 0}, {4, 2}), "at");
  const Input w = input({4, 2}, f32, 2);
  expect_elements(
      ops::resample(x, 1, at, w), {x, at, w},
      [&](const Dims& i) {
        double sum = 0;
        for (int64_t t : {0, 1})
          sum += w(i[1], t) * x(i[0], static_cast<int64_t>(at(i[1], t)), i[2]);
        return sum;
      },
      1e-5);
}

}  // namespace
}  // namespace heddle
