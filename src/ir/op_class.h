// The cost class of an operation, in one table for all code that counts operations.
#pragma once

#include "heddle/ir/expr.h"

namespace heddle {

enum class OpClass : uint8_t {
  Logic,  ///< comparisons, logic and operations on bits
  Add,    ///< sums, and operations of the same cost: signs and roundings
  Multiply,
  MinMax,
  Divide,          ///< quotients and remainders, slow in every type
  Root,            ///< sqrt and rsqrt: as slow as a division
  Transcendental,  ///< exp, tanh, erf, pow, ..: a series of operations
};
OpClass op_class(UnaryOp op);
OpClass op_class(BinaryOp op);

/// Whether the operation takes many times as long as a sum.
constexpr bool is_slow(OpClass c) {
  return c == OpClass::Divide || c == OpClass::Root || c == OpClass::Transcendental;
}
/// Sums that take as long as a slow operation does, in estimates that do not tell exp from a
/// quotient.
inline constexpr double kSlowOperation = 10;

}  // namespace heddle
