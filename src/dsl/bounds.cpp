// Checks that all reads are inside their tensors, by intervals of the axes, narrowed by the
// conditions of the selects around a read, and that no integer is divided by what is always 0.
//
// `range_of` bounds an index from the ranges of single variables. That loses what a condition says
// about a combination, such as `y * 2 + r - 1 >= 0`, which is how padding is written. So conditions
// are kept as facts `f >= 0`, and an index e is bounded through e = f + (e - f) as well.
#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dsl/validate.h"
#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/function_ref.h"
#include "ir/sizes.h"

namespace heddle {
namespace {

constexpr int64_t kNeg = Interval::kNegInf, kPos = Interval::kPosInf;

int64_t add(int64_t a, int64_t b) {
  int64_t r = 0;
  if (a == kNeg || b == kNeg) return kNeg;
  if (a == kPos || b == kPos) return kPos;
  return __builtin_add_overflow(a, b, &r) ? (a < 0 ? kNeg : kPos) : r;
}
int64_t multiply(int64_t a, int64_t c) {
  int64_t r = 0;
  if (c == 0) return 0;
  if (a == kNeg || a == kPos) return (a == kPos) == (c > 0) ? kPos : kNeg;
  return __builtin_mul_overflow(a, c, &r) ? ((a > 0) == (c > 0) ? kPos : kNeg) : r;
}
int64_t floor_divide(int64_t a, int64_t c) {  // c > 0
  if (a == kNeg || a == kPos) return a;
  return a >= 0 ? a / c : -((-a + c - 1) / c);
}
Interval intersect(Interval a, Interval b) {
  return {std::max(a.min, b.min), std::min(a.max, b.max)};
}
bool empty(Interval r) { return r.min > r.max; }

/// The shared nodes that were checked in this context or in the contexts around it.
struct Checked {
  std::shared_ptr<const Checked> outer;
  mutable std::unordered_set<const ExprNode*> nodes;
  bool has(const ExprNode* n) const { return nodes.contains(n) || (outer && outer->has(n)); }
};

/// The facts that hold where an expression is evaluated.
struct Context {
  Ranges ranges;
  std::vector<Expr> facts;  ///< each of them is >= 0
  bool reachable = true;
  /// The nodes whose reads were checked under these facts or fewer.
  std::shared_ptr<const Checked> checked = std::make_shared<Checked>();

  /// The axes whose extents are symbolic, with their extents.
  std::vector<VarBinding> symbolic;

  void assume(const Expr& condition, bool holds);
  Interval bound(const Expr& e) const;
  /// A lower bound of `e` that holds at every size.
  int64_t least(const Expr& e) const;
  /// Whether `e` is between 0 and `last` at every size.
  bool at_least_0(const Expr& e) const;
  bool at_most(const Expr& e, const Expr& last) const;

