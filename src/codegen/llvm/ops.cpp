#include "codegen/llvm/ops.h"

#include "heddle/support/error.h"
#include "llvm/IR/Intrinsics.h"
#include "support/numbers/float8.h"

namespace heddle::codegen {

using llvm::Value;
using llvm::Intrinsic::ID;

// ---- constants and shuffles ----

Value* Ops::int_constant(DataType t, int64_t value) {
  return int_like(register_type(b_.getContext(), t), value);
}

Value* Ops::float_constant(DataType t, double value) {
  llvm::Type* type = register_type(b_.getContext(), t);
  if (t.is_float8()) {
    const bool e4m3 = t.code == TypeCode::E4M3;
    return int_like(type, e4m3 ? double_to_e4m3(value) : double_to_e5m2(value));
  }
  if (t.code != TypeCode::BFloat) return float_like(type, value);
  llvm::APFloat bits(value);
  bool inexact = false;
  bits.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return llvm::ConstantInt::get(type, bits.bitcastToAPInt());
}

Value* Ops::splat(Value* scalar, int lanes) {
  return lanes == 1 ? scalar : b_.CreateVectorSplat(lanes, scalar);
}

Value* Ops::lanes(Value* v, int begin, int count, int width) {
  if (width == 0) width = padded_lanes(count);
  if (width == 1) return b_.CreateExtractElement(v, static_cast<uint64_t>(begin));
  if (begin == 0 && lanes_of(v) == width) return v;
  llvm::SmallVector<int, 64> mask;
  for (int i = 0; i < width; ++i) mask.push_back(i < count ? begin + i : begin);
  return b_.CreateShuffleVector(v, mask);
}

Value* Ops::insert_lanes(Value* v, Value* part, int begin, int count) {
  if (count == 1) return b_.CreateInsertElement(v, part, static_cast<uint64_t>(begin));
  const int width = lanes_of(v);
  llvm::SmallVector<int, 64> widen, blend;
  for (int i = 0; i < width; ++i) {
    const bool inside = i >= begin && i < begin + count;
    widen.push_back(inside ? i - begin : llvm::PoisonMaskElem);
    blend.push_back(inside ? width + i : i);
  }
  return b_.CreateShuffleVector(v, b_.CreateShuffleVector(part, widen), blend);
}

Value* Ops::reverse(Value* v, int count) {
  llvm::SmallVector<int, 64> mask;
  for (int i = 0; i < lanes_of(v); ++i) mask.push_back(i < count ? count - 1 - i : i);
  return b_.CreateShuffleVector(v, mask);
}

// ---- operations ----

Value* Ops::unary(UnaryOp op, DataType type, Value* a) {
  switch (op) {
    case UnaryOp::Not: return b_.CreateNot(a);
    case UnaryOp::BitNot: return b_.CreateNot(a);
    case UnaryOp::Neg:
      if (type.is_integral()) return b_.CreateNeg(a);
      break;
    case UnaryOp::Abs:
      if (type.is_uint() || type.is_bool()) return a;
      if (type.is_int()) {
        return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, b_.getFalse());
      }
      break;
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc:
      if (type.is_integral()) return a;
      break;
    case UnaryOp::IsNan:
    case UnaryOp::IsInf:
      if (type.is_integral())
        return llvm::ConstantInt::getFalse(with_lanes(b_.getInt1Ty(), lanes_of(a)));
      break;
    default: break;
  }
  HEDDLE_ICHECK(type.is_float(), std::string(to_string(op)) + " of " + to_string(type));
  if (!type.is_small_float()) return float_unary(op, type, a);
  const DataType wide = f32.with_lanes(type.lanes);
  Value* result = float_unary(op, wide, to_f32(a, type));
  return op == UnaryOp::IsNan || op == UnaryOp::IsInf ? result : from_f32(result, type);
}

