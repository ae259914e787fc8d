// Mathematical functions of f32 as IR, at any width. Scalars use the same formulas as vectors, so
// that the last, partial iteration of a loop agrees with the others. Errors are in ulp, measured by
// tests/codegen/llvm_math_test.cpp over the whole range.
#include "codegen/llvm/ops.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace heddle::codegen {

using llvm::Value;

namespace {

constexpr double kLog2E = 1.44269504088896341;
// ln 2 in two parts. The first has so few bits that its product with an exponent is exact.
constexpr double kLn2High = 0.693359375, kLn2Low = -2.12194440e-4;
// Adding it to a small number leaves the nearest integer in the low bits of the mantissa.
constexpr double kRoundingShift = 12582912.0;  // 1.5 * 2^23
constexpr int64_t kRoundingShiftBits = 0x4b400000;

llvm::Type* int_type_of(llvm::Type* type) {
  return type->getWithNewType(llvm::Type::getInt32Ty(type->getContext()));
}

}  // namespace

Value* Ops::fma(Value* a, Value* b, Value* c) {
  return b_.CreateIntrinsic(llvm::Intrinsic::fmuladd, {a->getType()}, {a, b, c});
}

Value* Ops::fma(Value* a, Value* b, double c) { return fma(a, b, float_like(a->getType(), c)); }

Value* Ops::polynomial(Value* x, std::initializer_list<double> high_to_low) {
  auto it = high_to_low.begin();
  Value* p = float_like(x->getType(), *it);
  while (++it != high_to_low.end()) p = fma(p, x, *it);
  return p;
}

// NaN stays NaN: a comparison with it fails and keeps x.
Value* Ops::clamp(Value* x, double low, double high) {
  Value* lo = float_like(x->getType(), low);
  Value* hi = float_like(x->getType(), high);
  x = b_.CreateSelect(b_.CreateFCmpOLT(hi, x), hi, x);
  return b_.CreateSelect(b_.CreateFCmpOGT(lo, x), lo, x);
}

Value* Ops::power_of_two(Value* exponent) {
  llvm::Type* type = exponent->getType();
  Value* bits = b_.CreateShl(b_.CreateAdd(exponent, int_like(type, 127)), int_like(type, 23));
  return b_.CreateBitCast(bits, type->getWithNewType(b_.getFloatTy()));
}

// x = n ln 2 + r with |r| <= ln(2) / 2, and exp(r) - 1 by a polynomial (Cephes' expf).
Ops::ExpParts Ops::exp_parts(Value* x, bool base_two) {
  llvm::Type* type = x->getType();
  Value* shifted = base_two ? b_.CreateFAdd(x, float_like(type, kRoundingShift))
                            : fma(x, float_like(type, kLog2E), kRoundingShift);
  Value* n = b_.CreateFSub(shifted, float_like(type, kRoundingShift));
  Value* r;
  if (base_two) {
    r = b_.CreateFMul(b_.CreateFSub(x, n), float_like(type, 0.693147180559945309));
  } else {
    r = fma(n, float_like(type, -kLn2High), x);
    r = fma(n, float_like(type, -kLn2Low), r);
  }
  // Estrin's order: three dependent steps, not five; the reorder buffer holds few iterations.
  Value* r2 = b_.CreateFMul(r, r);
  Value* p = fma(polynomial(r, {1.9875691500e-4, 1.3981999507e-3}), r2,
                 polynomial(r, {8.3334519073e-3, 4.1665795894e-2}));
  p = fma(p, r2, polynomial(r, {1.6666665459e-1, 5.0000001201e-1}));
  llvm::Type* int_type = int_type_of(type);
  Value* exponent =
      b_.CreateSub(b_.CreateBitCast(shifted, int_type), int_like(int_type, kRoundingShiftBits));
  return {fma(p, r2, r), exponent, n};
}

