// Interval analysis over the structure of an expression.
#include <bit>

#include "ir/interval.h"
#include "ir/linear.h"

namespace heddle {
namespace {

class RangeAnalysis {
 public:
  RangeAnalysis(const Ranges& ranges, bool gather) : ranges_(ranges), gather_(gather) {}

  Interval range(const Expr& e) {
    // The tree of a graph can be exponentially larger than the graph. Beyond this number of nodes
    // the range of the type is used.
    if (--budget_ < 0) return range_of_type(e.dtype().element());
    const DataType t = e.dtype().element();
    if (!t.is_integral()) return {};
    return clamp(t, raw_range(e));
  }

 private:
  Interval raw_range(const Expr& e);
  Interval binary(const Expr& e, const Binary& b);
  Interval sum(const Expr& e);
  Interval compared(BinaryOp op, const Expr& a, const Expr& b);
  Interval cast(const Cast& c);

  /// The values of type `t` in `r`, which is the range in exact integers. A result that does not
  /// fit has wrapped and may be any value. (i64 indices are assumed not to overflow.)
  static Interval clamp(DataType t, Interval r) {
    const Interval type = range_of_type(t);
    if (t.bits == 64 && t.is_int()) return r;
    const bool fits = r.min >= type.min && (t.bits < 64 ? r.max <= type.max : r.max < type.max);
    return fits ? r : type;
  }

