#include "ir/data_index.h"

namespace heddle {
namespace {

/// `e` without an outer `op` by a constant, which becomes `bound`.
Expr without(BinaryOp op, const Expr& e, std::optional<int64_t>& bound) {
  const Binary* b = e.as<Binary>();
  if (!b || b->op != op || b->dtype != i64) return e;
  for (const auto& [value, constant] : {std::pair(b->a, b->b), std::pair(b->b, b->a)}) {
    const int64_t* known = as_int(constant);
    if (!known) continue;
    bound = *known;
    return value;
  }
  return e;
}

/// Whether `e` is an integer that is read from a tensor and converted at most.
bool is_data(const Expr& e) {
  if (const Cast* c = e.as<Cast>()) return c->dtype.is_integral() && is_data(c->value);
  const Load* load = e.as<Load>();
  return load != nullptr && load->dtype.is_integral() && !load->dtype.is_bool();
}

/// Whether `e` is data, or counts data from the end: select(x < 0, x + extent, x).
bool is_position(const Expr& e, int64_t extent) {
  if (is_data(e)) return true;
  const Select* s = e.as<Select>();
  if (!s || !is_data(s->on_false)) return false;
  return equal(e, from_end(s->on_false, extent));
}

}  // namespace

Expr from_end(const Expr& index, int64_t extent) {
  const Expr i = cast(i64, index);
  return index.dtype().is_uint() ? i : make_select(i < 0, i + extent, i);
}

Expr clamped_index(const Expr& index, int64_t extent) {
  return max(min(from_end(index, extent), Expr(extent - 1)), Expr(0));
}

std::optional<ClampedIndex> as_clamped_index(const Expr& e) {
  std::optional<int64_t> low, high;
  const Expr inner = without(BinaryOp::Min, without(BinaryOp::Max, e, low), high);
  if (!high || *high < 0 || low.value_or(0) != 0 || !is_position(inner, *high + 1)) return {};
  return ClampedIndex{inner, *high + 1, inner.kind() == ExprKind::Select};
}

}  // namespace heddle
