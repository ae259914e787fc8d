// Leaves out the taps of convolutions that read nothing but padding. Windows with a dilation as
// large as the image have such taps.
//
//   p[i] = 24 <= i < 40 ? x[i - 24] : 0                             (before)
//   y[i] = sum over r < 3 of p[i + 24 r] * w[r], i < 16
//
//   y[i] = sum over r < 1 of x[i] * v[r];  v[r] = w[r + 1], once    (after)
//
// A term that is left out is zero times a weight. It was NaN where the weight is infinite.
#include <algorithm>
#include <optional>
#include <utility>

#include "dag/map_loads.h"
#include "dag/patterns/look_through.h"
#include "dag/rewrites/rebuilder.h"
#include "dag/rewrites/rewrite_parts.h"
#include "network/passes/graph_pass.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

/// What a stage reads from padding: `inside ? value : 0`, over the axes of the stage.
struct Padded {
  Expr inside, value;
};

std::optional<Padded> padded_read(const ComputeDag& dag, const Load& load) {
  const int s = dag.index_of(tensor_of(load.buffer).op());
  if (s < 0 || dag.stage(s).is_placeholder() || dag.stage(s).num_outputs() != 1)
    return std::nullopt;
  const Select* select = dag.stage(s).bodies()[0].as<Select>();
  if (!select || !is_const(select->on_false, 0) || !select->on_true.as<Load>()) return std::nullopt;
  return Padded{dag::at_indices(dag.stage(s), select->condition, load.indices),
                dag::at_indices(dag.stage(s), select->on_true, load.indices)};
}

/// A convolution of padding.
struct Windows {
  const Reduce* sum = nullptr;
  Padded image;
  const Load* padding = nullptr;
  const Load* weights = nullptr;
};

std::optional<Windows> windows_of(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  if (op.is_placeholder() || op.num_outputs() != 1 || dag.info(s).scan) return std::nullopt;
  Windows out{.sum = dag::reduction_of(op, ReduceKind::Sum, 0), .image = {}};
  const Binary* mul = out.sum ? out.sum->sources[0].as<Binary>() : nullptr;
  if (!mul || mul->op != BinaryOp::Mul) return std::nullopt;
  for (const Expr& operand : {mul->a, mul->b}) {
    const Load* load = dag::below_casts(operand).as<Load>();
    if (!load) return std::nullopt;
    if (std::optional<Padded> image = padded_read(dag, *load)) {
      out.image = std::move(*image);
      out.padding = load;
    } else if (dag::is_constant_stage(dag, dag.index_of(tensor_of(load->buffer).op()))) {
      out.weights = load;
    }
  }
  return out.padding && out.weights ? std::optional(out) : std::nullopt;
}

/// The first value of a reduce axis whose term may not be zero, and the number up to the last.
struct Taps {
  int64_t begin = 0, count = 0;
};

Taps taps_along(const Axis& axis, const Expr& inside, const Ranges& ranges) {
  int64_t begin = 0, end = axis.extent();
  const auto outside = [&](int64_t r) {
    return is_const(simplify(substitute(inside, {{axis.var(), Expr(r)}}), ranges), 0);
  };
  while (begin + 1 < end && outside(begin)) ++begin;
  while (begin + 1 < end && outside(end - 1)) --end;
  return {begin, end - begin};
}

/// The weights at the taps that are left, by dimension of the weights.
Tensor left_weights(const Tensor& weights, const std::vector<Taps>& left) {
  Shape shape;
  for (const Taps& taps : left) shape.emplace_back(taps.count);
  return compute(
      shape,
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at;
        for (size_t d = 0; d < left.size(); ++d) at.push_back(Expr(i[d]) + Expr(left[d].begin));
        return weights.at(std::move(at));
      },
      weights.name() + "_taps", "slice", weights.op()->where());
}

/// The stage without the taps that read nothing; no tensor where there are none.
Tensor without_empty_taps(const ComputeDag& dag, int s) {
  constexpr int64_t kMostTaps = 64;  // along an axis; longer ones are channels
  const std::optional<Windows> windows = windows_of(dag, s);
  if (!windows) return {};
  const Operation& op = dag.stage(s);
  const Ranges ranges = ranges_of(op);
  const Tensor weights = tensor_of(windows->weights->buffer);
  std::vector<Taps> left;
  for (const int64_t extent : weights.extents()) left.push_back({0, extent});
  std::vector<Axis> axes;
  std::vector<VarBinding> shifted, unshifted;  // of the image, and of the weights that are left
  bool changed = false;
  for (const Axis& axis : windows->sum->axes) {
    const auto dim =
        std::find_if(windows->weights->indices.begin(), windows->weights->indices.end(),
                     [&](const Expr& index) { return index.get() == axis.var().get(); });
    const bool window = dim != windows->weights->indices.end() && axis.extent() <= kMostTaps &&
                        uses_var(windows->image.inside, axis.var());
    const Taps taps =
        window ? taps_along(axis, windows->image.inside, ranges) : Taps{0, axis.extent()};
    if (taps.count < axis.extent()) {
      left[static_cast<size_t>(dim - windows->weights->indices.begin())] = taps;
      changed = true;
    }
    axes.emplace_back(axis.name(), Expr(taps.count), AxisKind::Reduce);
    shifted.push_back({axis.var(), axes.back() + Expr(taps.begin)});
    unshifted.push_back({axis.var(), axes.back()});
  }
  if (!changed) return {};
  const FreshAxes fresh(op);
  Ranges now = ranges;
  for (const Axis& axis : axes) now.set(axis.var(), {0, axis.extent() - 1});
  const auto read = [&](const Load& load) {
    if (load.buffer == windows->weights->buffer) {
      std::vector<Expr> at;
      for (const Expr& index : load.indices) at.push_back(substitute(index, unshifted));
      return left_weights(weights, left).at(std::move(at));
    }
    const bool always = is_const(simplify(substitute(windows->image.inside, shifted), now), 1);
    const Expr there = always ? windows->image.value : make_load(load.buffer, load.indices);
    return substitute(there, shifted);
  };
  const Expr source =
      dag::map_loads({windows->sum->sources[0]}, [&](const Load& load) { return read(load); })[0];
  const Expr body = make_reduce(windows->sum->combiner, {source}, axes, windows->sum->index);
  return Operation::make_compute(op.name(), fresh.axes, {substitute(body, fresh.bindings)},
                                 op.tag(), op.where())
      ->output(0);
}

}  // namespace

std::vector<Tensor> drop_taps(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  dag::Rebuilder rebuilder;
  int found = 0;
  for (int s = 0; s < dag.size(); ++s) {
    const Tensor made = without_empty_taps(dag, s);
    if (!made) continue;
    rebuilder.replace(dag.stage(s).output(0), made);
    ++found;
  }
  if (found == 0) return dag.outputs();
  context.changed("the windows of " + std::to_string(found) +
                  " convolutions leave out taps that read nothing but padding");
  return rebuilder.rebuild(dag.outputs());
}

}  // namespace heddle::network
