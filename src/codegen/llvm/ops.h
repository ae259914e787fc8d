// Lane-wise operations on register values: arithmetic, conversions and mathematical functions of
// Heddle's types, at any number of lanes. Nothing here touches memory or makes blocks.
#pragma once

#include <initializer_list>

#include "codegen/llvm/jit/machine.h"
#include "codegen/llvm/types.h"
#include "heddle/ir/expr.h"

namespace heddle::codegen {

/// Known properties of an integer operation.
struct ArithmeticFacts {
  bool index = false;        ///< part of an address: cannot overflow
  bool nonnegative = false;  ///< the left operand is never below zero
};

class Ops {
 public:
  Ops(Builder& builder, const Machine& machine) : b_(builder), machine_(machine) {}

  llvm::Value* int_constant(DataType t, int64_t value);
  llvm::Value* float_constant(DataType t, double value);

  /// A splat of a scalar to `lanes` lanes.
  llvm::Value* splat(llvm::Value* scalar, int lanes);
  /// `count` lanes of `v` from `begin` on, as a vector of `width` lanes (0: the power of two from
  /// `count`); the other lanes repeat the first one, so that they hold a valid value.
  llvm::Value* lanes(llvm::Value* v, int begin, int count, int width = 0);
  /// `v` with the first lanes of `part` at `begin`.
  llvm::Value* insert_lanes(llvm::Value* v, llvm::Value* part, int begin, int count);
  llvm::Value* reverse(llvm::Value* v, int count);

  llvm::Value* cast(llvm::Value* v, DataType from, DataType to);
  /// `type` is that of the operands.
  llvm::Value* unary(UnaryOp op, DataType type, llvm::Value* a);
  llvm::Value* binary(BinaryOp op, DataType type, llvm::Value* a, llvm::Value* b,
                      ArithmeticFacts facts = {});

 private:
  llvm::Value* to_f32(llvm::Value* v, DataType from);
  llvm::Value* from_f32(llvm::Value* v, DataType to);
  llvm::Value* float8_to_f32(llvm::Value* v, DataType from);
  llvm::Value* f32_to_float8(llvm::Value* v, DataType to);
  llvm::Value* f64_to_odd_f32(llvm::Value* v);
  llvm::Value* float_to_int(llvm::Value* v, DataType to);

  llvm::Value* compare(BinaryOp op, DataType type, llvm::Value* a, llvm::Value* b);
  llvm::Value* float_binary(BinaryOp op, DataType type, llvm::Value* a, llvm::Value* b);
  llvm::Value* float_extreme(BinaryOp op, llvm::Value* a, llvm::Value* b);
  llvm::Value* int_binary(BinaryOp op, DataType type, llvm::Value* a, llvm::Value* b,
                          ArithmeticFacts facts);
  llvm::Value* int_divide(BinaryOp op, DataType type, llvm::Value* a, llvm::Value* b,
                          ArithmeticFacts facts);
  llvm::Value* float_unary(UnaryOp op, DataType type, llvm::Value* a);

  // ---- math.cpp: f32 at any width, as IR ----
  struct ExpParts {
    llvm::Value* minus_one;   ///< exp(r) - 1
    llvm::Value* exponent;    ///< n: x = n ln 2 + r, as an integer
    llvm::Value* exponent_f;  ///< n, as a float
  };
  struct LogParts {
    llvm::Value* f;         ///< mantissa - 1, in [sqrt(1/2) - 1, sqrt(2) - 1)
    llvm::Value* y;         ///< log(1 + f) - f
    llvm::Value* exponent;  ///< as a float
  };
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, double c);
  llvm::Value* polynomial(llvm::Value* x, std::initializer_list<double> high_to_low);
  llvm::Value* clamp(llvm::Value* x, double low, double high);
  llvm::Value* power_of_two(llvm::Value* exponent);
  ExpParts exp_parts(llvm::Value* x, bool base_two);
  LogParts log_parts(llvm::Value* x);
  llvm::Value* log_edges(llvm::Value* x, llvm::Value* result);
  llvm::Value* exp_f32(llvm::Value* x, bool base_two);
  llvm::Value* expm1_f32(llvm::Value* x);
  llvm::Value* log_f32(UnaryOp op, llvm::Value* x);
  llvm::Value* log1p_f32(llvm::Value* x);
  llvm::Value* tanh_f32(llvm::Value* x);
  llvm::Value* erf_f32(llvm::Value* x);
  llvm::Value* round_tf32(llvm::Value* x);
  /// Null when `op` has no such form.
  llvm::Value* inline_math_f32(UnaryOp op, llvm::Value* x);

  // ---- math_call.cpp: libmvec and libm ----
  llvm::Value* math_call(const char* name, DataType type, llvm::ArrayRef<llvm::Value*> args);

  Builder& b_;
  const Machine& machine_;
};

}  // namespace heddle::codegen