// x = n ln 2 + r with |r| <= ln(2) / 2, and 2 exp(r) by a minimax polynomial (1.04 ulp in all), so
// that the scale 2^(n-1) is finite where the result is. With an exponent's bias in the shift that
// rounds, the low bits of the sum are those of the scale: none at n = -126, a scale of zero.
// Results below 2^-125.5 are therefore zero. Two factors would keep them and take a quarter longer.
Value* Ops::exp_f32(Value* x, bool base_two) {
  llvm::Type* type = x->getType();
  const int width = lanes_of(x);
  // A scalar is computed as a lane of four, so that it has the bits that it would have in a vector.
  if (machine_.avx512 && width == 1)
    return b_.CreateExtractElement(exp_f32(b_.CreateVectorSplat(4, x), base_two), uint64_t{0});
  if (machine_.avx512 && (width == 4 || width == 8 || width == 16)) {
    // vscalefps rounds and overflows as required. Beyond these limits the result is infinity or
    // zero.
    x = base_two ? clamp(x, -151, 129) : clamp(x, -104.5, 89);
    ExpParts parts = exp_parts(x, base_two);
    Value* y = b_.CreateFAdd(parts.minus_one, float_like(type, 1));
    llvm::Value* everywhere =
        llvm::Constant::getAllOnesValue(width == 16 ? b_.getInt16Ty() : b_.getInt8Ty());
    llvm::SmallVector<Value*, 5> args{y, parts.exponent_f, y, everywhere};
    if (width == 16) args.push_back(b_.getInt32(4));  // the current rounding mode
    const auto id = width == 16  ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                    : width == 8 ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256
                                 : llvm::Intrinsic::x86_avx512_mask_scalef_ps_128;
    return b_.CreateIntrinsic(id, {}, args);
  }
  x = base_two ? clamp(x, -126.25, 128.25) : clamp(x, -87.5, 89);  // n is -126 .. 128
  constexpr double kShift = kRoundingShift + 126;
  Value* shifted = base_two ? b_.CreateFAdd(x, float_like(type, kShift))
                            : fma(x, float_like(type, kLog2E), kShift);
  Value* n = b_.CreateFSub(shifted, float_like(type, kShift));
  Value* r;
  if (base_two) {
    r = b_.CreateFMul(b_.CreateFSub(x, n), float_like(type, 0.693147180559945309));
  } else {
    r = fma(n, float_like(type, -kLn2High), x);
    r = fma(n, float_like(type, -kLn2Low), r);
  }
  // Horner's rule has the fewest operations, and all of them are multiply-adds.
  Value* p = polynomial(r, {2.76735883676e-3, 1.674971413568e-2, 8.33364573612e-2, 3.33328392328e-1,
                            9.99999841122e-1, 2.00000007286, 2.0});
  llvm::Type* int_type = int_type_of(type);
  Value* scale = b_.CreateBitCast(
      b_.CreateShl(b_.CreateBitCast(shifted, int_type), int_like(int_type, 23)), type);
  return b_.CreateFMul(p, scale);
}

Value* Ops::expm1_f32(Value* x) {
  llvm::Type* type = x->getType();
  Value* clamped = clamp(x, -18, 89);
  ExpParts parts = exp_parts(clamped, false);
  // The result is 2 * (2^(n-1) (e^r - 1) + 2^(n-1) - 1/2). The scale is halved because 2^128 is not
  // finite.
  Value* scale = power_of_two(b_.CreateSub(parts.exponent, int_like(parts.exponent->getType(), 1)));
  Value* half = fma(parts.minus_one, scale, b_.CreateFSub(scale, float_like(type, 0.5)));
  Value* result = b_.CreateFAdd(half, half);
  // Keeps -0 and subnormal numbers, which the halving would lose.
  Value* tiny =
      b_.CreateFCmpOLT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x), float_like(type, 1e-10));
  return b_.CreateSelect(tiny, x, result);
}

