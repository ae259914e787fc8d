#include "heddle/dag/attention.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "dag/map_loads.h"
#include "dag/patterns/look_through.h"
#include "ir/linear.h"
#include "ir/replace.h"
#include "ir/sizes.h"

namespace heddle {
namespace {

// The fewest keys for which attention is recognised. With fewer keys, conditions occur that
// fragments cannot express, and there is little to stream.
constexpr int64_t kFewestKeys = 3;

bool contains(const std::vector<int>& list, int x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// The source of a reduction that has one source and one axis.
const Reduce* reduction_of(const Operation& op, ReduceKind kind) {
  return dag::reduction_of(op, kind, 1);
}

bool is_half(DataType t) { return t == f16 || t == bf16; }

class Finder {
 public:
  Finder(const ComputeDag& dag, int stage, int row)
      : dag_(dag), op_(dag.stage(stage)), row_(row), look_(dag) {
    a_.weighted = stage;
  }

  std::optional<Attention> run() {
    if (!find_operands() || !find_exp() || !find_highest() || !find_products() || !find_axes() ||
        !find_total() || !find_fused())
      return {};
    find_reach(a_.score);
    if (most_keys() < kFewestKeys || (a_.rows == 1 && has_load(a_.score))) return {};
    return std::move(a_);
  }

 private:
  int stage_of(const Load& load) const { return look_.stage_of(load); }
  bool is_between(int s) const { return look_.is_between(s); }
  Expr expanded(const Expr& e) { return look_.expanded(e); }

  // The operand of a product, looking through stages that only change its indices. Null where there
  // is none.
  Expr operand(const Expr& e) {
    Expr x = dag::below_casts(e);
    for (int n = 0; n < dag::kMostStagesBetween; ++n) {
      const Load* load = x.as<Load>();
      if (!load) return {};
      const int s = stage_of(*load);
      if (!is_between(s)) return x;
      const Operation& op = dag_.stage(s);
      if (op.bodies()[0].kind() != ExprKind::Load) return x;
      look_.through.insert(s);
      x = dag::at_indices(op, op.bodies()[0], load->indices);
    }
    return {};
  }

  static bool has_exp(const Expr& e) {
    return any_below(e, [](const Expr& x) {
      const Unary* u = x.as<Unary>();
      return u && u->op == UnaryOp::Exp;
    });
  }

  bool uses(const Expr& e, const Axis& axis) const { return uses_var(e, axis.var()); }
  const Axis& key() const { return op_.reduce_axes()[0]; }

  bool find_operands() {
    const Reduce* r = reduction_of(op_, ReduceKind::Sum);
    const Binary* mul = r ? r->sources[0].as<Binary>() : nullptr;
    if (!mul || mul->op != BinaryOp::Mul || mul->dtype != f32) return false;
    for (const auto& [w, v] : {std::pair{mul->a, mul->b}, std::pair{mul->b, mul->a}}) {
      look_.through.clear();
      const Expr value = operand(v);
      if (!value.defined() || !is_half(value.dtype())) continue;
      const Expr weight = expanded(w);
      if (!has_exp(weight)) continue;
      a_.value = value;
      a_.type = value.dtype();
      return take_weight(weight);
    }
    return false;
  }

  // Matches cast(exp(..) [* factor]), rounded to the type of the values.
  bool take_weight(const Expr& weight) {
    Expr e = weight;
    bool rounded = false;
    while (const Cast* c = e.as<Cast>()) {
      rounded |= e.dtype() == a_.type;
      e = c->value;
      if (e.dtype() != f32 && e.dtype() != a_.type) return false;
    }
    if (!rounded) return false;
    const Binary* b = e.as<Binary>();
    if (b && b->op == BinaryOp::Mul && (has_exp(b->a) != has_exp(b->b))) {
      power_ = has_exp(b->a) ? b->a : b->b;
      a_.factor = has_exp(b->a) ? b->b : b->a;
    } else if (b && b->op == BinaryOp::Div && has_exp(b->a)) {
      power_ = b->a;
      a_.factor = make_const(f32, 1) / b->b;
    } else {
      power_ = e;
    }
    return !a_.factor.defined() || (a_.factor.dtype() == f32 && !uses(a_.factor, key()));
  }

  // Matches power_ = exp(score - highest).
  bool find_exp() {
    const Unary* exp = power_.as<Unary>();
    const Binary* sub = exp && exp->op == UnaryOp::Exp ? exp->a.as<Binary>() : nullptr;
    if (!sub || sub->op != BinaryOp::Sub || sub->dtype != f32) return false;
    const Load* load = sub->b.as<Load>();
    if (!load || uses(sub->b, key())) return false;
    score_ = sub->a;
    a_.highest = stage_of(*load);
    highest_at_ = load->indices;
    return a_.highest >= 0;
  }

  // The axes of reduction `s` in terms of the indices at which it is read. Its reduce axis is the
  // key.
  std::optional<std::vector<VarBinding>> as_read(int s, const std::vector<Expr>& indices) const {
    const Operation& op = dag_.stage(s);
    if (!equal(op.reduce_axes()[0]->extent, key()->extent)) return {};
    std::vector<VarBinding> bind{{op.reduce_axes()[0].var(), key().var().expr()}};
    for (size_t d = 0; d < indices.size(); ++d) bind.push_back({op.axes()[d].var(), indices[d]});
    return bind;
  }

  bool find_highest() {
    const Operation& op = dag_.stage(a_.highest);
    const Reduce* r = reduction_of(op, ReduceKind::Max);
    const auto bind = r ? as_read(a_.highest, highest_at_) : std::nullopt;
    return bind && equal(substitute(expanded(r->sources[0]), *bind), score_);
  }

  // Finds the one reduction that scores are computed from.
  bool find_products() {
    const Load* found = nullptr;
    Expr product;
    bool other = false;
    visit(score_, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      const int s = load ? stage_of(*load) : -1;
      if (s < 0 || !uses(e, key()) || !reduction_of(dag_.stage(s), ReduceKind::Sum)) return;
      other |= found && !equal(product, e);
      found = load;
      product = e;
    });
    if (!found || other) return false;
    a_.products = stage_of(*found);
    const Operation& op = dag_.stage(a_.products);
    const Binary* mul = op.bodies()[0].as<Reduce>()->sources[0].as<Binary>();
    if (!mul || mul->op != BinaryOp::Mul || mul->dtype != f32) return false;
    a_.depth_var = Var("depth");
    a_.product = Var("product", f32);
    a_.sum = Var("total", f32);
    a_.depth = largest_extent(op.reduce_axes()[0]->extent);
    if (is_symbolic(op.reduce_axes()[0]->extent)) return false;
    const auto here = [&](const Expr& e) {
      return substitute(dag::at_indices(op, e, found->indices),
                        {{op.reduce_axes()[0].var(), a_.depth_var.expr()}});
    };
    Expr x = operand(mul->a), y = operand(mul->b);
    if (!x.defined() || !y.defined() || x.dtype() != a_.type || y.dtype() != a_.type) return false;
    x = here(x);
    y = here(y);
    if (uses(x, key())) std::swap(x, y);
    a_.query = x;
    a_.key = y;
    a_.score = replace_equal(score_, product, a_.product.expr());
    return !uses(a_.query, key()) && uses(a_.key, key());
  }

  static int64_t most(const Axis& a) { return largest_extent(a->extent); }

  bool find_axes() {
    const auto& axes = op_.axes();
    for (size_t p = 0; p < axes.size(); ++p) {
      const bool of_scores = uses(score_, axes[p]), of_value = uses(a_.value, axes[p]);
      if (!of_scores && of_value) a_.col = static_cast<int>(p);
      // Of several such axes (the queries of grouped heads) the longest is taken.
      if (!uses(a_.query, axes[p]) || uses(a_.key, axes[p]) || of_value) continue;
      a_.other_rows |= a_.row >= 0;
      if (row_ >= 0 ? static_cast<int>(p) == row_
                    : a_.row < 0 || most(axes[p]) >= most(axes[static_cast<size_t>(a_.row)]))
        a_.row = static_cast<int>(p);
    }
    if (a_.row < 0 || a_.col < 0 || !uses(a_.value, key())) return false;
    const Axis &row = axes[static_cast<size_t>(a_.row)], &col = axes[static_cast<size_t>(a_.col)];
    for (size_t p = 0; p < axes.size(); ++p) {
      if (static_cast<int>(p) == a_.row || static_cast<int>(p) == a_.col) continue;
      a_.batch.push_back(static_cast<int>(p));
      a_.batches *= most(axes[p]);
    }
    if (is_symbolic(col->extent)) return false;
    a_.rows = most(row);
    a_.cols = most(col);
    a_.keys = most(key());
    a_.row_extent = row->extent;
    a_.key_extent = key()->extent;
    const auto last = [](const Expr& load) { return load.as<Load>()->indices.back(); };
    a_.query_along_depth = uses_var(last(a_.query), a_.depth_var) || !uses(last(a_.query), row);
    a_.key_along_depth = uses_var(last(a_.key), a_.depth_var) || !uses(last(a_.key), key());
    a_.value_along_keys = uses(last(a_.value), key());
    return a_.keys > 0 && a_.depth > 0 && a_.rows > 0 && a_.cols > 0 && a_.batches > 0;
  }

  // The stage that sums the exponentials of a row. Whatever divides by it reads it.
  bool find_total() {
    for (int s = 0; s < dag_.size(); ++s) {
      const Reduce* r = s == a_.weighted ? nullptr : reduction_of(dag_.stage(s), ReduceKind::Sum);
      if (!r || !has_exp_below(r->sources[0]) || !take_total(s, *r)) continue;
      a_.total = s;
      return !a_.factor.defined() || take_factor();
    }
    return !a_.factor.defined() || !reads_fused(a_.factor);
  }
  // Does not look through stages that cannot be part of a softmax.
  bool has_exp_below(const Expr& e) { return has_exp(look_.seen(e)); }

  bool take_total(int s, const Reduce& r) {
    const Operation& op = dag_.stage(s);
    const std::set<int> before = look_.through;
    const Expr source = expanded(r.sources[0]);
    std::vector<VarBinding> bind{{op.reduce_axes()[0].var(), key().var().expr()}};
    std::vector<int> axes(op.axes().size(), -1);
    visit(source, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (!load || stage_of(*load) != a_.highest) return;
      for (size_t d = 0; d < load->indices.size(); ++d) match(op, load->indices[d], d, &axes);
    });
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] < 0 && most(op.axes()[i]) > 1) return look_.through = before, false;
      bind.push_back(
          {op.axes()[i].var(),
           axes[i] < 0 ? Expr(int64_t{0}) : op_.axes()[static_cast<size_t>(axes[i])].var().expr()});
    }
    if (!equal(op.reduce_axes()[0]->extent, key()->extent) ||
        !equal(at_single_elements(substitute(source, bind)), at_single_elements(power_))) {
      look_.through = before;
      return false;
    }
    a_.total_axes = std::move(axes);
    return true;
  }
  // `e` with index 0 in place of axes of one element: stages may write either.
  Expr at_single_elements(const Expr& e) const {
    std::vector<VarBinding> zero;
    for (const Axis& a : op_.axes()) {
      if (most(a) == 1) zero.push_back({a.var(), Expr(int64_t{0})});
    }
    return simplify(substitute(e, zero));
  }
  // Where dimension `d` of `highest` is read at an axis of `op`, and by the weighted sum at one of
  // its own axes, the two axes correspond.
  void match(const Operation& op, const Expr& index, size_t d, std::vector<int>* axes) const {
    for (size_t i = 0; i < op.axes().size(); ++i) {
      if (!equal(index, op.axes()[i].var().expr())) continue;
      for (size_t p = 0; p < op_.axes().size(); ++p) {
        if (equal(highest_at_[d], op_.axes()[p].var().expr())) (*axes)[i] = static_cast<int>(p);
      }
    }
  }

  // Expresses the factor in terms of the total of its own row.
  bool take_factor() {
    bool own = true;
    a_.factor = dag::map_loads({a_.factor}, [&](const Load& load) -> Expr {
      if (stage_of(load) != a_.total) return make_load(load.buffer, load.indices);
      own &= is_own_row(load.indices, op_);
      return a_.sum.expr();
    })[0];
    return own && !reads_fused(a_.factor);
  }
  // Whether `indices` read the total at the row of the current point of `op`. `op` has the axes of
  // the weighted sum.
  bool is_own_row(const std::vector<Expr>& indices, const Operation& op) const {
    for (size_t d = 0; d < indices.size(); ++d) {
      const int p = a_.total_axes[d];
      if (p >= 0 && most(op_.axes()[static_cast<size_t>(p)]) > 1 &&
          !equal(indices[d], op.axes()[static_cast<size_t>(p)].var().expr()))
        return false;
    }
    return true;
  }
  bool reads_fused(const Expr& e) const {
    return any_below(e, [&](const Expr& x) {
      const Load* load = x.as<Load>();
      const int s = load ? stage_of(*load) : -1;
      return s >= 0 && (s == a_.total || s == a_.highest || s == a_.products);
    });
  }

  bool find_fused() {
    std::set<int> mine = look_.through;
    mine.insert({a_.products, a_.highest});
    if (a_.total >= 0) mine.insert(a_.total);
    if (!find_reader(mine)) return false;
    const auto stays = [&](int s) {
      if (dag_.info(s).is_output) return true;
      return !std::all_of(dag_.info(s).consumers.begin(), dag_.info(s).consumers.end(), [&](int c) {
        return mine.count(c) || c == a_.weighted ||
               (s == a_.total && (c == a_.reader || contains(a_.outer, c)));
      });
    };
    // A stage that others read too is stored and cannot be fused. No part of the softmax may be
    // one.
    for (bool changed = true; changed;) {
      changed = false;
      for (int s : std::vector<int>(mine.begin(), mine.end())) {
        if (!stays(s)) continue;
        if (s == a_.products || s == a_.highest || s == a_.total) return false;
        mine.erase(s);
        changed = true;
      }
    }
    a_.fused.assign(mine.begin(), mine.end());
    return true;
  }

  // Finds the stage that divides by the total, where the weights are not divided.
  bool find_reader(const std::set<int>& mine) {
    if (a_.total < 0) return true;
    std::set<int> outer;
    bool outside = false;
    const std::function<void(int)> follow = [&](int s) {
      for (int c : dag_.info(s).consumers) {
        if (mine.count(c) || c == a_.weighted) continue;
        outside = true;
        if (contains(dag_.info(a_.weighted).consumers, c)) {
          a_.reader = c;
        } else if (is_between(c) && !dag_.info(c).is_output) {
          if (outer.insert(c).second) follow(c);
        } else {
          a_.reader = dag_.size();  // no single reader
          return;
        }
      }
    };
    follow(a_.total);
    if (!outside) return true;
    a_.outer.assign(outer.begin(), outer.end());
    const std::vector<int>& readers = dag_.info(a_.weighted).consumers;
    return readers == std::vector<int>{a_.reader} && reads_own_row();
  }

  // Whether the reader reads the sum element by element and the total at the same row.
  bool reads_own_row() {
    const Operation& reader = dag_.stage(a_.reader);
    if (reader.is_reduction() || reader.num_outputs() != 1 ||
        reader.axes().size() != op_.axes().size())
      return false;
    for (size_t d = 0; d < reader.axes().size(); ++d) {
      if (!equal(reader.axes()[d]->extent, op_.axes()[d]->extent)) return false;
    }
    for (const Access& r : dag_.info(a_.reader).reads) {
      if (r.producer == a_.weighted && r.pattern != AccessPattern::Elementwise) return false;
    }
    bool own = true;
    visit(look_.seen(reader.bodies()[0]), [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (load && stage_of(*load) == a_.total) own &= is_own_row(load->indices, reader);
    });
    return own;
  }

  // The largest number of keys that a row attends to.
  int64_t most_keys() const {
    if (!a_.reach.defined()) return a_.keys;
    Ranges rows;
    rows.set(op_.axes()[static_cast<size_t>(a_.row)].var(), {0, a_.rows - 1});
    return std::min(a_.keys, range_of(a_.reach, rows).max);
  }

  // Scores beyond some key are -inf: select(j <= i, x, -inf), or x + select(j <= i, 0, -inf).
  void find_reach(const Expr& e) {
    if (const Cast* c = e.as<Cast>()) {
      if (c->value.dtype().is_float()) find_reach(c->value);
      return;
    }
    if (const Binary* b = e.as<Binary>(); b && b->op == BinaryOp::Add) {
      find_reach(b->a);
      return find_reach(b->b);
    }
    const Select* s = e.as<Select>();
    if (!s) return;
    if (is_masked(s->on_false)) {
      take_bounds(s->condition, true, is_infinite(s->on_false));
      find_reach(s->on_true);
    } else if (is_masked(s->on_true)) {
      take_bounds(s->condition, false, is_infinite(s->on_true));
      find_reach(s->on_false);
    }
  }
  static bool is_masked(const Expr& e) {
    const FloatImm* f = e.as<FloatImm>();
    return f && f->value <= kMasked;
  }
  static bool is_infinite(const Expr& e) { return std::isinf(e.as<FloatImm>()->value); }

  // A row attends to the keys for which `c` holds if `holds` is true, else to the others. The weights of
  // a row without keys are equal where its scores are finite, so that data must not mask more keys.
  void take_bounds(const Expr& c, bool holds, bool infinite) {
    const Expr before = a_.reach;
    const Expr bound = bound_of(c, holds);
    if (!bound.defined() || (!infinite && has_load(c))) return;
    a_.reach = before.defined() ? min(before, bound) : bound;
  }
  // The number of the first keys for which `c` is `holds`, as far as it has one; else null.
  Expr bound_of(const Expr& c, bool holds) const {
    const Binary* b = c.as<Binary>();
    if (!b) return {};
    const bool all = b->op == (holds ? BinaryOp::And : BinaryOp::Or);
    if (all || b->op == (holds ? BinaryOp::Or : BinaryOp::And)) {
      const Expr first = bound_of(b->a, holds), second = bound_of(b->b, holds);
      if (all) {
        if (!first.defined() || !second.defined()) return first.defined() ? first : second;
        return min(first, second);
      }
      // One of them suffices: where it is the same for all rows and keys, it says whether the bound of the
      // other one counts.
      const bool of_first = first.defined() && is_common(b->b);
      if (!of_first && !(second.defined() && is_common(b->a))) return {};
      const Expr &common = of_first ? b->b : b->a, &bound = of_first ? first : second;
      return make_select(holds ? common : Expr(!common), a_.key_extent, bound);
    }
    if ((b->op != BinaryOp::Le && b->op != BinaryOp::Lt) || b->a.dtype() != i64) return {};
    // a <= b is used as it is; its negation is b < a.
    const Expr &low = holds ? b->a : b->b, &high = holds ? b->b : b->a;
    const bool strict = (b->op == BinaryOp::Lt) == holds;
    const Expr bound = simplify(high - low + key().var().expr() + Expr(strict ? 0 : 1));
    const std::optional<Affine> f = as_affine(bound);
    if (!f) return {};
    for (const Affine::Term& t : f->terms) {
      const Axis& row = op_.axes()[static_cast<size_t>(a_.row)];
      if (!t.var->size && (t.var.get() != row.var().get() || t.coefficient < 0)) return {};
    }
    return bound;
  }
  // Whether `c` is the same for all rows and keys.
  bool is_common(const Expr& c) const {
    return !uses(c, key()) && !uses(c, op_.axes()[static_cast<size_t>(a_.row)]) &&
           !uses(c, op_.axes()[static_cast<size_t>(a_.col)]) && !uses_var(c, a_.product);
  }

  // Scores up to this value count as -inf: exp of their difference to the maximum is zero.
  static constexpr double kMasked = -1e30;
  const ComputeDag& dag_;
  const Operation& op_;
  const int row_;
  Attention a_;
  Expr power_, score_;
  std::vector<Expr> highest_at_;
  dag::LookThrough look_;
};

}  // namespace

std::optional<Attention> find_attention(const ComputeDag& dag, int stage, int row) {
  if (!dag.stage(stage).is_reduction()) return {};
  return Finder(dag, stage, row).run();
}

}  // namespace heddle
