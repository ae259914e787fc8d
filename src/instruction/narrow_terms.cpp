#include "instruction/narrow_terms.h"

#include <utility>

#include "ir/affine_lanes.h"

namespace heddle::instructions {
namespace {

const Expr& without_broadcast(const Expr& e) {
  return e.kind() == ExprKind::Broadcast ? e.as<Broadcast>()->value : e;
}

// The byte whose highest bit `e` inverts, read as the other type of bytes; null where it does not.
const Load* as_flipped(const Expr& e) {
  const Binary* flip = e.as<Binary>();
  if (!flip || flip->op != BinaryOp::BitXor || e.dtype().bits != 8) return nullptr;
  const int64_t* mask = as_int(without_broadcast(flip->b));
  if (!mask || (*mask & 0xff) != 0x80) return nullptr;
  const Expr& value = without_broadcast(flip->a);
  const Cast* read = value.as<Cast>();
  const Load* load = (read ? without_broadcast(read->value) : value).as<Load>();
  const bool of_bytes = load && (load->buffer->dtype == i8 || load->buffer->dtype == u8);
  return of_bytes ? load : nullptr;
}

// The byte of which `e` has four bits: load & 15 or load >> 4, widened to i32.
std::optional<std::pair<Expr, ByteBits>> as_four_bits(const Expr& e) {
  constexpr int64_t kMask = 15, kShift = 4;
  const Binary* b = e.as<Binary>();
  const int64_t* by = b ? as_int(without_broadcast(b->b)) : nullptr;
  if (!by || b->a.dtype().element() != i32) return std::nullopt;
  const Cast* byte = b->a.as<Cast>();
  if (!byte || byte->value.dtype().element() != u8) return std::nullopt;
  if (b->op == BinaryOp::BitAnd && *by == kMask) return std::pair{b->a, ByteBits::Lower};
  if (b->op == BinaryOp::Shr && *by == kShift) return std::pair{b->a, ByteBits::Upper};
  return std::nullopt;
}

// `e` as a factor of a product that is summed in type `wide`; nullopt where it is none.
std::optional<NarrowFactor> as_factor(const Expr& e, DataType wide) {
  if (const auto part = as_four_bits(e)) {
    std::optional<NarrowFactor> whole = as_factor(part->first, wide);
    if (!whole || whole->stride == 0 || whole->flipped) return std::nullopt;
    whole->bits = part->second;
    return whole;
  }
  const Cast* widened = without_broadcast(e).as<Cast>();
  const Load* load = widened ? without_broadcast(widened->value).as<Load>() : nullptr;
  const bool flipped = widened && !load;
  if (flipped) load = as_flipped(without_broadcast(widened->value));
  if (!load || load->indices.size() != 1) return std::nullopt;
  const DataType t = widened->value.dtype().element();
  if (wide == i32 ? t != i8 && t != u8 && t != i16 : t != bf16 && t != f16) return std::nullopt;
  const Expr& index = load->indices[0];
  if (index.dtype().is_scalar())
    return NarrowFactor{.buffer = load->buffer, .base = index, .type = t, .flipped = flipped};
  const std::optional<AffineLanes> lanes = as_affine_lanes(index);
  const int64_t* stride = lanes ? as_int(lanes->stride) : nullptr;
  if (!stride) return std::nullopt;
  return NarrowFactor{.buffer = load->buffer,
                      .base = lanes->base,
                      .stride = *stride,
                      .type = t,
                      .flipped = flipped};
}

}  // namespace

std::optional<NarrowTerm> as_narrow_term(const Expr& e) {
  const Binary* mul = e.as<Binary>();
  const DataType wide = e.dtype().element();
  if (!mul || mul->op != BinaryOp::Mul || (wide != i32 && wide != f32)) return std::nullopt;
  std::optional<NarrowFactor> a = as_factor(mul->a, wide), b = as_factor(mul->b, wide);
  if (!a || !b) return std::nullopt;
  if (b->stride == 0) std::swap(a, b);
  return NarrowTerm{*a, *b, e};
}

void terms_of(const Expr& e, std::vector<Expr>& out) {
  if (out.size() > kMostTerms) return;
  if (const Binary* add = e.as<Binary>(); add && add->op == BinaryOp::Add) {
    terms_of(add->a, out);
    terms_of(add->b, out);
  } else {
    out.push_back(e);
  }
}

bool follows(const NarrowFactor& first, const NarrowFactor& x, int distance, const Ranges& ranges) {
  return first.buffer == x.buffer && first.stride == x.stride && first.flipped == x.flipped &&
         first.bits == x.bits && first.type == x.type &&
         is_const(simplify(x.base - first.base, ranges), distance);
}

}  // namespace heddle::instructions