// x = 2^e (1 + f); log(1 + f) by a polynomial (Cephes' logf).
Ops::LogParts Ops::log_parts(Value* x) {
  llvm::Type* type = x->getType();
  llvm::Type* int_type = int_type_of(type);
  Value* subnormal = b_.CreateFCmpOLT(x, float_like(type, 1.17549435e-38));
  x = b_.CreateSelect(subnormal, b_.CreateFMul(x, float_like(type, 8388608.0)), x);
  Value* bits = b_.CreateBitCast(x, int_type);
  Value* e =
      b_.CreateAShr(b_.CreateSub(bits, int_like(int_type, 0x3f3504f3)), int_like(int_type, 23));
  Value* mantissa =
      b_.CreateBitCast(b_.CreateSub(bits, b_.CreateShl(e, int_like(int_type, 23))), type);
  e = b_.CreateSub(e, b_.CreateSelect(subnormal, int_like(int_type, 23), int_like(int_type, 0)));
  Value* f = b_.CreateFSub(mantissa, float_like(type, 1));
  Value* p = polynomial(
      f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
          -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  Value* square = b_.CreateFMul(f, f);
  Value* y = fma(square, float_like(type, -0.5), b_.CreateFMul(b_.CreateFMul(p, square), f));
  return {f, y, b_.CreateSIToFP(e, type)};
}

Value* Ops::log_edges(Value* x, Value* result) {
  llvm::Type* type = x->getType();
  Value* infinity = llvm::ConstantFP::getInfinity(type);
  Value* zero = llvm::Constant::getNullValue(type);
  Value* below =
      b_.CreateSelect(b_.CreateFCmpOEQ(x, zero), llvm::ConstantFP::getInfinity(type, true),
                      llvm::ConstantFP::getNaN(type));
  result = b_.CreateSelect(b_.CreateFCmpOGT(x, zero), result, below);
  return b_.CreateSelect(b_.CreateFCmpOEQ(x, infinity), x, result);
}

Value* Ops::log_f32(UnaryOp op, Value* x) {
  llvm::Type* type = x->getType();
  auto [f, y, e] = log_parts(x);
  auto constant = [&](double v) { return float_like(type, v); };
  Value* result;
  if (op == UnaryOp::Log) {
    y = fma(e, constant(kLn2Low), y);
    result = fma(e, constant(kLn2High), b_.CreateFAdd(f, y));
  } else if (op == UnaryOp::Log2) {
    // log2(e) = 1 + 0.4427, so that the large terms are added exactly.
    constexpr double kRest = 0.44269504088896340736;
    result = fma(f, constant(kRest), b_.CreateFMul(y, constant(kRest)));
    result = b_.CreateFAdd(b_.CreateFAdd(result, y), f);
    result = b_.CreateFAdd(result, e);
  } else {
    // log10(e) and log10(2) are each the sum of a short number and a remainder.
    result = b_.CreateFMul(b_.CreateFAdd(f, y), constant(7.00731903251827651129e-4));
    result = fma(e, constant(2.48745663981195213739e-4), result);
    result = fma(y, constant(4.3359375e-1), result);
    result = fma(f, constant(4.3359375e-1), result);
    result = fma(e, constant(3.0078125e-1), result);
  }
  return log_edges(x, result);
}

// log(u) * x / (u - 1) with u = 1 + x rounded: the rounding error of u cancels (Kahan).
Value* Ops::log1p_f32(Value* x) {
  llvm::Type* type = x->getType();
  Value* u = b_.CreateFAdd(x, float_like(type, 1));
  Value* difference = b_.CreateFSub(u, float_like(type, 1));
  Value* result = b_.CreateFMul(log_f32(UnaryOp::Log, u), b_.CreateFDiv(x, difference));
  Value* same = b_.CreateOr(b_.CreateFCmpOEQ(difference, llvm::Constant::getNullValue(type)),
                            b_.CreateFCmpOEQ(u, llvm::ConstantFP::getInfinity(type)));
  return b_.CreateSelect(same, x, result);
}

// x P(x^2) / Q(x^2), the minimax fit that Eigen uses.
Value* Ops::tanh_f32(Value* x) {
  llvm::Type* type = x->getType();
  Value* c = clamp(x, -7.99881172180175781, 7.99881172180175781);
  Value* s = b_.CreateFMul(c, c);
  Value* p = polynomial(
      s, {-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
          1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03});
  Value* q = polynomial(
      s, {1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03});
  Value* result = b_.CreateFDiv(b_.CreateFMul(c, p), q);
  Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  result = b_.CreateSelect(b_.CreateFCmpOLT(magnitude, float_like(type, 4e-4)), x, result);
  Value* one = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, float_like(type, 1), x);
  return b_.CreateSelect(b_.CreateFCmpOGT(magnitude, float_like(type, 9.1)), one, result);
}

// x P(s) / Q(s) with s = x^2, the minimax fit that XLA uses. At the end of its range the fit has
// just passed 1. There s is clamped and the result is exactly 1.
Value* Ops::erf_f32(Value* x) {
  constexpr double kPastOne = 3.92;
  Value* end = float_like(x->getType(), kPastOne * kPastOne);
  Value* s = b_.CreateFMul(x, x);
  s = b_.CreateSelect(b_.CreateFCmpOLT(end, s), end, s);  // NaN stays NaN
  Value* p = polynomial(s, {0.00022905065861350646, 0.0034082910107109506, 0.050955695062380861,
                            0.18520832239976145, 1.128379143519084});
  Value* q = polynomial(s, {-1.1791602954361697e-7, 0.000023547966471313185, 0.0010179625278914885,
                            0.014070470171167667, 0.11098505178285362, 0.49746925110067538, 1.0});
  return clamp(b_.CreateFDiv(b_.CreateFMul(x, p), q), -1, 1);
}

// Adds half of the last bit that is kept, and cuts the others. Infinities and NaNs are kept.
Value* Ops::round_tf32(Value* x) {
  llvm::Type* type = x->getType();
  if (type->getScalarType()->isDoubleTy()) {
    Value* single = b_.CreateFPTrunc(x, type->getWithNewType(b_.getFloatTy()));
    return b_.CreateFPExt(round_tf32(single), type);
  }
  llvm::Type* ints = int_type_of(type);
  Value* bits = b_.CreateBitCast(x, ints);
  Value* exponent = b_.CreateAnd(bits, int_like(ints, 0x7f800000));
  Value* rounded =
      b_.CreateAnd(b_.CreateAdd(bits, int_like(ints, 0x1000)), int_like(ints, -0x2000));
  Value* finite = b_.CreateICmpNE(exponent, int_like(ints, 0x7f800000));
  return b_.CreateSelect(finite, b_.CreateBitCast(rounded, type), x);
}

Value* Ops::inline_math_f32(UnaryOp op, Value* x) {
  switch (op) {
    case UnaryOp::Exp: return exp_f32(x, false);
    case UnaryOp::Exp2: return exp_f32(x, true);
    case UnaryOp::Expm1: return expm1_f32(x);
    case UnaryOp::Log:
    case UnaryOp::Log2:
    case UnaryOp::Log10: return log_f32(op, x);
    case UnaryOp::Log1p: return log1p_f32(x);
    case UnaryOp::Tanh: return tanh_f32(x);
    case UnaryOp::Erf: return erf_f32(x);
    default: return nullptr;
  }
}

}  // namespace heddle::codegen
