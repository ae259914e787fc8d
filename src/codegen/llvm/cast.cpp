// Conversions between types. f16 uses the hardware's conversions where there are any; bf16 is
// converted with integer operations, since LLVM makes library calls of its bfloat type.
#include "codegen/llvm/ops.h"
#include "llvm/IR/Intrinsics.h"

namespace heddle::codegen {

using llvm::Value;

Value* Ops::to_f32(Value* v, DataType from) {
  const int width = lanes_of(v);
  llvm::Type* f32_type = with_lanes(b_.getFloatTy(), width);
  if (from.code == TypeCode::Float) return b_.CreateFPExt(v, f32_type);
  llvm::Type* i32_type = with_lanes(b_.getInt32Ty(), width);
  return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(v, i32_type), int_like(i32_type, 16)),
                          f32_type);
}

Value* Ops::from_f32(Value* v, DataType to) {
  const int width = lanes_of(v);
  if (to.code == TypeCode::Float) {
    return b_.CreateFPTrunc(v, with_lanes(b_.getHalfTy(), width));
  }
  llvm::Type* i32_type = with_lanes(b_.getInt32Ty(), width);
  Value* bits = b_.CreateBitCast(v, i32_type);
  Value* high = b_.CreateLShr(bits, int_like(i32_type, 16));
  // Rounds to nearest even: adds half of the last place kept, less one unit unless that place is
  // odd. A carry gives the next number, up to infinity.
  Value* odd = b_.CreateAnd(high, int_like(i32_type, 1));
  Value* rounded = b_.CreateLShr(b_.CreateAdd(bits, b_.CreateAdd(odd, int_like(i32_type, 0x7fff))),
                                 int_like(i32_type, 16));
  Value* quiet_nan = b_.CreateOr(high, int_like(i32_type, 0x40));
  Value* result = b_.CreateSelect(b_.CreateFCmpUNO(v, v), quiet_nan, rounded);
  return b_.CreateTrunc(result, with_lanes(b_.getInt16Ty(), width));
}

// Rounds to odd: the last bit is set where bits are cut off. A second rounding to fewer than 23
// bits then gives the result of a single rounding from double.
Value* Ops::f64_to_odd_f32(Value* v) {
  const int width = lanes_of(v);
  llvm::Type* f32_type = with_lanes(b_.getFloatTy(), width);
  llvm::Type* i32_type = with_lanes(b_.getInt32Ty(), width);
  Value* nearest = b_.CreateFPTrunc(v, f32_type);
  Value* back = b_.CreateFPExt(nearest, v->getType());
  Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  Value* back_magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back);
  Value* bits = b_.CreateBitCast(nearest, i32_type);
  // Where the conversion rounded away from zero, one step is taken back.
  Value* away = b_.CreateFCmpOGT(back_magnitude, magnitude);
  bits = b_.CreateAdd(bits, b_.CreateSExt(away, i32_type));
  Value* inexact = b_.CreateFCmpONE(back_magnitude, magnitude);
  bits = b_.CreateOr(bits, b_.CreateZExt(inexact, i32_type));
  return b_.CreateBitCast(bits, f32_type);
}

// Saturates, and NaN becomes 0. fptosi alone is undefined for values out of range.
Value* Ops::float_to_int(Value* v, DataType to) {
  llvm::Type* type = with_lanes(b_.getIntNTy(to.bits), lanes_of(v));
  return b_.CreateIntrinsic(to.is_int() ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
                            {type, v->getType()}, {v});
}

Value* Ops::cast(Value* v, DataType from, DataType to) {
  if (from.element() == to.element()) return v;
  const int width = lanes_of(v);
  const bool from_small = from.is_float() && from.bits == 16;
  const bool to_small = to.is_float() && to.bits == 16;
  if (from_small) {
    v = to_f32(v, from);
    from = f32.with_lanes(from.lanes);
    if (from.element() == to.element()) return v;
  }
  if (from.is_float()) {
    if (to.is_bool()) return b_.CreateFCmpUNE(v, llvm::Constant::getNullValue(v->getType()));
    if (to.is_integral()) return float_to_int(v, to);
    if (to_small) return from_f32(from.bits == 64 ? f64_to_odd_f32(v) : v, to);
    llvm::Type* type = register_type(b_.getContext(), to.with_lanes(width));
    return to.bits > from.bits ? b_.CreateFPExt(v, type) : b_.CreateFPTrunc(v, type);
  }
  if (to.is_bool()) return b_.CreateIsNotNull(v);
  if (to.is_float()) {
    // Integers that f32 holds exactly are rounded once. double holds all others except 64-bit
    // integers.
    llvm::Type* middle = with_lanes(to_small && from.bits <= 16 ? b_.getFloatTy()
                                    : to_small                  ? b_.getDoubleTy()
                                                                : element_type(b_.getContext(), to),
                                    width);
    Value* number = from.is_int() ? b_.CreateSIToFP(v, middle) : b_.CreateUIToFP(v, middle);
    if (!to_small) return number;
    return from_f32(from.bits <= 16 ? number : f64_to_odd_f32(number), to);
  }
  llvm::Type* type = with_lanes(b_.getIntNTy(to.bits), width);
  if (to.bits < from.bits) return b_.CreateTrunc(v, type);
  return from.is_int() ? b_.CreateSExt(v, type) : b_.CreateZExt(v, type);
}

}  // namespace heddle::codegen