  const Ranges& ranges_;
  const bool gather_;
  int budget_ = 4000;
};

Interval RangeAnalysis::sum(const Expr& e) {
  Linear form = canonical_linear(e);
  if (form.overflow) return {};
  Interval r{form.constant, form.constant};
  for (const LinearTerm& t : form.terms) r = add(r, multiply(range(t.expr), t.coefficient));
  return r;
}

Interval RangeAnalysis::compared(BinaryOp op, const Expr& a, const Expr& b) {
  const DataType t = a.dtype().element();
  if (!t.is_integral()) return {0, 1};
  Interval d;
  if (gather_ && a.dtype() == i64) {
    const Linear form = difference(canonical_linear(a), canonical_linear(b));
    if (form.overflow) return {0, 1};
    d = {form.constant, form.constant};
    for (const LinearTerm& term : form.terms) {
      d = add(d, multiply(range(term.expr), term.coefficient));
    }
  } else {
    d = add(range(a), negate(range(b)));
  }
  const auto truth = [](bool always, bool never) {
    return always ? Interval{1, 1} : (never ? Interval{0, 0} : Interval{0, 1});
  };
  const bool zero = d.is_point() && d.min == 0, nonzero = d.min > 0 || d.max < 0;
  switch (op) {
    case BinaryOp::Lt: return truth(d.max < 0, d.min >= 0);
    case BinaryOp::Le: return truth(d.max <= 0, d.min > 0);
    case BinaryOp::Eq: return truth(zero, nonzero);
    default: return truth(nonzero, zero);
  }
}

Interval RangeAnalysis::cast(const Cast& c) {
  const DataType from = c.value.dtype().element();
  if (!from.is_integral()) return range_of_type(c.dtype.element());
  const Interval r = range(c.value);
  // A u64 value beyond the range of i64 becomes negative, which `r` does not represent.
  if (from == u64 && r.max == Interval::kPosInf) return range_of_type(c.dtype.element());
  return r;
}

namespace {

Interval common_bits(const Interval& x, const Interval& y, DataType t) {
  if (x.min < 0 && y.min < 0) return range_of_type(t);
  Interval r{0, Interval::kPosInf};
  if (x.min >= 0) r.max = x.max;
  if (y.min >= 0) r.max = std::min(r.max, y.max);
  return r;
}

// No bit is above the highest one of both.
Interval bits_of_either(const Interval& x, const Interval& y, DataType t) {
  if (x.min < 0 || y.min < 0) return range_of_type(t);
  const auto most = static_cast<uint64_t>(std::max(x.max, y.max));
  return {0, static_cast<int64_t>(std::bit_ceil(most + 1) - 1)};
}

}  // namespace

Interval RangeAnalysis::binary(const Expr& e, const Binary& b) {
  const DataType t = e.dtype().element();
  switch (b.op) {
    case BinaryOp::Add:
    case BinaryOp::Sub:
      if (gather_ && e.dtype() == i64) return sum(e);
      return b.op == BinaryOp::Add ? add(range(b.a), range(b.b))
                                   : add(range(b.a), negate(range(b.b)));
    case BinaryOp::Mul: {
      const Interval x = range(b.a);
      if (b.a.same_as(b.b)) {
        const Interval square = multiply(x, x);
        return {std::max<int64_t>(square.min, 0), square.max};
      }
      return multiply(x, range(b.b));
    }
    case BinaryOp::Div: return trunc_div(range(b.a), range(b.b));
    case BinaryOp::Mod: return trunc_mod(range(b.a), range(b.b));
    case BinaryOp::FloorDiv: return floor_div(range(b.a), range(b.b));
    case BinaryOp::FloorMod: return floor_mod(range(b.a), range(b.b));
    case BinaryOp::Min:
    case BinaryOp::And: {
      const Interval x = range(b.a), y = range(b.b);
      return {std::min(x.min, y.min), std::min(x.max, y.max)};
    }
    case BinaryOp::Max:
    case BinaryOp::Or: {
      const Interval x = range(b.a), y = range(b.b);
      return {std::max(x.min, y.min), std::max(x.max, y.max)};
    }
    case BinaryOp::Eq:
    case BinaryOp::Ne:
    case BinaryOp::Lt:
    case BinaryOp::Le: return compared(b.op, b.a, b.b);
    case BinaryOp::BitAnd: return common_bits(range(b.a), range(b.b), t);
    case BinaryOp::Shl: {
      const int64_t* k = as_int(b.b);
      return k && *k >= 0 && *k < 63 ? multiply(range(b.a), int64_t{1} << *k) : range_of_type(t);
    }
    case BinaryOp::Shr: {
      const int64_t* k = as_int(b.b);
      if (!k || *k < 0 || *k >= 63) return range_of_type(t);
      const int64_t divisor = int64_t{1} << *k;
      return floor_div(range(b.a), {divisor, divisor});
    }
    case BinaryOp::BitOr:
    case BinaryOp::BitXor: return bits_of_either(range(b.a), range(b.b), t);
    case BinaryOp::Pow:
    case BinaryOp::Atan2: return range_of_type(t);
  }
  return {};
}

Interval RangeAnalysis::raw_range(const Expr& e) {
  const DataType t = e.dtype().element();
  switch (e.kind()) {
    case ExprKind::IntImm:
      if (t == u64 && e.as<IntImm>()->value < 0) return range_of_type(t);
      return {e.as<IntImm>()->value, e.as<IntImm>()->value};
    case ExprKind::Var: {
      const VarNode* v = e.as<VarNode>();
      return ranges_.known(v) || v->size ? intersect(ranges_.get(v), range_of_type(t))
                                         : range_of_type(t);
    }
    case ExprKind::Cast: return cast(*e.as<Cast>());
    case ExprKind::Unary: {
      const Unary& u = *e.as<Unary>();
      if (u.op == UnaryOp::Neg) return negate(range(u.a));
      if (u.op == UnaryOp::Not) return add({1, 1}, negate(range(u.a)));
      if (u.op == UnaryOp::Abs) {
        const Interval r = range(u.a), n = negate(r);
        if (r.min >= 0) return r;
        if (r.max <= 0) return n;
        return {0, std::max(r.max, n.max)};
      }
      return range_of_type(t);
    }
    case ExprKind::Binary: return binary(e, *e.as<Binary>());
    case ExprKind::Select: {
      const Select& s = *e.as<Select>();
      const Interval c = range(s.condition);
      if (c.min == 1) return range(s.on_true);
      if (c.max == 0) return range(s.on_false);
      return join(range(s.on_true), range(s.on_false));
    }
    case ExprKind::Ramp: {
      const Ramp& r = *e.as<Ramp>();
      return add(range(r.base), multiply(range(r.stride), Interval{0, r.dtype.lanes - 1}));
    }
    case ExprKind::Broadcast: return range(e.as<Broadcast>()->value);
    case ExprKind::Shuffle: return range_of_type(t);  // the value is that of another lane
    case ExprKind::FloatImm:
    case ExprKind::Load:
    case ExprKind::Reduce: return range_of_type(t);
  }
  return {};
}

}  // namespace

Interval structural_range(const Expr& e, const Ranges& ranges) {
  return RangeAnalysis(ranges, false).range(e);
}

Interval range_of(const Expr& e, const Ranges& ranges) {
  return RangeAnalysis(ranges, true).range(e);
}

}  // namespace heddle
