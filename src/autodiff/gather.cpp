#include "autodiff/gather.h"
#include "autodiff/derivative.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "autodiff/inverse.h"
#include "autodiff/pad_factors.h"
#include "autodiff/proved_reads.h"
#include "heddle/ir/simplify.h"
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

/// `value` where the conditions hold, else 0. Those on data are tested where the others hold, because
/// they may read out of bounds elsewhere.
Expr guarded(const std::vector<Expr>& conditions, const Expr& value) {
  std::vector<Expr> plain, of_data;
  for (const Expr& c : conditions) (has_load(c) ? of_data : plain).push_back(c);
  Expr result = value;
  for (const std::vector<Expr>* list : {&of_data, &plain})
    if (!list->empty()) result = select(all_of(*list), result, make_const(value.dtype(), 0));
  return result;
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

class Gather {
 public:
  Gather(const Source& from, const Load& read, const Expr& value)
      : from_(from), read_(read), inverse_(invert(read.buffer->shape, read.indices, from.axes)) {
    value_ = without_conditions(value, &conditions_);
    value_ = substitute(value_, inverse_.points);
    for (Expr& c : conditions_) c = substitute(c, inverse_.points);
    conditions_.insert(conditions_.end(), inverse_.conditions.begin(), inverse_.conditions.end());
  }

  Summand run() {
    for (const Position& p : inverse_.positions) set_range(p.var, p.extent);
    for (const Loop& l : inverse_.loops) set_range(l.var, l.extent);
    if (!narrow()) return {};
    if (inverse_.loops.empty()) return in_place();
    return summed();
  }

 private:
  void set_range(const Var& v, const Expr& extent) {
    ranges_.set(v, {0, largest_extent(extent) - 1});
  }

  void substitute_all(const std::vector<VarBinding>& by) {
    value_ = substitute(value_, by);
    for (Expr& c : conditions_) c = substitute(c, by);
    for (Bound& b : inverse_.bounds) b.value = substitute(b.value, by);
  }

  /// Drops what always holds, and cuts loops to what their conditions leave. False where nothing is
  /// left.
  bool narrow() {
    bool changed = true;
    while (changed) {
      changed = false;
      if (!keep_open()) return false;
      for (size_t i = 0; i < inverse_.loops.size() && !changed; ++i) changed = cut(i);
    }
    return true;
  }

  /// Whether the value is a position or a loop of that extent, which may be symbolic.
  bool ranges_over(const Bound& b) const {
    const auto same = [&](const auto& x) {
      return x.var.get() == b.value.get() && equal(x.extent, b.extent);
    };
    return std::ranges::any_of(inverse_.positions, same) ||
           std::ranges::any_of(inverse_.loops, same);
  }

  /// Drops conditions that always hold; false where one never does.
  bool keep_open() {
    std::vector<Expr> open;
    for (const Expr& c : conditions_) {
      const Expr simple = simplify(c, ranges_);
      if (is_const(simple, 0)) return false;
      if (!is_const(simple, 1)) add_conjuncts(simple, open);
    }
    conditions_ = std::move(open);
    std::vector<Bound> bounds;
    for (Bound& b : inverse_.bounds) {
      b.value = simplify(b.value, ranges_);
      if (ranges_over(b)) continue;
      const Expr holds = simplify(logical_and(b.value >= 0, b.value < b.extent), ranges_);
      if (is_const(holds, 0)) return false;
      if (!is_const(holds, 1)) bounds.push_back(b);
    }
    inverse_.bounds = std::move(bounds);
    return true;
  }

  /// The values of loop `v` for which `condition`, an order of affine forms of it alone, may hold.
  static Interval allowed(const Expr& condition, const Var& v) {
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

  /// Cuts loop `i` to the values that conditions allow; true where that changed anything.
  bool cut(size_t i) {
    Loop& loop = inverse_.loops[i];
    const int64_t* extent = as_int(loop.extent);
    if (!extent) return false;
    Interval r{0, *extent - 1};
    const auto meet = [&](const Expr& c) {
      const Interval a = allowed(c, loop.var);
      r = {std::max(r.min, a.min), std::min(r.max, a.max)};
    };
    for (const Expr& c : conditions_) meet(c);
    for (const Bound& b : inverse_.bounds) {
      meet(Expr(0) <= b.value);
      meet(b.value < b.extent);
    }
    if (r.min == 0 && r.max == *extent - 1 && *extent != 1) return false;
    if (r.min > r.max) {
      conditions_.emplace_back(false);
      inverse_.loops.erase(inverse_.loops.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    const Var old = loop.var;
    if (r.min == r.max) {
      inverse_.loops.erase(inverse_.loops.begin() + static_cast<std::ptrdiff_t>(i));
      substitute_all({{old, Expr(r.min)}});
      return true;
    }
    const Var v(old->name);
    loop = {v, Expr(r.max - r.min + 1)};
    set_range(v, loop.extent);
    substitute_all({{old, Expr(v) + r.min}});
    return true;
  }

  std::vector<Expr> conditions_and_bounds() const {
    std::vector<Expr> all = conditions_;
    for (const Bound& b : inverse_.bounds) {
      if (!prove(b.value >= 0, ranges_)) all.push_back(b.value >= 0);
      if (!prove(b.value < b.extent, ranges_)) all.push_back(b.value < b.extent);
    }
    return all;
  }

  /// `body`, in terms of the indices, as a function of them.
  Element element_of(const Expr& body) const {
    return [indices = inverse_.indices, body](const std::vector<Expr>& at) {
      std::vector<VarBinding> by;
      for (size_t d = 0; d < at.size(); ++d) by.push_back({indices[d], at[d]});
      return substitute(body, by);
    };
  }

  /// Each element is read at one point at most, so nothing is summed.
  Summand in_place() const {
    std::vector<VarBinding> places;
    for (const Position& p : inverse_.positions) places.push_back({p.var, p.place});
    std::vector<Expr> conditions = inverse_.exists;
    for (const Expr& c : conditions_and_bounds()) conditions.push_back(substitute(c, places));
    return {element_of(guarded(conditions, substitute(value_, places))), {}, {}};
  }

  Summand summed() {
    if (conditions_.empty()) {
      if (const std::optional<Expr> padded =
              pad_factors(value_, inverse_.bounds, ranges_, from_.where)) {
        value_ = *padded;
        inverse_.bounds.clear();
      }
    }
    put_short_positions_first();
    const Tensor stage = declare();
    if (!inverse_.split && inverse_.exists.empty())
      return {[stage](const std::vector<Expr>& at) { return stage.at(at); }, stage, stage};
    std::vector<Expr> place;
    for (const Position& p : inverse_.positions) place.push_back(p.place);
    return {element_of(guarded(inverse_.exists, stage.at(place))), {}, stage};
  }

  /// The last dimension of a sum is computed in vectors. Where it has a few values, such as the taps of
  /// a filter or the phases of a stride, and another has more, it becomes one of the first; what reads
  /// the sum puts it back.
  void put_short_positions_first() {
    constexpr int64_t kShort = 8;
    std::vector<Position>& all = inverse_.positions;
    const auto is_short = [](const Position& p) { return largest_extent(p.extent) < kShort; };
    if (all.empty() || !is_short(all.back()) || std::all_of(all.begin(), all.end(), is_short))
      return;
    std::stable_partition(all.begin(), all.end(), is_short);
    inverse_.split = true;
  }

  /// The sum at each position.
  Tensor declare() const {
    Shape shape;
    for (const Position& p : inverse_.positions) shape.push_back(p.extent);
    std::vector<VarBinding> extents;
    for (const Position& p : inverse_.positions) extents.push_back({p.var, p.extent});
    for (const Loop& l : inverse_.loops) extents.push_back({l.var, l.extent});
    const Expr value = with_proved_reads(extents, guarded(conditions_and_bounds(), value_));
    return compute(
        shape,
        [&](const std::vector<Axis>& i) {
          std::vector<VarBinding> by;
          for (size_t d = 0; d < i.size(); ++d)
            by.push_back({inverse_.positions[d].var, Expr(i[d])});
          std::vector<Axis> over;
          for (const Loop& l : inverse_.loops) {
            over.push_back(reduce_axis(l.extent, l.var->name, from_.where));
            by.push_back({l.var, Expr(over.back())});
          }
          return sum_converted(substitute(value, by), over);
        },
        from_.name, "gradient", from_.where);
  }

  /// The sum in the type of the read tensor. A value that was rounded to it is summed before it is
  /// rounded.
  Expr sum_converted(const Expr& value, const std::vector<Axis>& over) const {
    const DataType t = read_.dtype;
    const Cast* c = value.as<Cast>();
    if (c && t.is_small_float() && c->value.dtype() == f32)
      return cast(t, sum_in(f32, c->value, over));
    return sum(value, over);
  }

  const Source& from_;
  const Load& read_;
  Inverse inverse_;
  Expr value_;
  std::vector<Expr> conditions_;
  Ranges ranges_;
};

/// Whether `body` is a number, a read, or a conversion of one.
bool only_moves(const Expr& body) {
  if (is_const(body)) return true;
  const Cast* c = body.as<Cast>();
  return body.kind() == ExprKind::Load || (c && only_moves(c->value));
}

}  // namespace

Summand gather(const Source& from, const Load& read, const Expr& value) {
  return Gather(from, read, value).run();
}

Expr read_through(const Tensor& t, const std::vector<Expr>& indices) {
  const Operation& op = *t.op();
  if (op.is_placeholder() || op.is_reduction() || op.num_outputs() != 1 ||
      !only_moves(op.bodies()[0]))
    return t.at(indices);
  std::vector<VarBinding> by;
  for (size_t d = 0; d < indices.size(); ++d) by.push_back({op.axes()[d].var(), indices[d]});
  return substitute(op.bodies()[0], by);
}

}  // namespace heddle::autodiff
