// Tells attention which keys lie beyond each row, where a mask is computed from positions.
//
//   mask[i, j]  = j <= i + past && there[j] ? 0 : -1e9                              (before)
//   score[i, j] = x[i, j] + mask[i, j]
//
//   score[i, j] = j <= i + past || !there[0]                                        (after)
//                 ? x[i, j] + (j <= i + past && there[j] ? 0 : -1e9) : -inf
//
// The mask is computed with the scores, of which those of -inf need not be computed at all: blocks of
// rows skip tiles of keys. Where a row attends to some key, exp of a score beyond the bound is 0
// either way, for scores up to a tenth of the mask. A row that attends to no key has the same weights
// as before, because its own mask must stay then: the first key is there for the first row, and so
// for all rows, or nothing changes. Without data in the mask, and with masks of -inf, that is not
// asked. Nothing changes either where a finite mask is not the only one, and where anything but
// exp(score - maximum) reads the scores: a logarithm of a softmax is finite.
//
// What is found: any mask that becomes one number where a comparison of positions fails, however files
// write it (where, and, or, not, products with a condition).
//
// The pass is for GPUs, whose attention skips tiles. Results differ where a score beyond the bound is
// NaN or infinite: it made the row NaN, and is left out.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "dag/map_loads.h"
#include "dag/patterns/look_through.h"
#include "ir/replace.h"
#include "network/passes/graph_pass.h"
#include "network/passes/map_graph.h"
#include "network/passes/masked_scores.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

constexpr double kMasked = -1e8;     // numbers up to this one mask a score
constexpr int kMostNodes = 48;       // of a mask that is computed for each score
constexpr int kMostStagesBelow = 8;  // from the scores of a softmax to where a mask is added

bool is_masked(const Expr& e) {
  const FloatImm* f = e.as<FloatImm>();
  return f && f->value <= kMasked;
}

/// A comparison in a mask: a row attends only to keys below `bound`, for which it holds if `holds`.
struct Bound {
  Expr comparison, bound;
  bool holds = true;
  Expr beyond;  ///< the mask where it fails, a number
  Expr inside() const { return holds ? comparison : Expr(!comparison); }
};

/// What masks a score: a number that is added, or a condition by which the score is taken (`select`).
struct Mask {
  Expr added;          ///< in both cases, with 0 where a condition takes the score
  Expr condition;      ///< computed from positions; null: the mask is added
  bool first = false;  ///< the mask is the first operand of the sum
};

/// The scores of a softmax: the stage to which a mask is added, and the position of the keys among its
/// axes.
struct Scores {
  int stage = -1, key = -1;
};

class Finder {
 public:
  explicit Finder(const ComputeDag& dag) : dag_(dag), look_(dag) {}

  /// The stage that adds a mask before the softmax whose maximum is stage `highest`.
  std::optional<Scores> scores_of(int highest) {
    const Reduce* r = dag::reduction_of(dag_.stage(highest), ReduceKind::Max, 1);
    const Load* load = r ? dag::below_casts(r->sources[0]).as<Load>() : nullptr;
    if (!load) return {};
    const Var& key = dag_.stage(highest).reduce_axes()[0].var();
    Scores found{look_.stage_of(*load), -1};
    for (size_t d = 0; d < load->indices.size(); ++d) {
      if (equal(load->indices[d], key.expr())) found.key = static_cast<int>(d);
    }
    if (found.key < 0 || !look_.is_between(found.stage) ||
        !read_by_exp_alone(dag_, &look_, found.stage, highest))
      return {};
    for (int n = 0; n < kMostStagesBelow && look_.is_between(found.stage); ++n) {
      const Operation& op = dag_.stage(found.stage);
      const Expr& body = dag::below_casts(op.bodies()[0]);
      if (body.kind() != ExprKind::Load) return found;
      for (size_t d = 0; d < op.axes().size(); ++d) {
        const auto& at = body.as<Load>()->indices;
        if (at.size() != op.axes().size() || !equal(at[d], op.axes()[d].var().expr())) return {};
      }
      const int below = look_.stage_of(*body.as<Load>());
      if (below < 0 || dag_.info(below).is_output || dag_.info(below).consumers.size() != 1)
        return {};
      found.stage = below;
    }
    return {};
  }

