#include "codegen/cuda/byte_quotient.h"

#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <string>

#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/text/types.h"
#include "support/numbers/half.h"

namespace heddle::cuda {
namespace {

std::optional<float> constant(const Expr& e) {
  const Broadcast* b = e.as<Broadcast>();
  const FloatImm* c = (b ? b->value : e).as<FloatImm>();
  return c ? std::optional(static_cast<float>(c->value)) : std::nullopt;
}

/// `e` as an operation on something and a constant: the something, and the constant in `out`.
Expr without(const Expr& e, BinaryOp op, float* out) {
  const Binary* b = e.as<Binary>();
  if (!b || b->op != op) return {};
  const std::optional<float> c = constant(b->b);
  if (!c) return {};
  *out = *c;
  return b->a;
}

float clipped(float v, float low, float high) { return std::fmin(std::fmax(v, low), high); }

/// Whether all values of a type become the same byte by both forms.
bool agree(DataType type, float c, const ByteQuotient& q) {
  constexpr float kWhole = ByteQuotient::kWhole;
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    const float x = type == bf16 ? std::bit_cast<float>(bits << 16)
                                 : half_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(x)) continue;  // 0 in all
    const float exact = clipped(std::nearbyintf(x / c) + q.zero, q.low, q.high);
    const float quick =
        q.whole ? kWhole - clipped(std::fmaf(x, -q.inverse, kWhole - q.zero), kWhole - q.high,
                                   kWhole - q.low)
                : std::nearbyintf(clipped(std::fmaf(x, q.inverse, q.zero), q.low, q.high));
    if (quick != std::trunc(exact)) return false;
  }
  return true;
}

bool known_to_agree(DataType type, float c, const ByteQuotient& q) {
  static std::mutex mutex;
  static std::map<std::array<float, 6>, bool> known;
  const std::array<float, 6> key{
      type == bf16 ? 1.0F : 0.0F, q.whole ? 1.0F : 0.0F, c, q.zero, q.low, q.high};
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const bool all = agree(type, c, q);
  const std::lock_guard lock(mutex);
  return known[key] = all;
}

}  // namespace

std::optional<ByteQuotient> find_byte_quotient(const Cast& to_byte, DataType to) {
  if (to != i8 && to != u8) return std::nullopt;
  ByteQuotient q;
  Expr e = without(to_byte.value, BinaryOp::Min, &q.high);
  if (e.defined()) e = without(e, BinaryOp::Max, &q.low);
  if (!e.defined()) return std::nullopt;
  if (const Expr sum = without(e, BinaryOp::Add, &q.zero); sum.defined()) e = sum;
  const Unary* round = e.as<Unary>();
  float c = 0;
  q.x = round && round->op == UnaryOp::Round ? without(round->a, BinaryOp::Div, &c) : Expr();
  const Cast* wide = q.x.defined() ? q.x.as<Cast>() : nullptr;
  if (!wide || wide->dtype.element() != f32) return std::nullopt;
  const DataType from = wide->value.dtype().element();
  const float least = to == i8 ? -128 : 0, most = to == i8 ? 127 : 255;
  q.inverse = 1 / c;
  const bool bytes = q.low >= least && q.high <= most && q.low == std::trunc(q.low) &&
                     q.high == std::trunc(q.high) && q.low <= q.high;
  if ((from != f16 && from != bf16) || !bytes || !std::isnormal(c) || !std::isnormal(q.inverse))
    return std::nullopt;
  q.whole = true;
  if (!known_to_agree(from, c, q)) q.whole = false;
  if (!q.whole && !known_to_agree(from, c, q)) return std::nullopt;
  // Bounds of x, such as that of a relu, are bounds of the byte.
  while (const Binary* bounded = q.x.as<Cast>()->value.as<Binary>()) {
    const bool least_of = bounded->op == BinaryOp::Min;
    const std::optional<float> bound = constant(bounded->b);
    if ((!least_of && bounded->op != BinaryOp::Max) || !bound || c < 0) break;
    const float byte = clipped(std::nearbyintf(*bound / c) + q.zero, q.low, q.high);
    (least_of ? q.high : q.low) = byte;
    q.x = cast(q.x.dtype(), bounded->a);
  }
  return q;
}

std::optional<QuotientAsF32> find_quotient_as_f32(const Expr& number) {
  QuotientAsF32 r;
  Expr e = number;
  if (const Binary* minus = e.as<Binary>(); minus && minus->op == BinaryOp::Sub) {
    const Broadcast* b = minus->b.as<Broadcast>();
    const int64_t* zero = as_int(b ? b->value : minus->b);
    constexpr int64_t kByte = 256;
    if (!zero || std::abs(*zero) > kByte) return std::nullopt;
    r.zero = *zero;
    const Expr bytes = minus->a;
    e = bytes;
  }
  const Cast* wide = e.as<Cast>();
  const Cast* byte = wide && wide->dtype.element() == i32 ? wide->value.as<Cast>() : nullptr;
  const auto q = byte ? find_byte_quotient(*byte, byte->dtype.element()) : std::nullopt;
  if (!q || !q->whole) return std::nullopt;
  r.byte = *q;
  r.type = byte->dtype.element();
  return r;
}

// The byte; of its second form the bits.
Text KernelWriter::byte_quotient(const ByteQuotient& q, DataType t, int lane) {
  rounding_ = Rounding::Strict;
  constexpr float kWhole = ByteQuotient::kWhole;
  const std::array<float, 4> numbers =
      q.whole ? std::array{-q.inverse, kWhole - q.zero, kWhole - q.high, kWhole - q.low}
              : std::array{q.inverse, q.zero, q.low, q.high};
  std::string list;
  for (const float n : numbers)
    list += (list.empty() ? "" : ", ") + float_literal(f32, static_cast<double>(n)).s;
  const char* const function = q.whole   ? "whole_product"
                               : t == i8 ? "i8_of_product"
                                         : "u8_of_product";
  return call(prelude_.use(function), operand(q.x, lane), {list, kAtom});
}

// Behind the exponent of 2^23, without the sign.
Text KernelWriter::quotient_as_f32(const QuotientAsF32& q, int lane) {
  const bool is_signed = q.type == i8;
  const double zero = 0x1p23 + (is_signed ? 128 : 0) + static_cast<double>(q.zero);
  const std::string above = is_signed ? "0x4b00007fu" : "0x4b0000ffu";
  return call(prelude_.use("f32_of_whole"), byte_quotient(q.byte, q.type, lane),
              {above + ", " + float_literal(f32, zero).s, kAtom});
}

}  // namespace heddle::cuda
