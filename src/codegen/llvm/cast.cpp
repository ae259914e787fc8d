// Conversions between types. f16 uses the hardware's conversions where there are any; bf16 and the
// 8-bit floats are converted with integer operations, since LLVM makes library calls of its bfloat
// type and has none for the others.
#include <cmath>

#include "codegen/llvm/ops.h"
#include "llvm/IR/Intrinsics.h"

namespace heddle::codegen {

using llvm::Value;

Value* Ops::to_f32(Value* v, DataType from) {
  const int width = lanes_of(v);
  llvm::Type* f32_type = with_lanes(b_.getFloatTy(), width);
  if (from.code == TypeCode::Float) return b_.CreateFPExt(v, f32_type);
  if (from.is_float8()) return float8_to_f32(v, from);
  llvm::Type* i32_type = with_lanes(b_.getInt32Ty(), width);
  return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(v, i32_type), int_like(i32_type, 16)),
                          f32_type);
}

// E5M2 is the upper half of f16. The bits of E4M3 as those of an f32 have the value 2^-120 times
// that of the number, also of a subnormal one.
Value* Ops::float8_to_f32(Value* v, DataType from) {
  const int width = lanes_of(v);
  llvm::Type* f32_type = with_lanes(b_.getFloatTy(), width);
  if (from.code == TypeCode::E5M2) {
    llvm::Type* i16_type = with_lanes(b_.getInt16Ty(), width);
    Value* bits = b_.CreateShl(b_.CreateZExt(v, i16_type), int_like(i16_type, 8));
    return b_.CreateFPExt(b_.CreateBitCast(bits, with_lanes(b_.getHalfTy(), width)), f32_type);
  }
  llvm::Type* i32_type = with_lanes(b_.getInt32Ty(), width);
  Value* bits = b_.CreateZExt(v, i32_type);
  Value* magnitude = b_.CreateAnd(bits, int_like(i32_type, 0x7f));
  Value* value =
      b_.CreateFMul(b_.CreateBitCast(b_.CreateShl(magnitude, int_like(i32_type, 20)), f32_type),
                    float_like(f32_type, 0x1p120));
  Value* nan = b_.CreateICmpEQ(magnitude, int_like(i32_type, 0x7f));
  Value* number =
      b_.CreateSelect(nan, int_like(i32_type, 0x7fc00000), b_.CreateBitCast(value, i32_type));
  Value* sign = b_.CreateShl(b_.CreateAnd(bits, int_like(i32_type, 0x80)), int_like(i32_type, 24));
  return b_.CreateBitCast(b_.CreateOr(number, sign), f32_type);
}

// Magnitudes are limited to the largest number. Normal numbers round to nearest even by an addition
// to their bits, as bf16 does; subnormal ones by the addition of the power of two whose last place
// is their unit.
Value* Ops::f32_to_float8(Value* v, DataType to) {
  const bool e4m3 = to.code == TypeCode::E4M3;
  const int64_t cut = e4m3 ? 20 : 21, rebias = e4m3 ? (127 - 7) << 3 : (127 - 15) << 2;
  const double most = e4m3 ? 448 : 57344, least_normal = e4m3 ? 0x1p-6 : 0x1p-14,
               power = e4m3 ? 0x1p14 : 0x1p7;
  const int width = lanes_of(v);
  llvm::Type* f32_type = with_lanes(b_.getFloatTy(), width);
  llvm::Type* i32_type = with_lanes(b_.getInt32Ty(), width);
  const auto i32_of = [&](int64_t x) { return int_like(i32_type, x); };
  Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
  size = b_.CreateSelect(b_.CreateFCmpOGT(size, float_like(f32_type, most)),
                         float_like(f32_type, most), size);
  Value* bits = b_.CreateBitCast(size, i32_type);
  Value* odd = b_.CreateAnd(b_.CreateLShr(bits, i32_of(cut)), i32_of(1));
  Value* rounded = b_.CreateAdd(bits, b_.CreateAdd(odd, i32_of((int64_t{1} << (cut - 1)) - 1)));
  Value* normal = b_.CreateSub(b_.CreateLShr(rounded, i32_of(cut)), i32_of(rebias));
  Value* sum = b_.CreateBitCast(b_.CreateFAdd(size, float_like(f32_type, power)), i32_type);
  Value* subnormal = b_.CreateSub(sum, b_.CreateBitCast(float_like(f32_type, power), i32_type));
  Value* small = b_.CreateFCmpOLT(size, float_like(f32_type, least_normal));
  Value* sign =
      b_.CreateAnd(b_.CreateLShr(b_.CreateBitCast(v, i32_type), i32_of(24)), i32_of(0x80));
  Value* number = b_.CreateOr(b_.CreateSelect(small, subnormal, normal), sign);
  Value* result = b_.CreateSelect(b_.CreateFCmpUNO(v, v), i32_of(0x7f), number);
  return b_.CreateTrunc(result, with_lanes(b_.getInt8Ty(), width));
}

Value* Ops::from_f32(Value* v, DataType to) {
  if (to.is_float8()) return f32_to_float8(v, to);
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

// Saturates, and NaN becomes 0. fptosi alone is undefined for values out of range, and LLVM takes
// the saturating intrinsics of vectors apart into scalars. Vectors are clamped instead. A largest
// integer that the float does not have is one step above a float that is in range.
Value* Ops::float_to_int(Value* v, DataType to) {
  const int width = lanes_of(v);
  llvm::Type* type = with_lanes(b_.getIntNTy(to.bits), width);
  if (width == 1 || to.bits > 32)
    return b_.CreateIntrinsic(
        to.is_int() ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
        {type, v->getType()}, {v});
  const int bits = to.is_int() ? to.bits - 1 : to.bits;
  const double low = to.is_int() ? -std::ldexp(1.0, bits) : 0, beyond = std::ldexp(1.0, bits);
  const bool exact = to.bits < 32 || v->getType()->getScalarType()->isDoubleTy();
  Value* lowest = float_like(v->getType(), low);
  Value* zero = float_like(v->getType(), 0);
  // The comparison is false for NaN, as in the instruction that LLVM makes of the pair.
  Value* clamped = b_.CreateSelect(b_.CreateFCmpOGT(v, lowest), v, lowest);
  if (low != 0) clamped = b_.CreateSelect(b_.CreateFCmpUNO(v, v), zero, clamped);
  Value* too_large = exact ? nullptr : b_.CreateFCmpOGE(v, float_like(v->getType(), beyond));
  if (exact) {
    Value* highest = float_like(v->getType(), beyond - 1);
    clamped = b_.CreateSelect(b_.CreateFCmpOLT(clamped, highest), clamped, highest);
  } else {
    clamped = b_.CreateSelect(too_large, zero, clamped);
  }
  llvm::Type* wide = with_lanes(b_.getInt32Ty(), width);
  Value* number = to.bits == 32 && !to.is_int() ? b_.CreateFPToUI(clamped, wide)
                                                : b_.CreateFPToSI(clamped, wide);
  if (too_large)
    number = b_.CreateSelect(too_large, int_like(wide, static_cast<int64_t>(beyond) - 1), number);
  return to.bits < 32 ? b_.CreateTrunc(number, type) : number;
}

Value* Ops::cast(Value* v, DataType from, DataType to) {
  if (from.element() == to.element()) return v;
  const int width = lanes_of(v);
  const bool from_small = from.is_small_float(), to_small = to.is_small_float();
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
