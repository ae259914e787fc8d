#include "ir/affine_lanes.h"

namespace heddle {

std::optional<AffineLanes> as_affine_lanes(const Expr& index) {
  if (auto* ramp = index.as<Ramp>()) return AffineLanes{ramp->base, ramp->stride};
  if (auto* broadcast = index.as<Broadcast>()) {
    return AffineLanes{broadcast->value, make_int(index.dtype().element(), 0)};
  }
  auto* binary = index.as<Binary>();
  if (!binary) return std::nullopt;
  auto a = as_affine_lanes(binary->a);
  auto b = as_affine_lanes(binary->b);
  if (!a || !b) return std::nullopt;
  switch (binary->op) {
    case BinaryOp::Add: return AffineLanes{a->base + b->base, a->stride + b->stride};
    case BinaryOp::Sub: return AffineLanes{a->base - b->base, a->stride - b->stride};
    case BinaryOp::Mul:
      if (is_const(b->stride, 0)) return AffineLanes{a->base * b->base, a->stride * b->base};
      if (is_const(a->stride, 0)) return AffineLanes{a->base * b->base, a->base * b->stride};
      return std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace heddle