 private:
  void add_fact(const Expr& f);
  /// `e` with a variable of the same range in place of each quotient and remainder whose value does
  /// not depend on the sizes, so that the rest is affine. Adds the ranges of these variables.
  Expr with_named_parts(const Expr& e);
  std::optional<Interval> from_parts(const Expr& e) const;
  std::optional<Var> factor_of_a_size(const Expr& e) const;
  std::optional<int64_t> least_at_ends(const Expr& e) const;
};

/// Whether `e` is a sum of a multiple of `x` and of what does not depend on `x`.
bool is_linear_in(const Expr& e, const Var& x) {
  if (e.as<VarNode>() || !uses_var(e, x)) return true;
  const Binary* op = e.as<Binary>();
  if (!op) return false;
  if (op->op == BinaryOp::Add || op->op == BinaryOp::Sub)
    return is_linear_in(op->a, x) && is_linear_in(op->b, x);
  return op->op == BinaryOp::Mul && (!uses_var(op->a, x) || !uses_var(op->b, x)) &&
         is_linear_in(op->a, x) && is_linear_in(op->b, x);
}

void Context::add_fact(const Expr& raw) {
  const Expr f = simplify(raw, ranges);
  if (const int64_t* v = as_int(f)) {
    if (*v < 0) reachable = false;
    return;
  }
  facts.push_back(f);
  const std::optional<Affine> affine = as_affine(f);
  if (!affine) return;
  // c * v >= -(constant + the maximum of the other terms)
  for (const Affine::Term& term : affine->terms) {
    int64_t most = affine->constant;
    for (const Affine::Term& other : affine->terms) {
      if (other.var.same_as(term.var)) continue;
      const Interval r = ranges.get(other.var.get());
      most = add(most, multiply(other.coefficient > 0 ? r.max : r.min, other.coefficient));
    }
    if (most == kPos || most == kNeg) continue;
    Interval r = ranges.get(term.var.get());
    if (term.coefficient > 0)
      r.min = std::max(r.min, -floor_divide(most, term.coefficient));
    else
      r.max = std::min(r.max, floor_divide(most, -term.coefficient));
    if (empty(r)) {
      reachable = false;
      return;
    }
    ranges.set(term.var, r);
  }
}

void Context::assume(const Expr& condition, bool holds) {
  if (const Unary* u = condition.as<Unary>(); u && u->op == UnaryOp::Not)
    return assume(u->a, !holds);
  const Binary* b = condition.as<Binary>();
  if (!b) return;
  if (b->op == (holds ? BinaryOp::And : BinaryOp::Or)) {
    assume(b->a, holds);
    assume(b->b, holds);
    return;
  }
  // Only types in which the differences below cannot wrap are used. Indices are i64.
  if (b->a.dtype() != i64) return;
  if (b->op == BinaryOp::Lt) return add_fact(holds ? b->b - b->a - 1 : b->a - b->b);
  if (b->op == BinaryOp::Le) return add_fact(holds ? b->b - b->a : b->a - b->b - 1);
  if (b->op == (holds ? BinaryOp::Eq : BinaryOp::Ne)) {
    add_fact(b->b - b->a);
    add_fact(b->a - b->b);
  }
}

Interval Context::bound(const Expr& e) const {
  Interval r = range_of(e, ranges);
  if (r.is_point()) return r;
  r = intersect(r, range_of(simplify(e, ranges), ranges));
  for (const Expr& f : facts) {
    // e = f + (e - f) with f >= 0, and e = -f + (e + f)
    r.min = std::max(r.min, range_of(simplify(e - f, ranges), ranges).min);
    r.max = std::min(r.max, range_of(simplify(e + f, ranges), ranges).max);
  }
  if (const std::optional<Interval> parts = from_parts(e)) r = intersect(r, *parts);
  return r;
}

int64_t Context::least(const Expr& e) const {
  const int64_t plain = bound(e).min;
  if (plain >= 0) return plain;
  // An affine form is smallest where each axis is at one of its ends, which are 0 and the symbolic
  // extent less one. At these points terms of the sizes cancel.
  Context named = *this;
  const Expr simple = named.with_named_parts(simplify(e, ranges));
  const std::optional<Affine> affine = as_affine(simple);
  if (!affine) return std::max(plain, named.least_at_ends(simple).value_or(plain));
  std::vector<VarBinding> ends;
  for (const VarBinding& axis : symbolic)
    ends.push_back({axis.var, affine->coefficient(axis.var) < 0 ? axis.value - 1 : Expr(0)});
  return std::max(plain, named.bound(substitute(simple, ends)).min);
}

/// A variable of a known range that is multiplied with a size somewhere in `e`, such as the row of a
/// flat index, where `e` is linear in it.
std::optional<Var> Context::factor_of_a_size(const Expr& e) const {
  std::optional<Var> found;
  any_below(e, [&](const Expr& x) {
    const Binary* product = x.as<Binary>();
    if (!product || product->op != BinaryOp::Mul || as_int(product->a) || as_int(product->b))
      return false;
    return any_below(x, [&](const Expr& leaf) {
      const VarNode* v = leaf.as<VarNode>();
      if (!v || v->size) return false;
      const Interval r = ranges.get(v);
      if (r.min == kNeg || r.max == kPos || !is_linear_in(e, Var::from(leaf))) return false;
      found = Var::from(leaf);
      return true;
    });
  });
  return found;
}

/// The least value of what is linear in such a variable is at one of the two ends of its range.
std::optional<int64_t> Context::least_at_ends(const Expr& e) const {
  const std::optional<Var> x = factor_of_a_size(e);
  if (!x) return std::nullopt;
  const auto at = [&](const Expr& end) { return least(substitute(e, {{*x, end}})); };
  for (const VarBinding& axis : symbolic)
    if (axis.var.same_as(*x)) return std::min(at(0), at(axis.value - 1));
  const Interval r = ranges.get(x->get());
  return r.is_point() ? at(r.min) : std::min(at(r.min), at(r.max));
}

Expr Context::with_named_parts(const Expr& e) {
  std::vector<std::pair<Expr, Var>> parts;
  const auto depends_on_sizes = [&](const Expr& x) {
    const VarNode* v = x.as<VarNode>();
    return v && (v->size || std::any_of(symbolic.begin(), symbolic.end(),
                                        [&](const VarBinding& a) { return a.var.get() == v; }));
  };
  const auto name = [&](const auto& self, const Expr& x) -> Expr {
    const Binary* op = x.as<Binary>();
    if (!op || x.dtype() != i64) return x;
    if (op->op != BinaryOp::FloorDiv && op->op != BinaryOp::FloorMod)
      return map_children(x, [&](const Expr& child) { return self(self, child); });
    for (const auto& [part, var] : parts) {
      if (equal(part, x)) return var;
    }
    const Interval r = bound(x);
    if (r.min == kNeg || r.max == kPos || any_below(x, depends_on_sizes)) return x;
    parts.emplace_back(x, Var("part"));
    ranges.set(parts.back().second, r);
    return parts.back().second;
  };
  return name(name, e);
}

/// Whether `holds` is true in both arms of a select, under the condition of each.
bool in_both_arms(const Context& around, const Select& s,
                  FunctionRef<bool(const Context&, const Expr&)> holds) {
  Context yes = around, no = around;
  yes.assume(s.condition, true);
  no.assume(s.condition, false);
  return (!yes.reachable || holds(yes, s.on_true)) && (!no.reachable || holds(no, s.on_false));
}

bool Context::at_least_0(const Expr& e) const {
  // The simplifier compares a quotient with a sum by multiplying both sides.
  if (least(e) >= 0 || prove(e >= 0, ranges)) return true;
  if (const Select* s = e.as<Select>())
    return in_both_arms(*this, *s, [](const Context& c, const Expr& x) { return c.at_least_0(x); });
  const Binary* op = e.as<Binary>();
  if (!op || e.dtype() != i64) return false;
  switch (op->op) {
    case BinaryOp::Max: return at_least_0(op->a) || at_least_0(op->b);
    case BinaryOp::Min: return at_least_0(op->a) && at_least_0(op->b);
    case BinaryOp::FloorMod: return least(op->b) >= 1;
    case BinaryOp::FloorDiv: return least(op->b) >= 1 && at_least_0(op->a);
    default: return false;
  }
}

bool Context::at_most(const Expr& e, const Expr& last) const {
  if (least(last - e) >= 0 || prove(e <= last, ranges)) return true;
  if (const Select* s = e.as<Select>())
    return in_both_arms(*this, *s,
                        [&](const Context& c, const Expr& x) { return c.at_most(x, last); });
  const Binary* op = e.as<Binary>();
  if (!op || e.dtype() != i64) return false;
  switch (op->op) {
    case BinaryOp::Max: return at_most(op->a, last) && at_most(op->b, last);
    case BinaryOp::Min: return at_most(op->a, last) || at_most(op->b, last);
    case BinaryOp::FloorMod: return least(op->b) >= 1 && least(last - op->b + 1) >= 0;
    case BinaryOp::FloorDiv: return least(op->b) >= 1 && at_most(op->a, last * op->b + op->b - 1);
    default: return false;
  }
}

/// The interval from the bounds of the operands. Facts may narrow the operands where they do not
/// narrow the whole.
std::optional<Interval> Context::from_parts(const Expr& e) const {
  if (facts.empty()) {
    // The result is that of range_of, except where a select inside the index adds facts.
    if (!any_below(e, [](const Expr& x) { return x.kind() == ExprKind::Select; }))
      return std::nullopt;
  }
  if (const Select* s = e.as<Select>()) {
    Context yes = *this, no = *this;
    yes.assume(s->condition, true);
    no.assume(s->condition, false);
    if (!yes.reachable) return no.bound(s->on_false);
    if (!no.reachable) return yes.bound(s->on_true);
    const Interval a = yes.bound(s->on_true), b = no.bound(s->on_false);
    return Interval{std::min(a.min, b.min), std::max(a.max, b.max)};
  }
  const Binary* op = e.as<Binary>();
  if (!op || e.dtype() != i64) return std::nullopt;
  const int64_t* c = as_int(op->b);
  switch (op->op) {
    case BinaryOp::Add: {
      const Interval a = bound(op->a), b = bound(op->b);
      return Interval{add(a.min, b.min), add(a.max, b.max)};
    }
    case BinaryOp::Sub: {
      const Interval a = bound(op->a), b = bound(op->b);
      return Interval{add(a.min, multiply(b.max, -1)), add(a.max, multiply(b.min, -1))};
    }
    case BinaryOp::Mul: {
      if (!c) return std::nullopt;
      const Interval a = bound(op->a);
      const int64_t x = multiply(a.min, *c), y = multiply(a.max, *c);
      return Interval{std::min(x, y), std::max(x, y)};
    }
    case BinaryOp::FloorDiv: {
      if (!c || *c <= 0) return std::nullopt;
      const Interval a = bound(op->a);
      return Interval{floor_divide(a.min, *c), floor_divide(a.max, *c)};
    }
    case BinaryOp::Min: {
      const Interval a = bound(op->a), b = bound(op->b);
      return Interval{std::min(a.min, b.min), std::min(a.max, b.max)};
    }
    case BinaryOp::Max: {
      const Interval a = bound(op->a), b = bound(op->b);
      return Interval{std::max(a.min, b.min), std::max(a.max, b.max)};
    }
    default: return std::nullopt;
  }
}

class BoundsChecker {
 public:
  BoundsChecker(const std::string& name, const Where& where, const Context& axes)
      : name_(name), where_(where), ranges_(axes.ranges), symbolic_(axes.symbolic) {}

