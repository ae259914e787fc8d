// Sums that are equal but for factors are computed once: what the axes of a sum do not move is multiplied
// afterwards.
//
//   dgamma[c] = sum over n, y, x of g[n, c, y, x] * ((v[n, c, y, x] - mean[c]) * deviation[c])          (before)
//   d[c]      = sum over n, y, x of (g[n, c, y, x] * gamma[c]) * (v[n, c, y, x] - mean[c])
//
//   s[c]      = sum over n, y, x of g[n, c, y, x] * (v[n, c, y, x] - mean[c])                           (after)
//   dgamma[c] = s[c] * deviation[c];  d[c] = s[c] * gamma[c]
//
// The gradients of a norm are five sums of its image, of which two are left. Sums must be of f32 or f64, and a
// factor that is moved must be a norm's, which follows from a reduction. Others may keep a sum finite: a mask of
// the largest numbers makes 0 of each of them, and NaN of their sum.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "dag/patterns/look_through.h"
#include "dag/rewrites/rebuilder.h"
#include "heddle/ir/simplify.h"
#include "network/passes/graph_pass.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

// Factors of a term at most, and sums with as many factors that the axes move that are compared.
constexpr size_t kMostFactors = 8, kMostSums = 256;

/// A sum of products: its axes of one element are 0 in all factors.
struct FactoredSum {
  int stage = -1;
  std::vector<Axis> axes;     ///< those of several elements
  std::vector<Expr> inside;   ///< factors that the sum's axes move
  std::vector<Expr> outside;  ///< the others
  bool is_normal = false;     ///< whether one of these follows from a reduction
  double coefficient = 1;
};

class Factors {
 public:
  Factors(const ComputeDag& dag, FactoredSum& sum) : dag_(dag), sum_(sum) {}

  /// Takes the factors of `e`. False where there are too many.
  bool take(const Expr& e) {
    const Unary* u = e.as<Unary>();
    if (u && u->op == UnaryOp::Neg) {
      sum_.coefficient = -sum_.coefficient;
      return take(u->a);
    }
    if (const FloatImm* c = e.as<FloatImm>()) {
      sum_.coefficient *= c->value;
      return true;
    }
    const Binary* b = e.as<Binary>();
    if (b && b->op == BinaryOp::Mul) return take(b->a) && take(b->b);
    if (const Load* load = e.as<Load>()) {
      const Expr value = value_of(*load);
      if (value.defined()) return take(value);
    }
    (is_moved(e) ? sum_.inside : sum_.outside).push_back(e);
    return sum_.inside.size() + sum_.outside.size() <= kMostFactors;
  }

 private:
  /// What is read, where that is a product, a negation or only moved; else nothing.
  Expr value_of(const Load& load) const {
    const int s = dag_.index_of(tensor_of(load.buffer).op());
    if (s < 0) return {};
    const Operation& op = dag_.stage(s);
    if (op.is_placeholder() || op.is_reduction() || dag_.info(s).scan || op.num_outputs() != 1)
      return {};
    const Expr& body = op.bodies()[0];
    const Binary* b = body.as<Binary>();
    const Unary* u = body.as<Unary>();
    const bool seen_through = body.kind() == ExprKind::Load || (b && b->op == BinaryOp::Mul) ||
                              (u && u->op == UnaryOp::Neg);
    return seen_through ? simplify(dag::at_indices(op, body, load.indices)) : Expr();
  }
  bool is_moved(const Expr& e) const {
    const auto& axes = dag_.stage(sum_.stage).reduce_axes();
    return std::ranges::any_of(axes, [&](const Axis& a) { return uses_var(e, a.var()); });
  }

  const ComputeDag& dag_;
  FactoredSum& sum_;
};

/// Whether `e` reads a reduction, or what is computed from one by elements.
bool follows_a_reduction(const ComputeDag& dag, const Expr& e) {
  std::vector<int> todo;
  visit(e, [&](const Expr& at) {
    if (const Load* load = at.as<Load>())
      todo.push_back(dag.index_of(tensor_of(load->buffer).op()));
  });
  std::set<int> seen;
  while (!todo.empty()) {
    const int s = todo.back();
    todo.pop_back();
    if (s < 0 || !seen.insert(s).second) continue;
    if (dag.stage(s).is_reduction()) return true;
    if (!dag.stage(s).is_placeholder())
      todo.insert(todo.end(), dag.info(s).producers.begin(), dag.info(s).producers.end());
  }
  return false;
}

std::optional<FactoredSum> factored(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  const DataType type = op.output(0).dtype();
  if (op.is_placeholder() || dag.info(s).precomputable || (type != f32 && type != f64)) return {};
  const Reduce* r = dag::reduction_of(op, ReduceKind::Sum, 0);
  if (!r || r->sources[0].dtype() != type) return {};
  FactoredSum sum;
  sum.stage = s;
  std::vector<VarBinding> single;
  for (const Axis& a : op.axes()) {
    if (is_const(a->extent, 1)) {
      single.push_back({a.var(), Expr(int64_t{0})});
    } else {
      sum.axes.push_back(a);
    }
  }
  if (!Factors(dag, sum).take(simplify(substitute(r->sources[0], single))) || sum.inside.empty())
    return {};
  sum.is_normal =
      std::ranges::any_of(sum.outside, [&](const Expr& e) { return follows_a_reduction(dag, e); });
  return sum;
}

