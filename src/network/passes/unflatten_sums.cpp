// Reductions over a flattened shape run over the axes of what was flattened, in place of divisions.
// Exporters write group normalisation with such a shape.
//
//   f[n, g, k] = x[n, (8 g + k / 196), k / 14 % 14, k % 14]                        (before)
//   s[n, g] = sum over k < 1568 of f[n, g, k]
//
//   s[n, g] = sum over c < 8, y < 14, x < 14 of x[n, 8 g + c, y, x]                (after)
//
// The terms are those of before. Their order is the schedule's in any case. The pass is for CPUs:
// GPUs share one long axis among their threads, whose divisions cost little. Products keep a flat
// axis: packing their operand includes the divisions.
#include <algorithm>
#include <optional>
#include <utility>

#include "dag/map_loads.h"
#include "dag/patterns/look_through.h"
#include "network/passes/graph_pass.h"
#include "network/passes/map_graph.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

/// Axes in place of a flattened one, and its value in terms of them.
struct Unflattened {
  std::vector<Axis> axes;
  Expr value;
};

/// `axis` as axes whose extents are the last ones of `shape`; the first may be a part of a
/// dimension. Nothing where they do not divide it, or are not constant.
std::optional<Unflattened> unflattened(const Axis& axis, const Shape& shape) {
  std::vector<int64_t> extents;  // from the last dimension on
  const int64_t* all = as_int(axis->extent);
  int64_t rest = all ? *all : 0;
  for (size_t d = shape.size(); rest > 1 && d-- > 0;) {
    const int64_t* own = as_int(shape[d]);
    if (!own || *own < 1) return std::nullopt;
    const int64_t extent = rest % *own == 0 ? *own : *own % rest == 0 ? rest : 0;
    if (extent == 0) return std::nullopt;
    if (extent > 1) extents.push_back(extent);
    rest /= extent;
  }
  if (rest > 1 || extents.size() < 2) return std::nullopt;
  std::reverse(extents.begin(), extents.end());
  Unflattened out{{}, Expr(0)};
  for (const int64_t extent : extents) {
    out.axes.emplace_back(axis.name() + std::to_string(out.axes.size()), Expr(extent),
                          AxisKind::Reduce);
    out.value = out.axes.size() == 1 ? Expr(out.axes[0]) : out.value * extent + out.axes.back();
  }
  return out;
}

/// The one reduce axis of `r` that `load` has as its last index; null for others.
const Axis* flat_axis(const Reduce& r, const Load& load) {
  for (const Axis& axis : r.axes) {
    if (load.indices.back().get() == axis.var().get()) return &axis;
  }
  return nullptr;
}

/// The reduction with `axis` replaced; nothing where a read through a mover still divides.
std::optional<Expr> over_axes(const Operation& op, const Reduce& r, const Axis& axis,
                              const Unflattened& by) {
  Ranges ranges = ranges_of(op);
  for (const Axis& a : by.axes) ranges.set(a.var(), {0, a.extent() - 1});
  const std::vector<VarBinding> binding{{axis.var(), by.value}};
  bool divides = false;
  std::vector<Expr> sources;
  for (const Expr& source : r.sources) sources.push_back(substitute(source, binding));
  sources = dag::map_loads(sources, [&](const Load& load) {
    const Operation& mover = *tensor_of(load.buffer).op();
    const Load* moved = moved_read(mover);
    if (moved == nullptr) return make_load(load.buffer, load.indices);
    std::vector<Expr> at = read_through(mover, load.indices, ranges);
    divides |= any_division(at);
    return make_load(moved->buffer, std::move(at));
  });
  if (divides) return std::nullopt;
  std::vector<Axis> axes;
  for (const Axis& a : r.axes) {
    if (a.same_as(axis)) {
      axes.insert(axes.end(), by.axes.begin(), by.axes.end());
    } else {
      axes.push_back(a);
    }
  }
  return make_reduce(r.combiner, std::move(sources), std::move(axes), r.index);
}

/// Whether a term multiplies elements of two tensors.
bool is_product(const Expr& term) {
  const Binary* mul = term.as<Binary>();
  return mul && mul->op == BinaryOp::Mul && dag::below_casts(mul->a).as<Load>() &&
         dag::below_casts(mul->b).as<Load>();
}

std::vector<Expr> without_flat_axes(const Operation& op, const std::vector<Expr>& bodies) {
  const Reduce* r = bodies.size() == 1 ? bodies[0].as<Reduce>() : nullptr;
  if (r == nullptr || !r->combiner->commutative || is_product(r->sources[0])) return bodies;
  std::optional<Expr> found;
  dag::map_loads(r->sources, [&](const Load& load) {
    const Operation& mover = *tensor_of(load.buffer).op();
    const Load* moved = moved_read(mover);
    const Axis* axis = moved && !load.indices.empty() ? flat_axis(*r, load) : nullptr;
    if (!found && axis && any_division(read_through(mover, load.indices, ranges_of(op)))) {
      if (const auto by = unflattened(*axis, tensor_of(moved->buffer).shape()))
        found = over_axes(op, *r, *axis, *by);
    }
    return make_load(load.buffer, load.indices);
  });
  return found ? std::vector<Expr>{*found} : bodies;
}

}  // namespace

std::vector<Tensor> unflatten_sums(const PassContext& context) {
  if (context.target.is_cuda()) return context.dag.outputs();
  int changed = 0;
  std::vector<Tensor> outputs = map_graph(
      context.dag,
      [&](int s, const std::vector<Expr>& bodies) {
        return context.dag.info(s).scan ? bodies : without_flat_axes(context.dag.stage(s), bodies);
      },
      &changed);
  if (changed == 0) return context.dag.outputs();
  context.changed(std::to_string(changed) + " reductions run over axes that were flattened");
  return outputs;
}

}  // namespace heddle::network