  /// The mask of `body` of stage `op`, computed from positions.
  std::optional<Mask> mask_of(const Operation& op, const Expr& body, int key) {
    const Expr& at = dag::below_casts(body);
    if (const Select* s = at.as<Select>()) {
      const Expr c = computed(op, s->condition, key), zero = make_const(at.dtype(), 0);
      if (!c.defined() || is_masked(s->on_true) == is_masked(s->on_false)) return {};
      return Mask{is_masked(s->on_false) ? make_select(c, zero, s->on_false)
                                         : make_select(c, s->on_true, zero),
                  c};
    }
    const Binary* b = at.as<Binary>();
    if (!b || b->op != BinaryOp::Add) return {};
    for (const bool first : {false, true}) {
      const Expr added = computed(op, first ? b->a : b->b, key);
      if (added.defined()) return Mask{added, {}, first};
    }
    return {};
  }

  /// `body` with the mask in place of what it reads.
  static Expr with_mask(const Expr& body, const Mask& mask) {
    if (const Cast* c = body.as<Cast>()) return cast(body.dtype(), with_mask(c->value, mask));
    if (const Select* s = body.as<Select>())
      return make_select(mask.condition, s->on_true, s->on_false);
    const Binary& b = *body.as<Binary>();
    return mask.first ? mask.added + b.b : b.a + mask.added;
  }

  /// The bound of the keys of a row of `op`, for a mask in terms of its axes.
  static std::optional<Bound> bound_in(const Operation& op, const Expr& mask, int key) {
    std::optional<Bound> found;
    visit(mask, [&](const Expr& e) {
      const Binary* b = e.as<Binary>();
      if (found || !b || (b->op != BinaryOp::Le && b->op != BinaryOp::Lt) || b->a.dtype() != i64)
        return;
      for (const bool holds : {true, false}) {
        const Expr beyond = simplify(replace_equal(mask, e, Expr(!holds)), ranges_of(op));
        const Expr bound = is_masked(beyond) ? bound_of(op, *b, holds, key) : Expr();
        if (bound.defined()) found = Bound{e, bound, holds, beyond};
      }
    });
    return found;
  }

  /// The condition by which keys from the bound on may be left out besides the bound itself: that no row
  /// is masked completely. Null where it cannot be told from one element of the mask, or where other
  /// masks may be in what is masked.
  Expr guard(const Operation& op, const Mask& m, const Bound& b, int key) {
    const Ranges ranges = ranges_of(op);
    const Expr& mask = m.added;
    const double most = b.beyond.as<FloatImm>()->value;
    if (most == -std::numeric_limits<double>::infinity()) return Expr(true);
    if (may_be_masked(dag_, &look_, unmasked(op.bodies()[0], m), axis(op, key), -kMasked))
      return {};
    const Expr at_first = simplify(
        substitute(replace_equal(mask, b.comparison, Expr(b.holds)), {{axis(op, key), Expr(0)}}),
        ranges);
    std::vector<VarBinding> first_row;
    const Expr there = simplify(is_there(at_first), ranges);
    for (const Axis& a : op.axes()) {
      if (!uses_var(b.bound, a.var())) continue;
      if (uses_var(there, a.var())) return {};
      first_row.push_back({a.var(), Expr(0)});
    }
    return simplify(there && substitute(b.bound, first_row) > Expr(0), ranges);
  }

 private:
  /// What the mask is added to, or what its condition takes.
  static Expr unmasked(const Expr& body, const Mask& mask) {
    const Expr& at = dag::below_casts(body);
    if (const Select* s = at.as<Select>()) return is_masked(s->on_true) ? s->on_false : s->on_true;
    const Binary& b = *at.as<Binary>();
    return mask.first ? b.b : b.a;
  }

  /// Whether a mask of this value masks nothing.
  static Expr is_there(const Expr& e) {
    if (const Cast* c = e.as<Cast>(); c && c->value.dtype().is_float()) return is_there(c->value);
    const Select* s = e.as<Select>();
    if (!s) return cast(f32, e) > make_const(f32, kMasked);
    const Expr yes = simplify(is_there(s->on_true)), no = simplify(is_there(s->on_false));
    if (is_const(yes) && is_const(no) && !equal(yes, no))
      return is_const(yes, 1) ? s->condition : Expr(!s->condition);
    return equal(yes, no) ? yes : make_select(s->condition, yes, no);
  }

  static const Var& axis(const Operation& op, int p) {
    return op.axes()[static_cast<size_t>(p)].var();
  }

