// Matrices whose columns the cores of a CPU share in strips that are short pieces of each row.
//
//   | core 0 | core 1 | .. | core 15 |    a row of 4,096 bytes: each core reads 256 of every page
#pragma once

#include <cstdint>

#include "heddle/target/target.h"

namespace heddle {

/// The bytes of a row of a strip below which it is narrow. (16 cores of an Emerald Rapids, bf16, GB/s of the products of one
/// row of a decoder, one after the other: strips of 256 bytes 69, of 384 80, of 704 115, where memory gives 180.)
inline constexpr int64_t kNarrowStrip = 1024;

/// Whether a product of one row with a matrix of that many bytes, whose rows have `row_bytes`, reads narrow strips from
/// beyond the second cache. Sums along rows of the transposed matrix then read each page once.
inline bool has_narrow_strips(int64_t row_bytes, int64_t bytes, const Target& target) {
  return target.kind == "llvm" && target.cores > 1 && row_bytes < kNarrowStrip * target.cores &&
         bytes > 2 * target.l2_bytes;
}

}  // namespace heddle
