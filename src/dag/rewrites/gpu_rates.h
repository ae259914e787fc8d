// What graphs of large products take on a GPU, roughly: for the estimates of rules.
#pragma once

#include <cstdint>

#include "heddle/support/dtype.h"
#include "heddle/target/gpu.h"

namespace heddle::dag {

/// Rows or columns from which on tiles of matrix units are filled.
inline constexpr double kLeastSide = 64;

/// Rates of a whole GPU, in seconds. Shares of the peak are those of an H200.
struct ProductRates {
  double threads = 0;  ///< operations a second in f32 without matrix units
  double units = 0;    ///< those of matrix units with 16-bit operands
  double tf32 = 0;     ///< those with parts of f32, whose tiles are summed up in f32
  double memory = 0;   ///< bytes a second, from memory
  double near = 0;     ///< the same within the second cache
  double l2_bytes = 0;
  double sms = 1;
  double kernel = 2.5e-6;  ///< seconds that one more kernel takes

  /// Seconds of a copy of so many bytes, read and written together.
  double copied(double bytes) const { return bytes / (bytes < l2_bytes / 2 ? near : memory); }
  /// Seconds of `batch` products with operands of a type: matrix units take those of 16 bits.
  double product(DataType type, double batch, double rows, double cols, double depth) const;
  /// Seconds of products whose factors are rounded to tf32.
  double tf32_product(double batch, double rows, double cols, double depth) const;
};

ProductRates product_rates(const Gpu& gpu);

}  // namespace heddle::dag
