// Questions about the axes of a schedule that is applied to all sizes of a family.
#pragma once

#include "heddle/schedule/schedule.h"
#include "ir/sizes.h"
#include "schedule/steps/schedule_state.h"

namespace heddle::family {

class FamilyAxes {
 public:
  /// Schedules with all their steps, at one size and for all.
  FamilyAxes(const Schedule& one, const Schedule& all) : one_(one.state()), all_(all.state()) {}

  const AxisState& at(int id) const { return one_.axes[static_cast<size_t>(id)]; }
  const StageState& stage_of(int axis) const {
    return one_.stages[static_cast<size_t>(at(axis).stage)];
  }
  const std::vector<StageState>& stages() const { return one_.stages; }

  /// Whether the length of the axis depends on the sizes.
  bool is_sized(int id) const {
    const AxisState& a = all_.axes[static_cast<size_t>(id)];
    switch (a.origin) {
      case AxisOrigin::Root: return is_symbolic(a.extent);
      case AxisOrigin::Fused: return is_sized(a.fuse_a) || is_sized(a.fuse_b);
      case AxisOrigin::SplitOuter:
      case AxisOrigin::SplitInner: return is_sized(a.parent);
    }
    return false;
  }
  /// Whether the axis counts a dimension itself, or parts of it, and not several things for each.
  bool is_size(int id) const {
    const AxisState& a = all_.axes[static_cast<size_t>(id)];
    switch (a.origin) {
      case AxisOrigin::Root: return a.extent.as<VarNode>() != nullptr;
      case AxisOrigin::Fused: return false;
      case AxisOrigin::SplitOuter:
      case AxisOrigin::SplitInner: return is_size(a.parent);
    }
    return false;
  }
  /// Whether `id` ends in loops of registers, vectors or a matrix unit.
  bool needs_length(int id) const {
    const AxisState& a = at(id);
    if (a.split_outer >= 0) return needs_length(a.split_outer) || needs_length(a.split_inner);
    if (a.fused_into >= 0) return needs_length(a.fused_into);
    return a.loop != LoopKind::Serial;
  }
  /// Whether `id` is, or is cut into, vectors.
  bool becomes_vectors(int id) const {
    const AxisState& a = at(id);
    if (a.split_outer >= 0) return becomes_vectors(a.split_outer) || becomes_vectors(a.split_inner);
    if (a.fused_into >= 0) return becomes_vectors(a.fused_into);
    return a.loop == LoopKind::Vectorized;
  }
  /// Whether the axis is cut into blocks at the root whose length no other step needs.
  bool is_cut_into_blocks(int id) const {
    const AxisState& a = at(id);
    return a.split_inner >= 0 && !a.whole && a.kind == AxisKind::Spatial &&
           stage_of(id).placement == Placement::Root && !needs_length(a.split_inner);
  }
  /// The loop that the fusions of `id` lead to.
  int fused(int id) const {
    while (at(id).fused_into >= 0) id = at(id).fused_into;
    return id;
  }
  bool is_parallel(int id) const {
    const AxisState& a = at(id);
    if (a.split_outer >= 0) return is_parallel(a.split_outer);
    if (a.fused_into >= 0) return is_parallel(a.fused_into);
    return a.loop == LoopKind::Parallel;
  }

 private:
  const ScheduleState& one_;
  const ScheduleState& all_;
};

}  // namespace heddle::family