/// The axes of `of` in place of those of `by`.
std::vector<VarBinding> in_axes_of(const ComputeDag& dag, const FactoredSum& of,
                                   const FactoredSum& by) {
  std::vector<VarBinding> bind;
  for (size_t i = 0; i < by.axes.size(); ++i)
    bind.push_back({by.axes[i].var(), of.axes[i].var().expr()});
  const auto &to = dag.stage(of.stage).reduce_axes(), &from = dag.stage(by.stage).reduce_axes();
  for (size_t i = 0; i < from.size(); ++i) bind.push_back({from[i].var(), to[i].var().expr()});
  return bind;
}

bool same_extents(const std::vector<Axis>& a, const std::vector<Axis>& b) {
  return std::ranges::equal(
      a, b, [](const Axis& x, const Axis& y) { return equal(x->extent, y->extent); });
}

/// Whether all that `b` multiplies inside is inside of `a` too.
bool has_inside(const ComputeDag& dag, const FactoredSum& a, const FactoredSum& b) {
  if (a.inside.size() < b.inside.size() || !same_extents(a.axes, b.axes) ||
      !same_extents(dag.stage(a.stage).reduce_axes(), dag.stage(b.stage).reduce_axes()))
    return false;
  const std::vector<VarBinding> bind = in_axes_of(dag, a, b);
  std::vector<Expr> left = a.inside;
  for (const Expr& factor : b.inside) {
    const Expr here = substitute(factor, bind);
    const auto at = std::ranges::find_if(left, [&](const Expr& e) { return equal(e, here); });
    if (at == left.end()) return false;
    left.erase(at);
  }
  return true;
}

using Group = std::vector<FactoredSum>;

/// Sums by what they add up inside.
std::vector<Group> groups_of(const ComputeDag& dag) {
  std::vector<Group> groups;
  std::map<std::array<size_t, 3>, std::vector<size_t>> alike;  // groups that may have a sum
  for (int s = 0; s < dag.size(); ++s) {
    std::optional<FactoredSum> sum = factored(dag, s);
    if (!sum) continue;
    std::vector<size_t>& those =
        alike[{sum->axes.size(), dag.stage(s).reduce_axes().size(), sum->inside.size()}];
    const auto at =
        std::ranges::find_if(those, [&](size_t g) { return has_inside(dag, groups[g][0], *sum); });
    if (at != those.end()) {
      groups[*at].push_back(std::move(*sum));
    } else if (those.size() < kMostSums) {
      those.push_back(groups.size());
      groups.push_back({std::move(*sum)});
    }
  }
  std::erase_if(groups, [](const Group& g) { return g.size() < 2; });
  return groups;
}

/// Whether the sums are as finite when their outside factors come later: there are none, or these belong to a
/// norm, whose other sums would be infinite, too.
bool stays_finite(const ComputeDag& dag, const std::vector<Group>& groups, const Group& group) {
  const auto is_bare = [](const FactoredSum& sum) { return sum.outside.empty(); };
  return std::ranges::all_of(group, is_bare) ||
         std::ranges::any_of(groups, [&](const Group& other) {
           return std::ranges::any_of(other, &FactoredSum::is_normal) &&
                  has_inside(dag, other[0], group[0]);
         });
}

/// The sum of the factors inside.
Tensor shared_sum(const ComputeDag& dag, const FactoredSum& sum) {
  const Operation& op = dag.stage(sum.stage);
  const Reduce& r = *op.bodies()[0].as<Reduce>();
  std::vector<VarBinding> bind;
  std::vector<Axis> axes, over;
  const auto renew = [&](const std::vector<Axis>& from, std::vector<Axis>& to, AxisKind kind) {
    for (const Axis& a : from) {
      to.emplace_back(a.name(), a->extent, kind);
      bind.push_back({a.var(), to.back().var().expr()});
    }
  };
  renew(sum.axes, axes, AxisKind::Spatial);
  renew(op.reduce_axes(), over, AxisKind::Reduce);
  Expr term = sum.inside[0];
  for (size_t i = 1; i < sum.inside.size(); ++i) term = term * sum.inside[i];
  return Operation::make_compute(op.name() + "_shared", axes,
                                 {make_reduce(r.combiner, {substitute(term, bind)}, over, 0)},
                                 op.tag(), op.where())
      ->output(0);
}

/// The sum again, from the shared one.
Tensor from_shared(const ComputeDag& dag, const FactoredSum& sum, const Tensor& shared) {
  const Operation& op = dag.stage(sum.stage);
  return compute(
      op.output(0).shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<VarBinding> bind;
        std::vector<Expr> at;
        for (size_t d = 0, next = 0; d < op.axes().size(); ++d) {
          if (next == sum.axes.size() || !sum.axes[next].same_as(op.axes()[d])) continue;
          bind.push_back({sum.axes[next++].var(), i[d].var().expr()});
          at.push_back(i[d].var().expr());
        }
        Expr value = make_load(shared.buffer(), std::move(at));
        if (sum.coefficient != 1) value = value * make_const(shared.dtype(), sum.coefficient);
        for (const Expr& factor : sum.outside) value = value * substitute(factor, bind);
        return value;
      },
      op.name(), "mul", op.where());
}

}  // namespace

std::vector<Tensor> share_sums(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  const std::vector<Group> groups = groups_of(dag);
  dag::Rebuilder rebuilder;
  size_t left_out = 0;
  for (const Group& group : groups) {
    if (!stays_finite(dag, groups, group)) continue;
    const Tensor shared = shared_sum(dag, group[0]);
    for (const FactoredSum& sum : group)
      rebuilder.replace(dag.stage(sum.stage).output(0), from_shared(dag, sum, shared));
    left_out += group.size() - 1;
  }
  if (left_out == 0) return dag.outputs();
  context.changed(std::to_string(left_out) + " sums are others, times what they do not sum over");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
