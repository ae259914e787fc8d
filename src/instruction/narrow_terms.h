// The terms of a sum of products of narrow types, and tests whether they are adjacent along the
// reduction.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heddle/ir/simplify.h"

namespace heddle::instructions {

/// The part of a byte that is a factor.
enum class ByteBits : uint8_t { All, Lower, Upper };

/// A factor of 8- or 16-bit integers in a product of i32, or of a 16-bit float in one of f32:
/// element base + stride * lane of `buffer`, as a `type` of its size.
struct NarrowFactor {
  Buffer buffer;
  Expr base;
  int64_t stride = 0;
  DataType type;
  ByteBits bits = ByteBits::All;
  bool flipped = false;  ///< the highest bit of a byte is inverted: 128 is added to i8, as u8
};

/// A product of two factors. A factor that is the same in all lanes is `a`, so that all terms of a
/// sum have their factors in one order.
struct NarrowTerm {
  NarrowFactor a, b;
  Expr term;
  bool used = false;
};

/// nullopt where `e`, of i32 or f32, is no such product.
std::optional<NarrowTerm> as_narrow_term(const Expr& e);

/// The limit of terms for sums whose terms are shared by other sums. A larger one is not treated as
/// a sum of products.
inline constexpr size_t kMostTerms = 4096;

/// The terms of the sum `e`, in its order.
void terms_of(const Expr& e, std::vector<Expr>& out);

/// Whether `x` is `distance` elements behind `first`, in every lane.
bool follows(const NarrowFactor& first, const NarrowFactor& x, int distance, const Ranges& ranges);

}  // namespace heddle::instructions
