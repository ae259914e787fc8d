#include "network/passes/layout_images.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dag/map_loads.h"
#include "dag/rewrite_parts.h"
#include "network/passes/map_graph.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

/// A dimension of weights in a new layout.
struct LaidDim {
  enum Part : char { kWhole, kBlock, kInBlock };
  size_t from = 0;  ///< the dimension of the weights
  Part part = kWhole;

  friend auto operator<=>(const LaidDim&, const LaidDim&) = default;
};
using WeightLayout = std::vector<LaidDim>;

/// Whether stage `s` convolves each channel with a filter of its own, weights[channel, 0, r, s].
bool is_depthwise(const ComputeDag& dag, int s, const Tensor& weights) {
  if (!dag.stage(s).is_reduction() || weights.rank() != Images::kRank || weights.extent(1) != 1)
    return false;
  const Axis& channel = dag.stage(s).axes()[1];
  return std::all_of(dag.info(s).reads.begin(), dag.info(s).reads.end(),
                     [&](const Access& a) { return a.depends_on(channel); });
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

/// Whether the index grows by one from one step of the axis to the next. Other terms may be
/// divisions, such as the first channel of a group.
bool steps_by_one(const Expr& index, const Axis& axis, const Ranges& ranges) {
  if (!uses_var(index, axis.var())) return false;
  const Expr next = substitute(index, {{axis.var(), Expr(axis) + 1}});
  return is_const(simplify(next - index, ranges), 1);
}

/// The order in which the spatial axes of a stage come.
std::vector<Axis> axes_in(ImageLayout layout, int64_t block, const std::vector<Axis>& axes) {
  if (layout == ImageLayout::Declared) return axes;
  if (layout == ImageLayout::ChannelsLast) return {axes[0], axes[2], axes[3], axes[1]};
  const std::string& name = axes[1].name();
  return {axes[0], Axis(name + "o", Expr(axes[1].extent() / block), AxisKind::Spatial), axes[2],
          axes[3], Axis(name + "i", Expr(block), AxisKind::Spatial)};
}

/// Simplifies the conditions of selects, so that one about channels is about whole blocks.
Expr with_simple_conditions(const Expr& e, const Ranges& ranges, RewriteMemo& memo) {
  return memo(e, [&](const Expr& at) {
    const Expr out =
        map_children(at, [&](const Expr& c) { return with_simple_conditions(c, ranges, memo); });
    const Select* s = out.as<Select>();
    if (s == nullptr) return out;
    return make_select(simplify(s->condition, ranges), s->on_true, s->on_false);
  });
}

class Layouter {
 public:
  Layouter(const ComputeDag& dag, const ImageLayouts& layouts) : dag_(dag), layouts_(layouts) {}

  LaidImages run() {
    for (int s = 0; s < dag_.size(); ++s) {
      now_.push_back(dag_.stage_ref(s));
      if (dag_.stage(s).is_placeholder()) continue;
      Ref<const Operation> made;
      if (!declared(s, made)) return {{}, s};
      if (made) now_.back() = std::move(made);
    }
    LaidImages done;
    for (const Tensor& t : dag_.outputs()) done.outputs.push_back(tensor_now(t));
    return done;
  }

 private:
  Tensor tensor_now(const Tensor& t) const {
    return now_[static_cast<size_t>(dag_.index_of(t.op()))]->output(t.index());
  }

  /// Declares stage `s` again, if it or what it reads has changed. False where that is impossible.
  bool declared(int s, Ref<const Operation>& made) {
    const Operation& op = dag_.stage(s);
    const StageAxes axes(dag_, s, layouts_);
    bool changed = layouts_.at(s) != ImageLayout::Declared;
    std::vector<Expr> bodies = dag::map_loads(op.bodies(), [&](const Load& load) {
      const Tensor before = tensor_of(load.buffer);
      changed |= !before.same_as(tensor_now(before));
      return read(s, load, axes);
    });
    if (!changed) return true;
    if (!axes.bindings.empty()) {
      RewriteMemo memo;
      for (Expr& body : bodies)
        body = with_simple_conditions(substitute(body, axes.bindings), axes.ranges, memo);
      for (Expr& body : bodies) {
        if (const Reduce* r = body.as<Reduce>())
          body = make_reduce(r->combiner, r->sources, axes.reduce_axes, r->index);
      }
    }
    made = declared_again(op, axes.axes, std::move(bodies));
    return static_cast<bool>(made);
  }

  Expr read(int s, const Load& load, const StageAxes& axes) {
    const Tensor before = tensor_of(load.buffer), after = tensor_now(before);
    const int from = dag_.index_of(before.op());
    std::vector<Expr> at = load.indices;
    if (layouts_.at(from) != ImageLayout::Declared) {
      if (!axes.bindings.empty()) {
        for (Expr& i : at) i = axes.index(i);
      }
      return make_load(after.buffer(),
                       indices_in(layouts_.at(from), layouts_.block, at, axes.ranges));
    }
    const bool constant = dag::is_constant_stage(dag_, from);
    const WeightLayout layout = constant ? weight_layout(s, load, axes) : WeightLayout();
    if (layout.empty()) return make_load(after.buffer(), std::move(at));
    const auto [it, added] = weights_.try_emplace({from, layout});
    if (added) it->second = laid(after, layout);
    std::vector<Expr> there;
    for (const LaidDim& d : layout) there.push_back(part_of(axes.index(at[d.from]), d, axes));
    return make_load(it->second.buffer(), std::move(there));
  }

  /// The layout of a constant operand of a reduction; empty where it stays as it is.
  WeightLayout weight_layout(int s, const Load& load, const StageAxes& axes) const {
    if (!dag_.stage(s).is_reduction()) return {};
    const Tensor weights = tensor_of(load.buffer);
    if (layouts_.at(s) == ImageLayout::ChannelsLast && is_depthwise(dag_, s, weights))
      return {
          {2, LaidDim::kWhole}, {3, LaidDim::kWhole}, {1, LaidDim::kWhole}, {0, LaidDim::kWhole}};
    if (layouts_.lay_weights && layouts_.at(s) == ImageLayout::ChannelsLast &&
        sums_channels_of_taps(dag_.stage(s), load))
      return {
          {0, LaidDim::kWhole}, {2, LaidDim::kWhole}, {3, LaidDim::kWhole}, {1, LaidDim::kWhole}};
    WeightLayout outer, inner;
    for (size_t d = 0; d < load.indices.size(); ++d) {
      const bool split = is_split(load.indices[d], axes) &&
                         weights.extent(static_cast<int>(d)) % layouts_.block == 0;
      outer.push_back({d, split ? LaidDim::kBlock : LaidDim::kWhole});
      if (split) inner.push_back({d, LaidDim::kInBlock});
    }
    if (inner.empty()) return {};
    // Results are the last dimension, and are read by vectors.
    const Axis& channel = dag_.stage(s).axes()[1];
    std::stable_partition(inner.begin(), inner.end(), [&](const LaidDim& d) {
      return load.indices[d.from].get() != channel.var().get();
    });
    outer.insert(outer.end(), inner.begin(), inner.end());
    return outer;
  }

  static bool is_split(const Expr& index, const StageAxes& axes) {
    return std::any_of(axes.bindings.begin(), axes.bindings.end(),
                       [&](const VarBinding& b) { return index.get() == b.var.get(); });
  }

  /// The index along dimension `d`, given that along the dimension of the weights.
  Expr part_of(const Expr& index, const LaidDim& d, const StageAxes& axes) const {
    if (d.part == LaidDim::kWhole) return index;
    const Expr by(layouts_.block);
    return simplify(d.part == LaidDim::kBlock ? floordiv(index, by) : floormod(index, by),
                    axes.ranges);
  }

  /// The weights in another layout.
  Tensor laid(const Tensor& weights, const WeightLayout& layout) const {
    const int64_t block = layouts_.block;
    std::vector<Axis> axes;
    std::vector<Expr> at(static_cast<size_t>(weights.rank()), Expr(0));
    for (const LaidDim& d : layout) {
      const int64_t extent = weights.extent(static_cast<int>(d.from));
      const std::string name = "d" + std::to_string(d.from);
      Expr& index = at[d.from];
      if (d.part == LaidDim::kWhole) {
        axes.emplace_back(name, Expr(extent), AxisKind::Spatial);
        index = axes.back();
      } else if (d.part == LaidDim::kBlock) {
        axes.emplace_back(name + "o", Expr(extent / block), AxisKind::Spatial);
        index = axes.back() * block;
      } else {
        axes.emplace_back(name + "i", Expr(block), AxisKind::Spatial);
        index = index + axes.back();
      }
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

StageAxes::StageAxes(const ComputeDag& dag, int s, const ImageLayouts& layouts) {
  const Operation& op = dag.stage(s);
  const int64_t block = layouts.block;
  axes = axes_in(layouts.at(s), block, op.axes());
  if (layouts.at(s) == ImageLayout::ChannelsBlocked)
    bindings.push_back({op.axes()[1].var(), axes[1] * block + axes.back()});
  ranges = ranges_of(op);
  const std::vector<Access>& reads = dag.info(s).reads;
  std::vector<Axis> inner;
  for (const Axis& axis : op.reduce_axes()) {
    const bool split = op.num_outputs() == 1 && as_int(axis->extent) &&
                       axis.extent() % block == 0 &&
                       std::any_of(reads.begin(), reads.end(), [&](const Access& a) {
                         return layouts.at(a.producer) == ImageLayout::ChannelsBlocked &&
                                steps_by_one(a.indices[1], axis, ranges);
                       });
    reduce_axes.push_back(
        split ? Axis(axis.name() + "o", Expr(axis.extent() / block), AxisKind::Reduce) : axis);
    if (!split) continue;
    inner.emplace_back(axis.name() + "i", Expr(block), AxisKind::Reduce);
    bindings.push_back({axis.var(), reduce_axes.back() * block + inner.back()});
  }
  reduce_axes.insert(reduce_axes.end(), inner.begin(), inner.end());
  for (const std::vector<Axis>* list : {&axes, &reduce_axes}) {
    for (const Axis& a : *list) ranges.set(a.var(), {0, std::max<int64_t>(0, a.extent() - 1)});
  }
}

Expr StageAxes::index(const Expr& of_old_axes) const {
  return bindings.empty() ? of_old_axes : simplify(substitute(of_old_axes, bindings), ranges);
}

std::vector<Expr> indices_in(ImageLayout layout, int64_t block, const std::vector<Expr>& declared,
                             const Ranges& ranges) {
  if (layout == ImageLayout::Declared) return declared;
  const std::vector<Expr>& at = declared;
  if (layout == ImageLayout::ChannelsLast) return {at[0], at[2], at[3], at[1]};
  return {at[0], simplify(floordiv(at[1], Expr(block)), ranges), at[2], at[3],
          simplify(floormod(at[1], Expr(block)), ranges)};
}

LaidImages lay_images(const ComputeDag& dag, const ImageLayouts& layouts) {
  return Layouter(dag, layouts).run();
}

}  // namespace heddle::network