Value* Ops::float_unary(UnaryOp op, DataType type, Value* a) {
  auto intrinsic = [&](ID id) { return b_.CreateUnaryIntrinsic(id, a); };
  switch (op) {
    case UnaryOp::Neg: return b_.CreateFNeg(a);
    case UnaryOp::Abs: return intrinsic(llvm::Intrinsic::fabs);
    case UnaryOp::Sqrt: return intrinsic(llvm::Intrinsic::sqrt);
    case UnaryOp::Rsqrt:
      return b_.CreateFDiv(float_like(a->getType(), 1), intrinsic(llvm::Intrinsic::sqrt));
    case UnaryOp::Floor: return intrinsic(llvm::Intrinsic::floor);
    case UnaryOp::Ceil: return intrinsic(llvm::Intrinsic::ceil);
    case UnaryOp::Round: return intrinsic(llvm::Intrinsic::roundeven);
    case UnaryOp::Trunc: return intrinsic(llvm::Intrinsic::trunc);
    case UnaryOp::RoundTf32: return round_tf32(a);
    case UnaryOp::IsNan: return b_.CreateFCmpUNO(a, a);
    case UnaryOp::IsInf:
      return b_.CreateFCmpOEQ(intrinsic(llvm::Intrinsic::fabs),
                              llvm::ConstantFP::getInfinity(a->getType()));
    default: break;
  }
  if (type.bits == 32) {
    if (Value* inlined = inline_math_f32(op, a)) return inlined;
  }
  switch (op) {
    case UnaryOp::Exp: return math_call("exp", type, a);
    case UnaryOp::Exp2: return math_call("exp2", type, a);
    case UnaryOp::Expm1: return math_call("expm1", type, a);
    case UnaryOp::Log: return math_call("log", type, a);
    case UnaryOp::Log2: return math_call("log2", type, a);
    case UnaryOp::Log10: return math_call("log10", type, a);
    case UnaryOp::Log1p: return math_call("log1p", type, a);
    case UnaryOp::Sin: return math_call("sin", type, a);
    case UnaryOp::Cos: return math_call("cos", type, a);
    case UnaryOp::Tan: return math_call("tan", type, a);
    case UnaryOp::Asin: return math_call("asin", type, a);
    case UnaryOp::Acos: return math_call("acos", type, a);
    case UnaryOp::Atan: return math_call("atan", type, a);
    case UnaryOp::Sinh: return math_call("sinh", type, a);
    case UnaryOp::Cosh: return math_call("cosh", type, a);
    case UnaryOp::Tanh: return math_call("tanh", type, a);
    case UnaryOp::Erf: return math_call("erf", type, a);
    default: throw_internal_error(std::string("no code for ") + to_string(op));
  }
}

Value* Ops::binary(BinaryOp op, DataType type, Value* a, Value* b, ArithmeticFacts facts) {
  switch (op) {
    case BinaryOp::Eq:
    case BinaryOp::Ne:
    case BinaryOp::Lt:
    case BinaryOp::Le: return compare(op, type, a, b);
    case BinaryOp::And:
    case BinaryOp::BitAnd: return b_.CreateAnd(a, b);
    case BinaryOp::Or:
    case BinaryOp::BitOr: return b_.CreateOr(a, b);
    case BinaryOp::BitXor: return b_.CreateXor(a, b);
    default: break;
  }
  if (!type.is_float()) return int_binary(op, type, a, b, facts);
  if (!type.is_small_float()) return float_binary(op, type, a, b);
  const DataType wide = f32.with_lanes(type.lanes);
  return from_f32(float_binary(op, wide, to_f32(a, type), to_f32(b, type)), type);
}

Value* Ops::compare(BinaryOp op, DataType type, Value* a, Value* b) {
  if (type.is_float()) {
    if (type.is_small_float()) {
      a = to_f32(a, type);
      b = to_f32(b, type);
    }
    switch (op) {
      case BinaryOp::Eq: return b_.CreateFCmpOEQ(a, b);
      case BinaryOp::Ne: return b_.CreateFCmpUNE(a, b);
      case BinaryOp::Lt: return b_.CreateFCmpOLT(a, b);
      default: return b_.CreateFCmpOLE(a, b);
    }
  }
  const bool is_signed = type.is_int();
  switch (op) {
    case BinaryOp::Eq: return b_.CreateICmpEQ(a, b);
    case BinaryOp::Ne: return b_.CreateICmpNE(a, b);
    case BinaryOp::Lt: return is_signed ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
    default: return is_signed ? b_.CreateICmpSLE(a, b) : b_.CreateICmpULE(a, b);
  }
}

Value* Ops::float_binary(BinaryOp op, DataType type, Value* a, Value* b) {
  switch (op) {
    case BinaryOp::Add: return b_.CreateFAdd(a, b);
    case BinaryOp::Sub: return b_.CreateFSub(a, b);
    case BinaryOp::Mul: return b_.CreateFMul(a, b);
    case BinaryOp::Div: return b_.CreateFDiv(a, b);
    case BinaryOp::Mod: return b_.CreateFRem(a, b);  // calls fmod
    case BinaryOp::Min:
    case BinaryOp::Max: return float_extreme(op, a, b);
    case BinaryOp::Pow: return math_call("pow", type, {a, b});
    case BinaryOp::Atan2: return math_call("atan2", type, {a, b});
    default: throw_internal_error(std::string("no code for ") + to_string(op) + " of floats");
  }
}

