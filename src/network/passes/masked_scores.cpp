#include "network/passes/masked_scores.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "dag/map_loads.h"
#include "ir/replace.h"

namespace heddle::network {
namespace {

/// `e` without the casts between floats around it.
Expr below_float_casts(Expr e) {
  for (const Cast* c = e.as<Cast>(); c && e.dtype().is_float() && c->value.dtype().is_float();
       c = e.as<Cast>())
    e = Expr(c->value);
  return e;
}

const Binary* sum_or_difference(const Expr& e) {
  const Binary* b = e.as<Binary>();
  return b && (b->op == BinaryOp::Add || b->op == BinaryOp::Sub) ? b : nullptr;
}

class Readers {
 public:
  Readers(const ComputeDag& dag, dag::LookThrough* look, int scores, int highest)
      : dag_(dag), look_(*look), scores_(scores), highest_(highest) {}

  bool only_exp() {
    std::vector<int> open{scores_};
    while (!open.empty()) {
      const int s = open.back();
      open.pop_back();
      if (dag_.info(s).is_output) return false;
      for (const int c : dag_.info(s).consumers) {
        if (c == highest_ || between_.count(c) != 0 || only_exp_in(c)) continue;
        if (!is_step(c)) return false;
        between_.emplace(c, in_scores(dag_.stage(c).bodies()[0]));
        open.push_back(c);
      }
    }
    return true;
  }

 private:
  /// Whether the stage computes a score or its difference to the highest, which others read.
  bool is_step(int c) {
    if (!look_.is_between(c)) return false;
    const Expr e = in_scores(dag_.stage(c).bodies()[0]), at = below_float_casts(e);
    return score_in(at) || is_difference(at);
  }

  /// `e` with the stages between the scores and it written into it.
  Expr in_scores(const Expr& e) const {
    return dag::map_loads({e}, [&](const Load& load) -> Expr {
      const int s = look_.stage_of(load);
      const auto found = between_.find(s);
      return found == between_.end() ? make_load(load.buffer, load.indices)
                                     : dag::at_indices(dag_.stage(s), found->second, load.indices);
    })[0];
  }

  bool only_exp_in(int c) {
    bool read = false;
    for (const Expr& body : dag_.stage(c).bodies()) {
      const Reduce* r = body.as<Reduce>();
      for (const Expr& source : r ? r->sources : std::vector<Expr>{body}) {
        const Expr whole = in_scores(source);
        read |= reads_scores(whole);
        Expr rest = whole;
        visit(whole, [&](const Expr& e) {
          const Unary* u = e.as<Unary>();
          if (u && u->op == UnaryOp::Exp && is_difference(below_float_casts(u->a)))
            rest = replace_equal(rest, e, make_const(e.dtype(), 0));
        });
        if (reads_scores(rest)) return false;
      }
    }
    return read;
  }

  bool reads_scores(const Expr& e) const {
    return any_below(e, [&](const Expr& x) {
      const Load* load = x.as<Load>();
      return load && look_.stage_of(*load) == scores_;
    });
  }

  const Load* score_in(const Expr& at) const {
    const Load* load = at.as<Load>();
    return load && look_.stage_of(*load) == scores_ ? load : nullptr;
  }

  /// Whether `e` is a score without the highest of its own row.
  bool is_difference(const Expr& e) {
    const Binary* sub = e.as<Binary>();
    if (!sub || sub->op != BinaryOp::Sub) return false;
    const Expr score = below_float_casts(sub->a), highest = below_float_casts(look_.seen(sub->b));
    const Load *at = score_in(score), *top = highest.as<Load>();
    if (!at || !top || look_.stage_of(*top) != highest_) return false;
    const Operation &scores = dag_.stage(scores_), &rows = dag_.stage(highest_);
    const Load& source = *dag::below_casts(rows.bodies()[0].as<Reduce>()->sources[0]).as<Load>();
    const Var& key = rows.reduce_axes()[0].var();
    for (size_t d = 0; d < at->indices.size(); ++d) {
      if (uses_var(source.indices[d], key) || is_const(scores.axes()[d]->extent, 1)) continue;
      const Expr row = dag::at_indices(rows, source.indices[d], top->indices);
      if (!equal(simplify(row), simplify(at->indices[d]))) return false;
    }
    return true;
  }

  const ComputeDag& dag_;
  dag::LookThrough& look_;
  const int scores_, highest_;
  std::map<int, Expr> between_;  ///< stages between scores and exp, in terms of the scores
};

class OtherMasks {
 public:
  OtherMasks(const ComputeDag& dag, dag::LookThrough* look, const Var& key, double large)
      : dag_(dag), look_(*look), key_(key), large_(large) {}

  /// Whether a large number is in `e` or in stages below it.
  bool has_large(const Expr& e) {
    return any_below(e, [&](const Expr& x) {
      if (const FloatImm* f = x.as<FloatImm>()) return std::abs(f->value) >= large_;
      const Load* load = x.as<Load>();
      const int s = load ? look_.stage_of(*load) : -1;
      if (s < 0 || dag_.stage(s).is_placeholder() || dag_.stage(s).is_reduction() ||
          !seen_.insert(s).second)
        return false;
      const std::vector<Expr>& bodies = dag_.stage(s).bodies();
      return std::any_of(bodies.begin(), bodies.end(),
                         [&](const Expr& body) { return has_large(body); });
    });
  }

  /// Whether data of each key is one of the terms of `e`, or what it is where a condition holds.
  bool adds_data(const Expr& e) const {
    if (const Cast* c = e.as<Cast>()) return adds_data(c->value);
    if (const Unary* u = e.as<Unary>()) return adds_data(u->a);
    if (const Select* s = e.as<Select>())
      return is_data(s->on_true) || is_data(s->on_false) || adds_data(s->on_true) ||
             adds_data(s->on_false);
    const Binary* b = e.as<Binary>();
    if (!b) return false;
    if (sum_or_difference(e) && (is_data(b->a) || is_data(b->b))) return true;
    return adds_data(b->a) || adds_data(b->b);
  }

 private:
  bool is_data(const Expr& e) const {
    bool of_key = false, of_reduction = false;
    visit(e, [&](const Expr& x) {
      const Load* load = x.as<Load>();
      const int s = load ? look_.stage_of(*load) : -1;
      of_reduction |= s >= 0 && dag_.stage(s).is_reduction();
      of_key |= load && x.dtype().is_float() && uses_var(x, key_);
    });
    return of_key && !of_reduction;
  }

  const ComputeDag& dag_;
  dag::LookThrough& look_;
  const Var& key_;
  const double large_;
  std::set<int> seen_;
};

}  // namespace

bool read_by_exp_alone(const ComputeDag& dag, dag::LookThrough* look, int scores, int highest) {
  return Readers(dag, look, scores, highest).only_exp();
}

bool may_be_masked(const ComputeDag& dag, dag::LookThrough* look, const Expr& score, const Var& key,
                   double large) {
  OtherMasks masks(dag, look, key, large);
  return masks.has_large(score) || masks.adds_data(look->seen(score));
}

}  // namespace heddle::network
