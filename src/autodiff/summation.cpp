#include "autodiff/summation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "autodiff/derivative.h"
#include "ir/conjuncts.h"
#include "ir/fold.h"
#include "ir/linear.h"
#include "ir/sizes.h"

namespace heddle::autodiff {
namespace {

Expr all_of(const std::vector<Expr>& conditions) {
  Expr all;
  for (const Expr& c : conditions) all = both_of(all, c);
  return all;
}

/// The value inside of selects whose other arm is 0; their conditions are added to `conditions`.
Expr without_conditions(Expr value, std::vector<Expr>* conditions) {
  while (const Select* s = value.as<Select>()) {
    if (is_const(s->on_false, 0))
      add_conjuncts(s->condition, *conditions);
    else if (is_const(s->on_true, 0))
      conditions->push_back(!s->condition);
    else
      break;
    value = is_const(s->on_false, 0) ? s->on_true : s->on_false;
  }
  return value;
}

}  // namespace

Interval allowed_values(const Expr& condition, const Var& v) {
  const Binary* op = condition.as<Binary>();
  const bool negated = condition.as<Unary>() && condition.as<Unary>()->op == UnaryOp::Not;
  if (negated) op = condition.as<Unary>()->a.as<Binary>();
  if (!op || op->a.dtype() != i64) return {};
  const bool less = op->op == BinaryOp::Lt, at_most = op->op == BinaryOp::Le;
  if (!less && !at_most) return {};
  // f >= 0
  const Expr f = negated ? op->a - op->b - (at_most ? 1 : 0) : op->b - op->a - (less ? 1 : 0);
  const std::optional<Affine> affine = as_affine(simplify(f));
  if (!affine || affine->terms.size() != 1 || !affine->terms[0].var.same_as(v)) return {};
  const int64_t a = affine->terms[0].coefficient, c = affine->constant;
  if (a > 0) return {-floor_div(c, a), Interval::kPosInf};
  return {Interval::kNegInf, floor_div(c, -a)};
}

Expr guarded(const std::vector<Expr>& conditions, const Expr& value) {
  std::vector<Expr> plain, of_data;
  for (const Expr& c : conditions) (has_load(c) ? of_data : plain).push_back(c);
  Expr result = value;
  for (const std::vector<Expr>* list : {&of_data, &plain})
    if (!list->empty()) result = select(all_of(*list), result, make_const(value.dtype(), 0));
  return result;
}

Summation::Summation(Inverse inverted, const Expr& summand) : inverse(std::move(inverted)) {
  value = without_conditions(summand, &conditions);
  value = substitute(value, inverse.points);
  for (Expr& c : conditions) c = substitute(c, inverse.points);
  conditions.insert(conditions.end(), inverse.conditions.begin(), inverse.conditions.end());
  for (const Position& p : inverse.positions) set_range(p.var, p.extent);
  for (const Loop& l : inverse.loops) set_range(l.var, l.extent);
}

void Summation::set_range(const Var& v, const Expr& extent) {
  ranges.set(v, {0, largest_extent(extent) - 1});
}

void Summation::substitute_all(const std::vector<VarBinding>& by) {
  value = substitute(value, by);
  for (Expr& c : conditions) c = substitute(c, by);
  for (std::vector<Bound>* list : {&inverse.bounds, &inverse.elements})
    for (Bound& b : *list) b.value = substitute(b.value, by);
}

void Summation::fix(const Var& v, int64_t at) {
  const auto is_v = [&](const auto& x) { return x.var.same_as(v); };
  std::erase_if(inverse.positions, is_v);
  std::erase_if(inverse.loops, is_v);
  substitute_all({{v, Expr(at)}});
}

void Summation::keep_elements() {
  for (Position& p : inverse.positions) {
    const int64_t* extent = as_int(p.extent);
    if (!p.place_in_phase.defined() || !extent) continue;
    Interval r{0, *extent - 1};
    for (const Bound& b : inverse.elements) {
      for (const Expr& c : {Expr(0) <= b.value, b.value < b.extent}) {
        const Interval a = allowed_values(c, p.var);
        r = {std::max(r.min, a.min), std::min(r.max, a.max)};
      }
    }
    if (r.min > r.max) continue;
    const Var old = p.var, v(old->name);
    p = {v, Expr(r.max - r.min + 1), p.place_in_phase, false, {}};
    set_range(v, p.extent);
    substitute_all({{old, Expr(v) + r.min}});
  }
}

int64_t Summation::points() const {
  int64_t count = 1;
  for (const Loop& l : inverse.loops) {
    const int64_t* extent = as_int(l.extent);
    if (!extent) return -1;
    count *= *extent;
  }
  return count;
}

bool Summation::narrow() {
  bool changed = true;
  while (changed) {
    changed = false;
    if (!keep_open()) return false;
    for (size_t i = 0; i < inverse.loops.size() && !changed; ++i) changed = cut(i);
  }
  return true;
}

/// Whether the value is a position or a loop of that extent, which may be symbolic.
bool Summation::ranges_over(const Bound& b) const {
  const auto same = [&](const auto& x) {
    return x.var.get() == b.value.get() && equal(x.extent, b.extent);
  };
  return std::ranges::any_of(inverse.positions, same) || std::ranges::any_of(inverse.loops, same);
}

/// Drops conditions that always hold; false where one never does.
bool Summation::keep_open() {
  std::vector<Expr> open;
  for (const Expr& c : conditions) {
    const Expr simple = simplify(c, ranges);
    if (is_const(simple, 0)) return false;
    if (!is_const(simple, 1)) add_conjuncts(simple, open);
  }
  conditions = std::move(open);
  std::vector<Bound> bounds;
  for (Bound& b : inverse.bounds) {
    b.value = simplify(b.value, ranges);
    if (ranges_over(b)) continue;
    const Expr holds = simplify(logical_and(b.value >= 0, b.value < b.extent), ranges);
    if (is_const(holds, 0)) return false;
    if (!is_const(holds, 1)) bounds.push_back(b);
  }
  inverse.bounds = std::move(bounds);
  return true;
}

/// Cuts loop `i` to the values that conditions allow; true where that changed anything.
bool Summation::cut(size_t i) {
  Loop& loop = inverse.loops[i];
  const int64_t* extent = as_int(loop.extent);
  if (!extent) return false;
  Interval r{0, *extent - 1};
  const auto meet = [&](const Expr& c) {
    const Interval a = allowed_values(c, loop.var);
    r = {std::max(r.min, a.min), std::min(r.max, a.max)};
  };
  for (const Expr& c : conditions) meet(c);
  for (const Bound& b : inverse.bounds) {
    meet(Expr(0) <= b.value);
    meet(b.value < b.extent);
  }
  if (r.min == 0 && r.max == *extent - 1 && *extent != 1) return false;
  if (r.min > r.max) {
    conditions.emplace_back(false);
    inverse.loops.erase(inverse.loops.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  const Var old = loop.var;
  if (r.min == r.max) {
    inverse.loops.erase(inverse.loops.begin() + static_cast<std::ptrdiff_t>(i));
    substitute_all({{old, Expr(r.min)}});
    return true;
  }
  const Var v(old->name);
  loop = {v, Expr(r.max - r.min + 1)};
  set_range(v, loop.extent);
  substitute_all({{old, Expr(v) + r.min}});
  return true;
}

std::vector<Expr> Summation::open_conditions() const {
  std::vector<Expr> all = conditions;
  for (const Bound& b : inverse.bounds) {
    if (!prove(b.value >= 0, ranges)) all.push_back(b.value >= 0);
    if (!prove(b.value < b.extent, ranges)) all.push_back(b.value < b.extent);
  }
  return all;
}

Expr Summation::guarded_value() const { return guarded(open_conditions(), value); }

}  // namespace heddle::autodiff