  /// `e` in terms of positions: stages that have an element for each row and key, and those that read
  /// nothing, are written into it. Null where it is not cheap, or there is no such stage.
  Expr computed(const Operation& op, const Expr& e, int key) {
    const Expr whole = simplify(written(op, e, key), ranges_of(op));
    int nodes = 0;
    bool cheap = true;
    visit(whole, [&](const Expr& x) {
      ++nodes;
      const Unary* u = x.as<Unary>();
      cheap &=
          x.kind() != ExprKind::Reduce && (!u || u->op == UnaryOp::Not || u->op == UnaryOp::Neg);
      const Load* load = x.as<Load>();
      cheap &= !load || !of_rows_and_keys(op, *load, key);
    });
    return cheap && nodes <= kMostNodes ? whole : Expr();
  }
  bool of_rows_and_keys(const Operation& op, const Load& load, int key) const {
    bool rows = false, keys = false;
    for (const Expr& i : load.indices) {
      for (size_t d = 0; d < op.axes().size(); ++d)
        (static_cast<int>(d) == key ? keys : rows) |=
            uses_var(i, op.axes()[d].var()) && !is_const(op.axes()[d]->extent, 1);
    }
    return rows && keys;
  }
  Expr written(const Operation& op, const Expr& e, int key) {
    return dag::map_loads({e}, [&](const Load& load) -> Expr {
      const Expr same = make_load(load.buffer, load.indices);
      const int s = look_.stage_of(load);
      if (!look_.is_between(s)) return same;
      const Expr seen = look_.seen(same);
      if (!any_below(seen, [](const Expr& x) { return x.kind() == ExprKind::Load; })) return seen;
      if (!of_rows_and_keys(op, load, key)) return same;
      return written(op, dag::at_indices(dag_.stage(s), dag_.stage(s).bodies()[0], load.indices),
                     key);
    })[0];
  }

  /// The number of keys for which the comparison has the value `holds`, which does not decrease from row
  /// to row; null where it is no such bound.
  static Expr bound_of(const Operation& op, const Binary& b, bool holds, int key) {
    // a <= b is used as it is; its negation is b < a.
    const Expr &low = holds ? b.a : b.b, &high = holds ? b.b : b.a;
    const bool strict = (b.op == BinaryOp::Lt) == holds;
    const Expr bound = simplify(high - low + axis(op, key).expr() + Expr(strict ? 0 : 1));
    const std::optional<Affine> f = as_affine(bound);
    if (!f) return {};
    bool of_row = false;
    for (const Affine::Term& t : f->terms) {
      if (t.var->size) continue;
      if (t.var.get() == axis(op, key).get() || t.coefficient < 0 || of_row) return {};
      of_row = true;
    }
    return of_row ? bound : Expr();
  }

  const ComputeDag& dag_;
  dag::LookThrough look_;
};

}  // namespace

std::vector<Tensor> masks_of_positions(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  if (!context.target.is_cuda()) return dag.outputs();
  Finder finder(dag);
  std::map<int, int> key_of;  // by stages that add masks
  for (int s = 0; s < dag.size(); ++s) {
    if (const auto found = finder.scores_of(s)) key_of.emplace(found->stage, found->key);
  }
  int changed = 0;
  std::vector<Tensor> outputs = map_graph(
      dag,
      [&](int s, const std::vector<Expr>& bodies) -> std::vector<Expr> {
        const auto at = key_of.find(s);
        if (at == key_of.end()) return bodies;
        const Operation& op = dag.stage(s);
        const auto mask = finder.mask_of(op, op.bodies()[0], at->second);
        const auto bound = mask ? Finder::bound_in(op, mask->added, at->second) : std::nullopt;
        const Expr guard = bound ? finder.guard(op, *mask, *bound, at->second) : Expr();
        if (!guard.defined() || is_const(guard, 0)) return bodies;
        context.changed("'" + op.name() +
                        "' computes its mask, which ends at a bound for each row");
        const Expr score = Finder::with_mask(bodies[0], *mask);
        const Expr keep = is_const(guard, 1) ? bound->inside() : Expr(bound->inside() || !guard);
        return {make_select(keep, score,
                            make_const(score.dtype(), -std::numeric_limits<double>::infinity()))};
      },
      &changed);
  return changed > 0 ? outputs : dag.outputs();
}

}  // namespace heddle::network
