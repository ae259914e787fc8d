#include "codegen/cuda/byte_quotient.h"

#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>

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
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    const float x = type == bf16 ? std::bit_cast<float>(bits << 16)
                                 : half_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(x)) continue;  // 0 in both
    const float exact = clipped(std::nearbyintf(x / c) + q.zero, q.low, q.high);
    const float quick = clipped(std::fmaf(x, q.inverse, q.zero), q.low, q.high);
    if (std::nearbyintf(quick) != std::trunc(exact)) return false;
  }
  return true;
}

bool known_to_agree(DataType type, float c, const ByteQuotient& q) {
  static std::mutex mutex;
  static std::map<std::array<float, 5>, bool> known;
  const std::array<float, 5> key{type == bf16 ? 1.0F : 0.0F, c, q.zero, q.low, q.high};
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const bool all = agree(type, c, q);
  const std::lock_guard lock(mutex);
  return known[key] = all;
}

}  // namespace

std::optional<ByteQuotient> find_byte_quotient(const Cast& cast, DataType to) {
  if (to != i8 && to != u8) return std::nullopt;
  ByteQuotient q;
  Expr e = without(cast.value, BinaryOp::Min, &q.high);
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
  if ((from != f16 && from != bf16) || !bytes || !std::isnormal(c) || !std::isnormal(q.inverse) ||
      !known_to_agree(from, c, q))
    return std::nullopt;
  return q;
}

}  // namespace heddle::cuda
