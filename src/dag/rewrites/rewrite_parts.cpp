#include "dag/rewrites/rewrite_parts.h"

#include <algorithm>

#include "heddle/dag/attention.h"

namespace heddle::dag {

std::size_t longest_reduction(const Operation& op) {
  const auto& axes = op.reduce_axes();
  return static_cast<std::size_t>(
      std::max_element(axes.begin(), axes.end(),
                       [](const Axis& a, const Axis& b) { return a.extent() < b.extent(); }) -
      axes.begin());
}

Tensor part_of_reduction(const Operation& op, const Shape& before, int64_t length,
                         FunctionRef<Expr(const std::vector<Axis>&)> begin, const std::string& name,
                         const std::string& tag) {
  const std::size_t cut = longest_reduction(op);
  Shape shape = before;
  for (const Axis& a : op.axes()) shape.push_back(a->extent);
  const auto* reduce = op.bodies()[0].as<Reduce>();
  return compute(
      shape,
      [&](const std::vector<Axis>& i) {
        std::vector<VarBinding> to;
        std::vector<Axis> over;
        for (std::size_t a = 0; a < op.axes().size(); ++a)
          to.push_back({op.axes()[a].var(), i[a + before.size()]});
        for (std::size_t r = 0; r < op.reduce_axes().size(); ++r) {
          const Axis& old = op.reduce_axes()[r];
          over.push_back(
              reduce_axis(r == cut ? Expr(length) : old->extent, old.name(), op.where()));
          to.push_back({old.var(), r == cut ? begin(i) + over.back() : Expr(over.back())});
        }
        return make_reduce(reduce->combiner, {substitute(reduce->sources[0], to)}, over);
      },
      name, tag, op.where());
}

Tensor reduce_in_parts(const Operation& op, int64_t parts, const std::string& tag) {
  const int64_t k = op.reduce_axes()[longest_reduction(op)].extent(), length = k / parts;
  const int64_t rest = k - parts * length;
  const Tensor partial = part_of_reduction(
      op, {parts}, length, [&](const std::vector<Axis>& i) { return i[0] * length; },
      op.name() + "_parts", tag);
  const auto& combiner = op.bodies()[0].as<Reduce>()->combiner;
  const Tensor all = compute(
      op.output(0).shape(),
      [&](const std::vector<Axis>& i) {
        const Axis q = reduce_axis(parts, "part", op.where());
        std::vector<Expr> at{q};
        at.insert(at.end(), i.begin(), i.end());
        return make_reduce(combiner, {partial.at(at)}, {q});
      },
      rest > 0 ? op.name() + "_all" : op.name(), rest > 0 ? tag : op.tag(), op.where());
  if (rest == 0) return all;
  const Tensor tail = part_of_reduction(
      op, {}, rest, [&](const std::vector<Axis>&) { return Expr(parts * length); },
      op.name() + "_rest", tag);
  // The short reduction is read first: stages are planned backwards, and the long one must be the
  // stage that this one is fused with.
  return compute(
      op.output(0).shape(),
      [&](const std::vector<Axis>& i) {
        return substitute(combiner->result[0],
                          {{combiner->lhs[0], tail(i)}, {combiner->rhs[0], all(i)}});
      },
      op.name(), op.tag(), op.where());
}

std::vector<Expr> unflatten(const Expr& place, const std::vector<int64_t>& extents) {
  std::vector<Expr> out(extents.size());
  Expr rest = place;
  for (std::size_t d = extents.size(); d-- > 0;) {
    out[d] = d == 0 ? rest : floormod(rest, extents[d]);
    if (d > 0) rest = floordiv(rest, extents[d]);
  }
  return out;
}

Expr flatten(const std::vector<Expr>& indices, const std::vector<int64_t>& extents) {
  Expr out(0);
  for (std::size_t d = 0; d < indices.size(); ++d)
    out = d == 0 ? indices[0] : out * extents[d] + indices[d];
  return out;
}

NewAxes new_axes(const Operation& op, const std::vector<Axis>& spatial,
                 FunctionRef<Expr(std::size_t)> extent_of) {
  NewAxes made;
  for (std::size_t a = 0; a < spatial.size(); ++a)
    made.to.push_back({op.axes()[a].var(), spatial[a]});
  for (std::size_t r = 0; r < op.reduce_axes().size(); ++r) {
    const Axis& old = op.reduce_axes()[r];
    made.reduce.push_back(reduce_axis(extent_of(r), old.name(), op.where()));
    made.to.push_back({old.var(), made.reduce.back()});
  }
  return made;
}

Expr read_at(const Tensor& t, const Access& as, const std::vector<VarBinding>& to) {
  std::vector<Expr> at;
  for (const Expr& index : as.indices) at.push_back(substitute(index, to));
  return t.at(at);
}

bool is_of_attention(const ComputeDag& dag, int stage) {
  for (int s = 0; s < dag.size(); ++s) {
    const std::optional<Attention> a = find_attention(dag, s);
    if (a && (a->weighted == stage || a->products == stage)) return true;
  }
  return false;
}

bool is_constant_stage(const ComputeDag& dag, int stage) {
  return dag.stage(stage).is_constant() || dag.info(stage).precomputable;
}

bool is_constant_operand(const ComputeDag& dag, const Access& operand) {
  return is_constant_stage(dag, operand.producer);
}

}  // namespace heddle::dag
