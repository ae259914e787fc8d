#include "cost_model/index_form.h"

#include <algorithm>
#include <cmath>

namespace heddle::cost_model {

void IndexForm::add(const IndexForm& o, double scale) {
  constant += o.constant * scale;
  for (const Digit& d : o) add(Digit{d.depth, d.divisor, d.extent, d.stride * scale});
}

double IndexForm::least() const {
  double v = constant;
  for (const Digit& d : *this) v += std::min(0.0, d.stride * (d.extent - 1));
  return v;
}

double IndexForm::most() const {
  double v = constant;
  for (const Digit& d : *this) v += std::max(0.0, d.stride * (d.extent - 1));
  return v;
}

IndexForm Nest::form(const Expr& e) const {
  IndexForm out;
  put(&out, e, 1);
  return out;
}

void Nest::put(IndexForm* out, const Expr& e, double scale) const {
  switch (e.kind()) {
    case ExprKind::IntImm:
      out->constant += scale * static_cast<double>(e.as<IntImm>()->value);
      return;
    case ExprKind::Var: {
      for (size_t i = loops.size(); i-- > 0;) {
        if (loops[i].var == e.get()) {
          out->add({static_cast<int>(i), 1, loops[i].extent, scale});
          return;
        }
      }
      for (const auto& [var, value] : lets) {
        if (var == e.get()) return put(out, value, scale);
      }
      return;
    }
    case ExprKind::Cast: return put(out, e.as<Cast>()->value, scale);
    case ExprKind::Broadcast: return put(out, e.as<Broadcast>()->value, scale);
    case ExprKind::Ramp: {
      const Ramp* r = e.as<Ramp>();
      put(out, r->base, scale);
      const int64_t* step = as_int(r->stride);
      out->add({kLaneDepth, 1, static_cast<double>(e.dtype().lanes),
                scale * static_cast<double>(step ? *step : 1)});
      return;
    }
    case ExprKind::Select: return put(out, e.as<Select>()->on_true, scale);
    case ExprKind::Binary: break;
    default: return put_opaque(out, e, scale);
  }
  const Binary* b = e.as<Binary>();
  switch (b->op) {
    case BinaryOp::Add: put(out, b->a, scale); return put(out, b->b, scale);
    case BinaryOp::Sub: put(out, b->a, scale); return put(out, b->b, -scale);
    case BinaryOp::Mul:
      if (const int64_t* c = as_int(b->b)) return put(out, b->a, scale * static_cast<double>(*c));
      if (const int64_t* c = as_int(b->a)) return put(out, b->b, scale * static_cast<double>(*c));
      return put_opaque(out, e, scale);
    case BinaryOp::Div:
    case BinaryOp::FloorDiv:
    case BinaryOp::Mod:
    case BinaryOp::FloorMod: {
      const int64_t* c = as_int(b->b);
      if (!c || *c <= 0) return put_opaque(out, e, scale);
      bool quotient = b->op == BinaryOp::Div || b->op == BinaryOp::FloorDiv;
      IndexForm x = form(b->a);
      if (quotient) return put_divided(out, x, static_cast<double>(*c), scale);
      return put_remainder(out, x, static_cast<double>(*c), scale);
    }
    case BinaryOp::Min:
    case BinaryOp::Max: {
      // A minimum or maximum is taken to be a clamp. Its operand that varies determines the form.
      IndexForm x = form(b->a);
      return x.size > 0 ? out->add(x, scale) : put(out, b->b, scale);
    }
    default: return put_opaque(out, e, scale);
  }
}

void Nest::put_divided(IndexForm* out, const IndexForm& x, double by, double scale) const {
  out->constant += scale * std::floor(x.constant / by);
  for (const Digit& d : x) {
    double step = std::abs(d.stride), sign = d.stride < 0 ? -1 : 1;
    if (step >= by) {
      out->add({d.depth, d.divisor, d.extent, scale * d.stride / by});
    } else {
      out->add({d.depth, d.divisor * by / step, std::ceil(d.extent * step / by), scale * sign});
    }
  }
}

void Nest::put_remainder(IndexForm* out, const IndexForm& x, double by, double scale) const {
  for (const Digit& d : x) {
    double step = std::abs(d.stride);
    if (std::fmod(step, by) == 0) continue;
    out->add({d.depth, d.divisor, std::min(d.extent, std::ceil(by / step)), scale * d.stride});
  }
  // Within one period the constant shifts the remainder. Whole periods have no effect.
  out->constant += scale * (x.constant - by * std::floor(x.constant / by));
}

// An unknown function of its variables. Each value is assumed to touch a cache line of its own.
void Nest::put_opaque(IndexForm* out, const Expr& e, double scale) const {
  visit(e, [&](const Expr& x) {
    if (x.kind() != ExprKind::Var) return;
    for (size_t i = 0; i < loops.size(); ++i) {
      if (loops[i].var == x.get()) out->add({static_cast<int>(i), 1, loops[i].extent, scale});
    }
  });
  if (e.dtype().lanes > 1) {
    out->add({kLaneDepth, 1, static_cast<double>(e.dtype().lanes), scale * 64});
  }
}

namespace {

/// The value of an integer expression at the first, or at the last, iteration of every open loop.
double value_at(const Nest& nest, const Expr& e, bool last) {
  switch (e.kind()) {
    case ExprKind::IntImm: return static_cast<double>(e.as<IntImm>()->value);
    case ExprKind::Var: {
      for (const OpenLoop& l : nest.loops) {
        if (l.var == e.get()) return last ? std::max(0.0, l.most - 1) : 0;
      }
      for (const auto& [var, value] : nest.lets) {
        if (var == e.get()) return value_at(nest, value, last);
      }
      return 0;
    }
    case ExprKind::Cast: return value_at(nest, e.as<Cast>()->value, last);
    case ExprKind::Select: {
      const Select* s = e.as<Select>();
      return std::max(value_at(nest, s->on_true, last), value_at(nest, s->on_false, last));
    }
    case ExprKind::Binary: break;
    default: return 1;
  }
  const Binary* b = e.as<Binary>();
  double x = value_at(nest, b->a, last), y = value_at(nest, b->b, last);
  switch (b->op) {
    case BinaryOp::Add: return x + y;
    case BinaryOp::Sub: return x - y;
    case BinaryOp::Mul: return x * y;
    case BinaryOp::Div:
    case BinaryOp::FloorDiv: return y == 0 ? 0 : std::floor(x / y);
    case BinaryOp::Mod:
    case BinaryOp::FloorMod: return y == 0 ? 0 : x - y * std::floor(x / y);
    case BinaryOp::Min: return std::min(x, y);
    case BinaryOp::Max: return std::max(x, y);
    default: return 1;
  }
}

}  // namespace

std::pair<double, double> Nest::extent(const Expr& e) const {
  if (const int64_t* c = as_int(e)) {
    double n = std::max<double>(0, static_cast<double>(*c));
    return {n, n};
  }
  // In min(8, n - o*8), all blocks except the last have the same length.
  double first = std::max(0.0, value_at(*this, e, false));
  double last = std::max(0.0, value_at(*this, e, true));
  double blocks = 1;
  visit(e, [&](const Expr& x) {
    if (x.kind() != ExprKind::Var) return;
    for (const OpenLoop& l : loops) {
      if (l.var == x.get()) blocks = std::max(blocks, l.most);
    }
  });
  double mean = blocks > 1 ? (first * (blocks - 1) + last) / blocks : first;
  return {mean, std::max(first, last)};
}

double Nest::share(const Expr& condition, int* cut) const {
  *cut = -1;
  if (const int64_t* c = as_int(condition)) return *c != 0 ? 1 : 0;
  if (const Broadcast* v = condition.as<Broadcast>()) return share(v->value, cut);
  if (const Unary* u = condition.as<Unary>(); u && u->op == UnaryOp::Not) {
    return 1 - share(u->a, cut);
  }
  const Binary* b = condition.as<Binary>();
  if (!b) return 1;
  switch (b->op) {
    case BinaryOp::And: {
      int ignored = -1;
      return share(b->a, &ignored) * share(b->b, &ignored);
    }
    case BinaryOp::Or: {
      int ignored = -1;
      double x = share(b->a, &ignored), y = share(b->b, &ignored);
      return x + y - x * y;
    }
    case BinaryOp::Lt:
    case BinaryOp::Le:
    case BinaryOp::Eq:
    case BinaryOp::Ne: {
      if (!b->a.dtype().is_integral()) return 0.5;  // depends on data
      IndexForm x;
      put(&x, b->a, 1);
      put(&x, b->b, -1);
      if (b->op == BinaryOp::Lt || b->op == BinaryOp::Le)
        return share_below(x, b->op == BinaryOp::Le, cut);
      double least = x.least(), most = x.most();
      double equal = least > 0 || most < 0 ? 0 : 1 / (most - least + 1);
      return b->op == BinaryOp::Eq ? equal : 1 - equal;
    }
    default: return 1;
  }
}

double Nest::share_below(const IndexForm& x, bool or_equal, int* cut) const {
  double least = x.least(), most = x.most(), bound = or_equal ? 0 : -1;  // integers: x <= bound
  if (most <= bound) return 1;
  if (least > bound) return 0;
  if (x.size == 1) {
    const Digit& d = *x.begin();
    if (d.divisor == 1 && d.depth < kCopyDepth) *cut = d.depth;
    double steps = std::floor((bound - least) / std::abs(d.stride)) + 1;
    return std::clamp(steps / d.extent, 0.0, 1.0);
  }
  return std::clamp((bound - least + 1) / (most - least + 1), 0.0, 1.0);
}

}  // namespace heddle::cost_model
