#include "dag/errors/value_range.h"

#include <algorithm>
#include <cmath>

#include "ir/fold.h"

namespace heddle::dag {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The product of two interval ends, where zero times infinity is zero.
double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

ValueRange hull_of(std::initializer_list<double> values) {
  ValueRange out{kInf, -kInf};
  for (const double v : values) {
    if (std::isnan(v)) return {};
    out.lo = std::min(out.lo, v);
    out.hi = std::max(out.hi, v);
  }
  return out;
}

ValueRange product(const ValueRange& a, const ValueRange& b) {
  return hull_of({times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)});
}

ValueRange reciprocal(const ValueRange& a) {
  if (a.lo >= 0) return {1 / a.hi, a.lo == 0 ? kInf : 1 / a.lo};
  if (a.hi <= 0) return {a.hi == 0 ? -kInf : 1 / a.hi, 1 / a.lo};
  return {};
}

ValueRange within(const ValueRange& a, double lo, double hi) {
  return {std::clamp(a.lo, lo, hi), std::clamp(a.hi, lo, hi)};
}

ValueRange absolute(const ValueRange& a) {
  const double most = std::max(std::abs(a.lo), std::abs(a.hi));
  if (a.lo <= 0 && a.hi >= 0) return {0, most};
  return {std::min(std::abs(a.lo), std::abs(a.hi)), most};
}

ValueRange square(const ValueRange& a) {
  const ValueRange size = absolute(a);
  return {size.lo * size.lo, size.hi * size.hi};
}

template <class F>
ValueRange rising(const ValueRange& a, F f) {
  return hull_of({f(a.lo), f(a.hi)});
}

/// The range of a sum of `n` terms.
ValueRange sum_of(const ValueRange& a, double n) { return {times(a.lo, n), times(a.hi, n)}; }

class RangeOf {
 public:
  using Known = std::unordered_map<const BufferNode*, ValueRange>;
  RangeOf(const Known& tensors, const Operation& op) : tensors_(tensors), op_(op) {}

  ValueRange follow(const Expr& e) {
    if (const auto it = known_.find(e.get()); it != known_.end()) return it->second;
    ValueRange out = make(e);
    if (!(out.lo <= out.hi)) out = {};  // NaNs were among the ends
    known_.emplace(e.get(), out);
    return out;
  }

 private:
  ValueRange make(const Expr& e) {
    if (const auto* i = e.as<IntImm>()) {
      const auto v = static_cast<double>(i->value);
      return {v, v};
    }
    if (const auto* f = e.as<FloatImm>()) return {f->value, f->value};
    if (e.as<VarNode>()) return variable(e);
    if (const auto* l = e.as<Load>()) return tensors_.at(l->buffer.get());
    if (const auto* c = e.as<Cast>()) return cast_of(*c);
    if (const auto* s = e.as<Select>()) return select_of(*s);
    if (const auto* r = e.as<Reduce>()) return reduce_of(*r);
    if (e.dtype().is_bool()) return {0, 1};
    if (const auto* u = e.as<Unary>()) return unary(u->op, follow(u->a));
    if (const auto* b = e.as<Binary>()) return binary(*b);
    return {};
  }

  ValueRange variable(const Expr& e) const {
    for (const auto* axes : {&op_.axes(), &op_.reduce_axes()}) {
      for (const Axis& a : *axes) {
        if (a.var().get() == e.get()) return {0, static_cast<double>(a.largest_extent() - 1)};
      }
    }
    return {};
  }

  ValueRange cast_of(const Cast& c) {
    const ValueRange a = follow(c.value);
    if (c.dtype.is_bool()) return {0, 1};
    if (c.dtype.is_float()) return a;
    if (!c.value.dtype().is_float()) return {};  // it may wrap around
    return rising(a, [](double x) { return std::trunc(x); });
  }

  static ValueRange unary(UnaryOp op, const ValueRange& a) {
    switch (op) {
      case UnaryOp::Neg: return {-a.hi, -a.lo};
      case UnaryOp::Abs: return absolute(a);
      case UnaryOp::Exp: return rising(a, [](double x) { return std::exp(x); });
      case UnaryOp::Exp2: return rising(a, [](double x) { return std::exp2(x); });
      case UnaryOp::Expm1: return rising(a, [](double x) { return std::expm1(x); });
      case UnaryOp::Log: return rising(within(a, 0, kInf), [](double x) { return std::log(x); });
      case UnaryOp::Log2: return rising(within(a, 0, kInf), [](double x) { return std::log2(x); });
      case UnaryOp::Log10:
        return rising(within(a, 0, kInf), [](double x) { return std::log10(x); });
      case UnaryOp::Log1p:
        return rising(within(a, -1, kInf), [](double x) { return std::log1p(x); });
      case UnaryOp::Sqrt: return rising(within(a, 0, kInf), [](double x) { return std::sqrt(x); });
      case UnaryOp::Rsqrt: {
        const ValueRange root = rising(within(a, 0, kInf), [](double x) { return std::sqrt(x); });
        return reciprocal(root);
      }
      case UnaryOp::Tanh: return rising(a, [](double x) { return std::tanh(x); });
      case UnaryOp::Erf: return rising(a, [](double x) { return std::erf(x); });
      case UnaryOp::Atan: return rising(a, [](double x) { return std::atan(x); });
      case UnaryOp::Sinh: return rising(a, [](double x) { return std::sinh(x); });
      case UnaryOp::Cosh: return rising(absolute(a), [](double x) { return std::cosh(x); });
      case UnaryOp::Floor: return rising(a, [](double x) { return std::floor(x); });
      case UnaryOp::Ceil: return rising(a, [](double x) { return std::ceil(x); });
      case UnaryOp::Round: return rising(a, [](double x) { return std::nearbyint(x); });
      case UnaryOp::Trunc: return rising(a, [](double x) { return std::trunc(x); });
      case UnaryOp::RoundTf32: return rising(a, rounded_to_tf32);
      case UnaryOp::Sin:
      case UnaryOp::Cos: return {-1, 1};
      case UnaryOp::Asin: return {-1.6, 1.6};
      case UnaryOp::Acos: return {0, 3.2};
      default: return {};
    }
  }

