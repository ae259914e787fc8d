// Mean and variance of columns in one pass over the image on a GPU, where each pass takes launches of its own.
//
//   s[c] = sum over n, y, x of v[n, c, y, x];  m[c] = s[c] / N                                       (before)
//   q[c] = sum over n, y, x of (v[n, c, y, x] - m[c])^2
//
//   k[c] = the median of three elements v[.., c, .., ..] that lie apart                              (after)
//   d[c] = sum over n, y, x of (v[n, c, y, x] - k[c]);  s[c] = d[c] + N * k[c]
//   e[c] = sum over n, y, x of (v[n, c, y, x] - k[c])^2;  q[c] = e[c] - d[c]^2 / N
//
// The two sums do not wait for each other and share launches. Where v is far from 0 nothing is lost, because it is
// shifted. What is lost is what e[c] is larger than q[c]: a few times, where k[c] lies among most elements. One element
// far away, such as a corner, is never the median; where two of the three are outliers, up to N + 1 times.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "dag/patterns/look_through.h"
#include "dag/rewrites/rebuilder.h"
#include "heddle/ir/simplify.h"
#include "network/passes/equal_sums.h"
#include "network/passes/graph_pass.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

/// A sum of squared deviations from a mean.
struct Deviations {
  int squares = -1, sums = -1;  ///< stages
  Expr element;                 ///< in the axes of `squares`
  std::vector<Expr> at;         ///< where `squares` reads `sums`
  double count = 0;
};

bool is_moved(const Expr& e, const std::vector<Axis>& axes) {
  return std::ranges::any_of(axes, [&](const Axis& a) { return uses_var(e, a.var()); });
}

/// A sum of f32 or f64; null for all other stages.
const Reduce* plain_sum(const Operation& op) {
  if (op.is_placeholder() || op.num_outputs() != 1) return nullptr;
  const DataType type = op.output(0).dtype();
  return type == f32 || type == f64 ? dag::reduction_of(op, ReduceKind::Sum, 0) : nullptr;
}

std::optional<double> elements_of(const Operation& op) {
  double count = 1;
  for (const Axis& a : op.reduce_axes()) {
    const IntImm* extent = a->extent.as<IntImm>();
    if (!extent) return {};
    count *= static_cast<double>(extent->value);
  }
  return count;
}

/// The sum that `mean` is, times 1 / count; null where it is none.
const Load* sum_in(const Expr& mean, double count) {
  const Binary* b = mean.as<Binary>();
  if (!b || (b->op != BinaryOp::Div && b->op != BinaryOp::Mul)) return nullptr;
  const FloatImm* by = b->b.as<FloatImm>();
  const double wanted = b->op == BinaryOp::Div ? count : 1 / count;
  const bool is =
      by && (by->value == wanted || by->value == static_cast<double>(static_cast<float>(wanted)));
  return is ? b->a.as<Load>() : nullptr;
}

std::optional<Deviations> deviations_of(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  const Reduce* r = plain_sum(op);
  const Binary* square = r ? r->sources[0].as<Binary>() : nullptr;
  if (!square || square->op != BinaryOp::Mul || !equal(square->a, square->b)) return {};
  const Binary* difference = square->a.as<Binary>();
  const std::optional<double> count = elements_of(op);
  if (!difference || difference->op != BinaryOp::Sub || !count || *count < 1 ||
      !sums_columns(dag, s) || !dag::below_casts(difference->a).as<Load>() ||
      is_moved(difference->b, op.reduce_axes()))
    return {};
  dag::LookThrough look(dag);
  const Expr mean = simplify(look.seen(difference->b));
  const Load* read = sum_in(mean, *count);
  const int of = read ? look.stage_of(*read) : -1;
  const Reduce* sum = of >= 0 ? plain_sum(dag.stage(of)) : nullptr;
  if (!sum || dag.stage(of).reduce_axes().size() != op.reduce_axes().size()) return {};
  std::vector<VarBinding> bind;
  const Operation& from = dag.stage(of);
  for (size_t i = 0; i < from.axes().size(); ++i)
    bind.push_back({from.axes()[i].var(), read->indices[i]});
  for (size_t i = 0; i < from.reduce_axes().size(); ++i) {
    if (!equal(from.reduce_axes()[i]->extent, op.reduce_axes()[i]->extent)) return {};
    bind.push_back({from.reduce_axes()[i].var(), op.reduce_axes()[i].var().expr()});
  }
  const auto seen = [&](const Expr& e) { return simplify(look.seen(e)); };
  if (!equal(seen(substitute(sum->sources[0], bind)), seen(difference->a))) return {};
  return Deviations{s, of, difference->a, read->indices, *count};
}