  void check(const Expr& e, const Context& context) const {
    if (!context.reachable) return;
    // An expression is a graph. A node is checked once under the facts that hold around all its
    // readers, and again for each reader around which more is known.
    if (e->shared() && !SeenNodes::is_leaf(e)) {
      if (context.checked->has(e.get()) || (!context.facts.empty() && is_fine_alone(e))) return;
      context.checked->nodes.insert(e.get());
    }
    if (++visits_ > kMostVisits)
      throw_user_error(
          "'" + name_ + "' nests too many selects around unguarded reads to check them", where_,
          "guard each read where it is: select(condition, A(...), other)");
    check_node(e, context);
  }

  /// The same without an error: whether all is in bounds.
  bool holds(const Expr& e, const Context& context) const {
    report_ = false;
    check(e, context);
    return !failed_;
  }

 private:
  static constexpr int kMostVisits = 1000000;

  void check_node(const Expr& e, const Context& context) const {
    if (const Select* s = e.as<Select>()) {
      check(s->condition, context);
      check(s->on_true, inside(context, s->condition, true));
      check(s->on_false, inside(context, s->condition, false));
      return;
    }
    if (const Load* load = e.as<Load>()) check_read(*load, context);
    if (const Binary* op = e.as<Binary>()) check_divisor(*op, context);
    for_each_child(e, [&](const Expr& child) { check(child, context); });
  }

