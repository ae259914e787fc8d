#include <complex>
#include <numbers>

#include "ops/ops_testing.h"

namespace heddle {
namespace {

using Complex = std::complex<double>;

/// sum over t of value(t) exp(sign 2 pi i t f / n)
template <class F>
Complex transformed(int64_t n, int64_t f, int sign, F value) {
  Complex sum = 0;
  for (int64_t t = 0; t < n; ++t)
    sum += value(t) * std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(t * f % n) /
                                          static_cast<double>(n));
  return sum;
}

double part(const Complex& c, int64_t i) { return i == 0 ? c.real() : c.imag(); }

// 5 is one product; 521 is a long prime; 600 has factors, of which none is a power of two.
TEST(Fourier, TransformsAgreeWithTheirSums) {
  for (const int64_t n : {5, 521, 600}) {
    const Input x = input({2, n, 2});
    for (const bool inverse : {false, true}) {
      expect_elements(
          ops::dft(x, 1, {.inverse = inverse}), {x},
          [&](const Dims& i) {
            const Complex sum = transformed(n, i[1], inverse ? 1 : -1, [&](int64_t t) {
              return Complex(x(i[0], t, 0), x(i[0], t, 1));
            });
            return part(inverse ? sum / static_cast<double>(n) : sum, i[2]);
          },
          2e-4);
    }
  }
}

TEST(Fourier, RealNumbersHaveOneSideAndAreCutOrPadded) {
  const Input x = input({7, 3, 1});
  for (const int64_t length : {4, 7, 10}) {
    const Tensor y = ops::dft(x, 0, {.length = length, .onesided = true});
    EXPECT_EQ(y.extents(), (Dims{length / 2 + 1, 3, 2}));
    expect_elements(
        y, {x},
        [&](const Dims& i) {
          return part(
              transformed(length, i[0], -1, [&](int64_t t) { return t < 7 ? x(t, i[1], 0) : 0.0; }),
              i[2]);
        },
        1e-5);
  }
}

TEST(Fourier, OneSideGivesRealNumbersBack) {
  const Input x = input({2, 9, 1});
  const Tensor y = ops::dft(ops::dft(x, 1, {.onesided = true}), 1,
                            {.length = 9, .inverse = true, .onesided = true});
  expect_elements(y, {x}, [&](const Dims& i) { return x.at(i); }, 1e-5);
}

TEST(Fourier, FramesAreWindowedAndTransformed) {
  const Input x = input({2, 20, 1}), window = input({6}, f32, 2);
  const Tensor y = ops::stft(x, 4, window);
  EXPECT_EQ(y.extents(), (Dims{2, 4, 4, 2}));
  expect_elements(
      y, {x, window},
      [&](const Dims& i) {
        return part(transformed(6, i[2], -1,
                                [&](int64_t t) { return x(i[0], i[1] * 4 + t, 0) * window(t); }),
                    i[3]);
      },
      1e-5);
}

TEST(FourierErrors, NameWhatIsWrong) {
  const Input x = input({2, 9, 3}), y = input({2, 9, 1});
  EXPECT_EQ(error_of([&] { ops::dft(x, 1); }),
            "dft: x (2, 9, 3) has a last dimension of 3 | it is 1 for real numbers and 2 for "
            "complex ones");
  EXPECT_EQ(error_of([&] { ops::dft(y, 2); }),
            "dft: the axis is the last one, which has the parts | ");
  EXPECT_EQ(error_of([&] { ops::stft(y, 2, {}, 10); }),
            "stft: frames of 10 elements every 2 do not fit x (2, 9, 1) | ");
}

}  // namespace
}  // namespace heddle