/// `element` of the terms of the stage's sums at `quarter` of each axis.
Expr at_quarter(const Operation& op, const Expr& element, int64_t quarter) {
  std::vector<VarBinding> bind;
  for (const Axis& a : op.reduce_axes())
    bind.push_back({a.var(), Expr(std::min(a.extent() * quarter / 4, a.extent() - 1))});
  return simplify(substitute(element, bind));
}

/// An element that most others are near to.
Expr usual_of(const Operation& op, const Expr& element) {
  const Expr a = at_quarter(op, element, 1), b = at_quarter(op, element, 2),
             c = at_quarter(op, element, 3);
  return max(min(a, b), min(max(a, b), c));
}

/// The sum of `term` over the axes of the stage.
Tensor sum_of(const Operation& op, const Expr& term, const char* name) {
  const FreshAxes fresh(op);
  std::vector<VarBinding> bind = fresh.bindings;
  std::vector<Axis> over;
  for (const Axis& a : op.reduce_axes()) {
    over.emplace_back(a.name(), a->extent, AxisKind::Reduce);
    bind.push_back({a.var(), over.back().var().expr()});
  }
  const Reduce& r = *op.bodies()[0].as<Reduce>();
  return Operation::make_compute(op.name() + name, fresh.axes,
                                 {make_reduce(r.combiner, {substitute(term, bind)}, over, 0)},
                                 op.tag(), op.where())
      ->output(0);
}

/// `value` of the elements of the stage, in its axes.
Tensor by_elements(const Operation& op, const Expr& value) {
  const FreshAxes fresh(op);
  return Operation::make_compute(op.name(), fresh.axes, {substitute(value, fresh.bindings)}, "mul",
                                 op.where())
      ->output(0);
}

std::vector<Expr> own_indices(const Operation& op) {
  std::vector<Expr> at;
  for (const Axis& a : op.axes()) at.push_back(a.var().expr());
  return at;
}

}  // namespace

std::vector<Tensor> one_pass_moments(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  if (!context.target.is_cuda()) return dag.outputs();
  dag::Rebuilder rebuilder;
  std::map<int, Tensor> shifted;  // sums of deviations from the usual element, by the sum
  int found = 0;
  for (int s = 0; s < dag.size(); ++s) {
    const std::optional<Deviations> d = deviations_of(dag, s);
    if (!d) continue;
    const Operation &squares = dag.stage(s), &sums = dag.stage(d->sums);
    const Expr count = make_const(squares.output(0).dtype(), d->count);
    if (!shifted.contains(d->sums)) {
      const Expr& element = sums.bodies()[0].as<Reduce>()->sources[0];
      const Expr usual = usual_of(sums, element);
      const Tensor sum = sum_of(sums, element - usual, "_shifted");
      shifted.emplace(d->sums, sum);
      rebuilder.replace(
          sums.output(0),
          by_elements(sums, make_load(sum.buffer(), own_indices(sums)) + usual * count));
    }
    const Expr apart = d->element - usual_of(squares, d->element);
    const Tensor square = sum_of(squares, apart * apart, "_shifted");
    const Expr sum = make_load(shifted.at(d->sums).buffer(), d->at),
               left = make_load(square.buffer(), own_indices(squares)) - sum * sum / count;
    const Expr zero = make_const(squares.output(0).dtype(), 0);
    rebuilder.replace(squares.output(0), by_elements(squares, select(left < zero, zero, left)));
    ++found;
  }
  if (found == 0) return dag.outputs();
  context.changed(std::to_string(found) + " variances are computed in the pass of their means");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