  /// Whether no read in `e` needs a guard around `e`.
  bool is_fine_alone(const Expr& e) const {
    if (const auto it = fine_alone_.find(e.get()); it != fine_alone_.end()) return it->second;
    Context nothing;
    nothing.ranges = ranges_;
    nothing.symbolic = symbolic_;
    const bool outer = std::exchange(failed_, false);
    const bool report = std::exchange(report_, false);
    // check() is not called, because it would call this function again.
    check_node(e, nothing);
    const bool fine = !failed_;
    failed_ = outer;
    report_ = report;
    fine_alone_.emplace(e.get(), fine);
    return fine;
  }

  /// The facts of `outer` together with `condition` or its negation.
  static Context inside(const Context& outer, const Expr& condition, bool holds) {
    Context arm = outer;
    arm.assume(condition, holds);
    // A condition on data gives no facts about indices.
    if (arm.facts.size() == outer.facts.size()) return arm;
    arm.checked = std::make_shared<Checked>(Checked{outer.checked, {}});
    return arm;
  }

  void check_read(const Load& load, const Context& context) const {
    for (size_t d = 0; d < load.indices.size(); ++d) {
      const Expr& index = load.indices[d];
      const Expr& shape = load.buffer->shape[d];
      if (!as_int(shape)) {
        check_symbolic_read(load, d, context);
        continue;
      }
      const int64_t extent = *as_int(shape);
      // The plain interval decides nearly every read at a fraction of the cost.
      Interval r = range_of(index, context.ranges);
      if (r.min >= 0 && r.max < extent) continue;
      r = context.bound(index);
      if (empty(r) || (r.min >= 0 && r.max < extent)) continue;
      // Of an axis as long as a past and one element, the last element less the past is 0.
      if (context.at_least_0(index) && context.at_most(index, extent - 1)) continue;
      failed_ = true;
      if (report_) fail(load, d, index, r, extent);
    }
  }