// NaN where an operand is NaN. minps and maxps return the second operand where either is NaN. That
// is right where the first operand is never NaN; otherwise a NaN of the first operand is selected.
Value* Ops::float_extreme(BinaryOp op, Value* a, Value* b) {
  const auto is_number = [](Value* v) {
    auto* c = llvm::dyn_cast<llvm::Constant>(v);
    if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
    auto* f = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
    return f && !f->isNaN();
  };
  if (is_number(b)) std::swap(a, b);
  Value* first = op == BinaryOp::Min ? b_.CreateFCmpOLT(a, b) : b_.CreateFCmpOGT(a, b);
  Value* second_of_nan = b_.CreateSelect(first, a, b);
  if (is_number(a)) return second_of_nan;
  return b_.CreateSelect(b_.CreateFCmpUNO(a, a), a, second_of_nan);
}

Value* Ops::int_binary(BinaryOp op, DataType type, Value* a, Value* b, ArithmeticFacts facts) {
  const bool nsw = facts.index && type.is_int() && type.bits == 64;
  switch (op) {
    case BinaryOp::Add: return b_.CreateAdd(a, b, "", false, nsw);
    case BinaryOp::Sub: return b_.CreateSub(a, b, "", false, nsw);
    case BinaryOp::Mul: return b_.CreateMul(a, b, "", false, nsw);
    case BinaryOp::Min:
      return b_.CreateBinaryIntrinsic(type.is_int() ? llvm::Intrinsic::smin : llvm::Intrinsic::umin,
                                      a, b);
    case BinaryOp::Max:
      return b_.CreateBinaryIntrinsic(type.is_int() ? llvm::Intrinsic::smax : llvm::Intrinsic::umax,
                                      a, b);
    case BinaryOp::Shl:
    case BinaryOp::Shr: {
      // A shift by the width or more is undefined in LLVM; it is taken modulo the width, as on x86.
      Value* amount = b_.CreateAnd(b, int_like(b->getType(), type.bits - 1));
      if (op == BinaryOp::Shl) return b_.CreateShl(a, amount);
      return type.is_int() ? b_.CreateAShr(a, amount) : b_.CreateLShr(a, amount);
    }
    case BinaryOp::Div:
    case BinaryOp::Mod:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: return int_divide(op, type, a, b, facts);
    default: throw_internal_error(std::string("no code for ") + to_string(op) + " of integers");
  }
}

Value* Ops::int_divide(BinaryOp op, DataType type, Value* a, Value* b, ArithmeticFacts facts) {
  const bool quotient = op == BinaryOp::Div || op == BinaryOp::FloorDiv;
  const bool floor = op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod;
  llvm::Type* t = a->getType();
  const llvm::APInt* divisor = nullptr;
  if (auto* c = llvm::dyn_cast<llvm::Constant>(b)) {
    auto* lane =
        llvm::dyn_cast_or_null<llvm::ConstantInt>(t->isVectorTy() ? c->getSplatValue() : c);
    if (lane && !lane->isZero() && !(type.is_int() && lane->isMinusOne())) {
      divisor = &lane->getValue();
    }
  }
  if (!divisor) {
    // Lanes beyond the vector, x / 0 and INT_MIN / -1 must not trap. They divide by 1 instead,
    // which is the wrapped result for the last case.
    Value* bad = b_.CreateIsNull(b);
    if (type.is_int()) {
      Value* lowest = llvm::ConstantInt::get(t, llvm::APInt::getSignedMinValue(type.bits));
      Value* overflow =
          b_.CreateAnd(b_.CreateICmpEQ(a, lowest), b_.CreateICmpEQ(b, int_like(t, -1)));
      bad = b_.CreateOr(bad, overflow);
    }
    b = b_.CreateSelect(bad, int_like(t, 1), b);
    if (is_padded(type)) {
      b = b_.CreateSelect(lane_mask(b_.getContext(), type.lanes), b, int_like(t, 1));
    }
  }
  const bool positive = divisor && divisor->isStrictlyPositive();
  if (!type.is_int() || (facts.nonnegative && positive)) {
    return quotient ? b_.CreateUDiv(a, b) : b_.CreateURem(a, b);
  }
  if (!floor) return quotient ? b_.CreateSDiv(a, b) : b_.CreateSRem(a, b);
  if (positive && divisor->isPowerOf2()) {
    return quotient ? b_.CreateAShr(a, int_like(t, divisor->logBase2()))
                    : b_.CreateAnd(a, llvm::ConstantInt::get(t, *divisor - 1));
  }
  Value* q = b_.CreateSDiv(a, b);
  Value* r = b_.CreateSub(a, b_.CreateMul(q, b));
  Value* zero = llvm::Constant::getNullValue(t);
  Value* adjust =
      positive ? b_.CreateICmpSLT(r, zero)
               : b_.CreateAnd(b_.CreateICmpNE(r, zero), b_.CreateICmpSLT(b_.CreateXor(r, b), zero));
  if (quotient) return b_.CreateAdd(q, b_.CreateSExt(adjust, t));
  return b_.CreateAdd(r, b_.CreateSelect(adjust, b, zero));
}

}  // namespace heddle::codegen
