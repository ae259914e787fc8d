// Fourier transforms. A last dimension of 2 has real and imaginary parts; of 1, real numbers.
//
//   Tensor spectrum = ops::dft(x, 1, {.onesided = true});   // x (N, 400, 1) -> (N, 201, 2)
//   Tensor frames = ops::stft(x, 160, window);              // x (N, T, 1) -> (N, frames, bins, 2)
//
// A transform of n elements is products with matrices of the roots of unity, of the factors of n where
// n is long (Cooley and Tukey 1965), so that machines use their instructions for products.
#pragma once

#include <cstdint>

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// Attributes of dft().
struct Dft {
  /// The number of elements, to which x is cut or padded with zeros; 0: the extent of x, or of an
  /// inverse of one side 2 (extent - 1).
  int64_t length = 0;
  bool inverse = false;  ///< divides by the length
  bool onesided =
      false;  ///< the first length / 2 + 1 elements; of an inverse those that are given,
              ///< and its result is real
};
/// sum over t of x[t] exp(-2 pi i t f / n) along `axis`, of floats in f32 or f64. The last dimension
/// cannot be the axis, and is 1 or 2; that of the result is 2, or 1 where it is real.
Tensor dft(const Tensor& x, int axis, Dft attributes = {}, Where where = Where::current());

/// Transforms of the frames of x (N, T, 1 or 2) that begin every `step` elements: (N, frames, bins, 2).
/// `window` (length) multiplies each frame, and may be left out; `length` is then that of the frames.
Tensor stft(const Tensor& x, int64_t step, const Tensor& window = {}, int64_t length = 0,
            bool onesided = true, Where where = Where::current());

}  // namespace heddle::ops