  void check_divisor(const Binary& op, const Context& context) const {
    const bool divides = op.op == BinaryOp::Div || op.op == BinaryOp::Mod ||
                         op.op == BinaryOp::FloorDiv || op.op == BinaryOp::FloorMod;
    if (!divides || !op.dtype.is_integral()) return;
    const int64_t* known = as_int(op.b);
    if (known && *known != 0) return;
    if (!known && !is_const(simplify(op.b, context.ranges), 0)) return;
    failed_ = true;
    if (!report_) return;
    throw_user_error("'" + name_ + "' divides integers by '" + to_string(op.b) + "' (operator '" +
                         to_string(op.op) + "'), which is always 0",
                     where_, "divide by something else, or guard it: select(d != 0, x / d, other)");
  }

  /// A read of a dimension whose size varies must be in bounds for every size.
  void check_symbolic_read(const Load& load, size_t d, const Context& context) const {
    const Expr &index = load.indices[d], &extent = load.buffer->shape[d];
    const bool low = !context.at_least_0(index);
    if (!low && context.at_most(index, extent - 1)) return;
    failed_ = true;
    if (!report_) return;
    throw_user_error("'" + name_ + "' may read '" + load.buffer->name +
                         "' out of bounds: dimension " + std::to_string(d) + " has extent " +
                         size_text(extent) + ", and is indexed by '" + to_string(index) +
                         "', which is not proved to be " +
                         (low ? "at least 0" : "below the extent") + " for every size",
                     where_,
                     "change the shape, or guard the read: select(condition, " + load.buffer->name +
                         "(...), other)");
  }

  [[noreturn]] void fail(const Load& load, size_t d, const Expr& index, Interval r,
                         int64_t extent) const {
    const std::string read = "'" + name_ + "' reads '" + load.buffer->name + "' out of bounds: ";
    const std::string dimension = "dimension " + std::to_string(d) + " has extent " +
                                  std::to_string(extent) + " and is indexed by '" +
                                  to_string(index) + "'";
    if (any_below(index, [](const Expr& x) { return x.kind() == ExprKind::Load; }))
      throw_user_error("'" + name_ + "' may read '" + load.buffer->name +
                           "' out of bounds: " + dimension + ", which depends on data",
                       where_, "clamp it: max(0, min(" + std::to_string(extent - 1) + ", index))");
    const auto side = [](int64_t v) {
      return v == kNeg ? std::string("-inf") : v == kPos ? std::string("inf") : std::to_string(v);
    };
    throw_user_error(
        read + dimension + ", which ranges over [" + side(r.min) + ", " + side(r.max) + "]", where_,
        "change the shape, or guard the read: select(condition, " + load.buffer->name +
            "(...), other)");
  }

  const std::string name_;
  const Where where_;
  const Ranges& ranges_;  ///< ranges of the axes
  const std::vector<VarBinding>& symbolic_;
  mutable int visits_ = 0;
  mutable bool report_ = true, failed_ = false;
  mutable std::unordered_map<const ExprNode*, bool> fine_alone_;
};

}  // namespace

bool reads_in_bounds(const std::vector<VarBinding>& extents, const Expr& e) {
  Context context;
  for (const VarBinding& x : extents) {
    context.ranges.set(x.var, {0, largest_extent(x.value) - 1});
    if (!as_int(x.value)) context.symbolic.push_back(x);
  }
  return BoundsChecker("", {}, context).holds(e, context);
}

void check_bounds(const std::string& name, const std::vector<Axis>& axes,
                  const std::vector<Axis>& reduce_axes, const std::vector<Expr>& bodies,
                  const Where& where) {
  Context context;
  for (const std::vector<Axis>* group : {&axes, &reduce_axes})
    for (const Axis& axis : *group) {
      context.ranges.set(axis.var(), {0, axis.largest_extent() - 1});
      if (!as_int(axis->extent)) context.symbolic.push_back({axis.var(), axis->extent});
    }
  const BoundsChecker checker(name, where, context);
  for (const Expr& body : bodies) {
    checker.check(body, context);
    // The components of a tuple reduction share all their sources.
    if (body.kind() == ExprKind::Reduce) break;
  }
}

}  // namespace heddle
