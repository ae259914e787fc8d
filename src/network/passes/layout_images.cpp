#include "network/passes/layout_images.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dag/map_loads.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/support/error.h"
#include "network/passes/map_graph.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

/// The dimensions of weights in the order of a new layout.
using WeightLayout = std::vector<size_t>;

/// Whether stage `s` convolves each channel with a filter of its own, weights[channel, 0, r, s].
bool is_depthwise(const ComputeDag& dag, int s, const Tensor& weights) {
  if (!dag.stage(s).is_reduction() || weights.rank() != Images::kRank || weights.extent(1) != 1)
    return false;
  const Axis& channel = dag.stage(s).axes()[1];
  return std::all_of(dag.info(s).reads.begin(), dag.info(s).reads.end(),
                     [&](const Access& a) { return a.depends_on(channel); });
}

/// Whether stage `s` convolves groups of channels, each with filters of its own.
bool convolves_groups(const ComputeDag& dag, int s) {
  const Axis& channel = dag.stage(s).axes()[1];
  return std::any_of(dag.info(s).reads.begin(), dag.info(s).reads.end(),
                     [&](const Access& a) { return reads_groups(a, channel); });
}

/// Whether a stage reads weights[k, c, r, s] with several taps r and s, and sums over the channels
/// c.
bool sums_channels_of_taps(const Operation& op, const Load& weights) {
  const Tensor of = tensor_of(weights.buffer);
  if (of.rank() != Images::kRank || of.extent(1) == 1 || of.extent(2) * of.extent(3) == 1)
    return false;
  return std::any_of(op.reduce_axes().begin(), op.reduce_axes().end(), [&](const Axis& axis) {
    return weights.indices[1].get() == axis.var().get();
  });
}

/// What belongs to the dimensions [n, c, y, x] of an image, in the order of its layout.
template <class T>
std::vector<T> in_order(ImageLayout layout, const std::vector<T>& of) {
  if (layout == ImageLayout::Declared) return of;
  return {of[0], of[2], of[3], of[1]};
}

class Layouter {
 public:
  Layouter(const ComputeDag& dag, const ImageLayouts& layouts) : dag_(dag), layouts_(layouts) {}

  std::vector<Tensor> run() {
    for (int s = 0; s < dag_.size(); ++s) now_.push_back(declared(s));
    std::vector<Tensor> outputs;
    for (const Tensor& t : dag_.outputs()) outputs.push_back(tensor_now(t));
    return outputs;
  }

 private:
  Tensor tensor_now(const Tensor& t) const {
    return now_[static_cast<size_t>(dag_.index_of(t.op()))]->output(t.index());
  }

  /// Stage `s`, declared again if it or what it reads has changed.
  Ref<const Operation> declared(int s) {
    const Operation& op = dag_.stage(s);
    if (op.is_placeholder()) return dag_.stage_ref(s);
    bool changed = layouts_.at(s) != ImageLayout::Declared;
    std::vector<Expr> bodies = dag::map_loads(op.bodies(), [&](const Load& load) {
      const Tensor before = tensor_of(load.buffer);
      changed |= !before.same_as(tensor_now(before));
      return read(s, load);
    });
    if (!changed) return dag_.stage_ref(s);
    Ref<const Operation> made =
        declared_again(op, in_order(layouts_.at(s), op.axes()), std::move(bodies));
    HEDDLE_ICHECK(made, "'" + op.name() + "' cannot be declared in another layout");
    return made;
  }

  Expr read(int s, const Load& load) {
    const Tensor before = tensor_of(load.buffer), after = tensor_now(before);
    const int from = dag_.index_of(before.op());
    if (layouts_.at(from) != ImageLayout::Declared)
      return make_load(after.buffer(), in_order(layouts_.at(from), load.indices));
    const bool constant = dag::is_constant_stage(dag_, from);
    const WeightLayout layout = constant ? weight_layout(s, load) : WeightLayout();
    if (layout.empty()) return make_load(after.buffer(), load.indices);
    const auto [it, added] = weights_.try_emplace({from, layout});
    if (added) it->second = laid(after, layout);
    std::vector<Expr> there;
    for (const size_t d : layout) there.push_back(load.indices[d]);
    return make_load(it->second.buffer(), std::move(there));
  }

  /// The layout of a constant operand of a reduction; empty where it stays as it is.
  WeightLayout weight_layout(int s, const Load& load) const {
    if (!dag_.stage(s).is_reduction() || layouts_.at(s) != ImageLayout::ChannelsLast) return {};
    if (is_depthwise(dag_, s, tensor_of(load.buffer))) return {2, 3, 1, 0};
    // CPUs do not pack the weights of groups, whose vectors are filters side by side.
    const Tensor weights = tensor_of(load.buffer);
    if (!layouts_.lay_weights && weights.rank() == Images::kRank && convolves_groups(dag_, s))
      return {1, 2, 3, 0};
    if (layouts_.lay_weights && sums_channels_of_taps(dag_.stage(s), load)) return {0, 2, 3, 1};
    return {};
  }

  /// The weights in another layout.
  static Tensor laid(const Tensor& weights, const WeightLayout& layout) {
    std::vector<Axis> axes;
    std::vector<Expr> at(layout.size());
    for (const size_t d : layout) {
      axes.emplace_back("d" + std::to_string(d), Expr(weights.extent(static_cast<int>(d))),
                        AxisKind::Spatial);
      at[d] = axes.back();
    }
    return Operation::make_compute(weights.name() + "_laid", std::move(axes),
                                   {make_load(weights.buffer(), std::move(at))}, "transpose",
                                   weights.op()->where())
        ->output(0);
  }

  const ComputeDag& dag_;
  const ImageLayouts& layouts_;
  std::vector<Ref<const Operation>> now_;
  std::map<std::pair<int, WeightLayout>, Tensor> weights_;  ///< by their stage and layout
};

}  // namespace

std::vector<Tensor> lay_images(const ComputeDag& dag, const ImageLayouts& layouts) {
  return Layouter(dag, layouts).run();
}

}  // namespace heddle::network