  ValueRange binary(const Binary& b) {
    const ValueRange x = follow(b.a), y = follow(b.b);
    switch (b.op) {
      case BinaryOp::Add: return {x.lo + y.lo, x.hi + y.hi};
      case BinaryOp::Sub: return {x.lo - y.hi, x.hi - y.lo};
      case BinaryOp::Mul: return equal(b.a, b.b) ? square(x) : product(x, y);
      case BinaryOp::Div: return product(x, reciprocal(y));
      case BinaryOp::Min: return {std::min(x.lo, y.lo), std::min(x.hi, y.hi)};
      case BinaryOp::Max: return {std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
      case BinaryOp::Pow: {
        if (is_const(b.b, 2)) return square(x);
        if (x.lo < 0) return {};
        return hull_of({std::pow(x.lo, y.lo), std::pow(x.lo, y.hi), std::pow(x.hi, y.lo),
                        std::pow(x.hi, y.hi)});
      }
      case BinaryOp::Atan2: return {-3.2, 3.2};
      case BinaryOp::Mod:
      case BinaryOp::FloorMod:
        if (x.lo >= 0 && y.lo > 0) return {0, std::min(x.hi, y.hi)};
        return {};
      default: return {};
    }
  }

  // An arm that the condition compares with a number is bounded by that number.
  ValueRange select_of(const Select& s) {
    ValueRange t = follow(s.on_true), f = follow(s.on_false);
    const auto* c = s.condition.as<Binary>();
    if (c && (c->op == BinaryOp::Lt || c->op == BinaryOp::Le)) {
      const ValueRange a = follow(c->a), b = follow(c->b);
      if (equal(c->b, s.on_true)) t.lo = std::max(t.lo, a.lo);
      if (equal(c->a, s.on_true)) t.hi = std::min(t.hi, b.hi);
      if (equal(c->b, s.on_false)) f.hi = std::min(f.hi, a.hi);
      if (equal(c->a, s.on_false)) f.lo = std::max(f.lo, b.lo);
    }
    if (!(t.lo <= t.hi)) return f;
    if (!(f.lo <= f.hi)) return t;
    return hull(t, f);
  }

  ValueRange reduce_of(const Reduce& r) {
    const ValueRange a = follow(r.sources[static_cast<size_t>(r.index)]);
    double n = 1;
    for (const Axis& axis : r.axes) n *= static_cast<double>(axis.largest_extent());
    switch (r.combiner->kind) {
      case ReduceKind::Sum: return sum_of(a, n);
      case ReduceKind::Min:
      case ReduceKind::Max: return a;
      case ReduceKind::Any:
      case ReduceKind::All: return {0, 1};
      case ReduceKind::Prod:
        if (a.lo < 0) return {};
        return {std::pow(a.lo, n), std::pow(a.hi, n)};
      case ReduceKind::Custom: break;
    }
    return {};
  }

  const Known& tensors_;
  const Operation& op_;
  std::unordered_map<const ExprNode*, ValueRange> known_;
};

}  // namespace

ValueRange hull(const ValueRange& a, const ValueRange& b) {
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

ValueRange random_range(DataType t) {
  if (t.is_float()) return {-1, 1};
  if (t.is_bool()) return {0, 1};
  return {t.is_uint() ? 0.0 : -8.0, 8};
}

ValueRanges::ValueRanges(const ComputeDag& dag) {
  for (int i = 0; i < dag.size(); ++i) {
    const Operation& op = dag.stage(i);
    RangeOf range(known_, op);
    for (int o = 0; o < op.num_outputs(); ++o) {
      const Buffer& out = op.output_buffer(o);
      const ValueRange r = op.is_placeholder() ? random_range(op.output(o).dtype())
                                               : range.follow(op.bodies()[static_cast<size_t>(o)]);
      known_.emplace(out.get(), r);
    }
  }
}

ValueRange ValueRanges::of(const Tensor& t) const { return known_.at(t.buffer().get()); }

}  // namespace heddle::dag
