// The text of operations on scalars: arithmetic, conversions and mathematical functions with the
// meaning that the interpreter gives them (src/codegen/interpreter/*_ops.cpp).
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/cuda/text/prelude.h"
#include "codegen/cuda/text/text.h"
#include "heddle/ir/expr.h"

namespace heddle::cuda {

/// Properties of an integer operation, from the ranges of its operands.
struct IntFacts {
  bool exact = false;              ///< the result cannot leave its type
  bool narrow = false;             ///< the result is an i64 that fits in 32 bits
  bool nonnegative = false;        ///< the left operand is never below zero
  bool positive = false;           ///< the right operand is always above zero
  std::optional<int64_t> divisor;  ///< the right operand, when it is a constant
};

/// How closely floats have to follow the order of operations as written.
enum class Rounding {
  Loose,   ///< quotients, roots and powers of two by an ulp or two, products fused into sums
  Strict,  ///< every operation rounded as IEEE says: the result is rounded to an integer
};

class Ops {
 public:
  explicit Ops(Prelude& prelude) : prelude_(prelude) {}

  /// `t` is the type of the operands. Operands of small floats are given as f32 (see widen), and
  /// the result is f32, not yet rounded.
  Text binary(BinaryOp op, DataType t, const Text& a, const Text& b, const IntFacts& facts,
              Rounding rounding);
  Text unary(UnaryOp op, DataType t, const Text& a, const IntFacts& facts, Rounding rounding);
  /// Operands of small floats are given as f32.
  Text cast(DataType from, DataType to, const Text& a, bool fits_32_bits);
  /// The f32 value of a small float.
  Text widen(DataType t, const Text& bits);
  /// The small float nearest to an f32.
  Text narrow(DataType t, const Text& value);

 private:
  Text float_binary(BinaryOp op, DataType t, const Text& a, const Text& b, Rounding rounding);
  Text float_unary(UnaryOp op, DataType t, const Text& a, Rounding rounding);
  Text int_binary(BinaryOp op, DataType t, const Text& a, const Text& b, const IntFacts& facts);
  Text int_divide(BinaryOp op, DataType t, const Text& a, const Text& b, const IntFacts& facts);
  Text helper(const std::string& name, const Text& a) { return call(prelude_.use(name), a); }
  Text helper(const std::string& name, const Text& a, const Text& b) {
    return call(prelude_.use(name), a, b);
  }

  Prelude& prelude_;
};

}  // namespace heddle::cuda
