#include "driver/family_blocks.h"

#include <algorithm>

#include "heddle/driver/family.h"
#include "heddle/ir/sizes.h"
#include "schedule/schedule_state.h"

namespace heddle::family {
namespace {

constexpr int64_t kLonger = 4;
constexpr int64_t kBlocksPerCore = 8;

class Blocks {
 public:
  /// Schedules with all their steps, at one size and for all.
  Blocks(const Schedule& one, const Schedule& all) : one_(one.state()), all_(all.state()) {}

  /// Whether `step` cuts an axis of varying length into blocks, and no other step needs the length
  /// of the blocks.
  bool is_block(const Step& step) const {
    if (step.kind != StepKind::Split) return false;
    const AxisState& a = at(step.axes[0]);
    if (a.split_inner < 0 || a.whole || a.kind != AxisKind::Spatial || !is_sized(step.axes[0]))
      return false;
    const Placement placement = one_.stages[static_cast<size_t>(a.stage)].placement;
    return placement == Placement::Root && !needs_length(a.split_inner);
  }

  /// Whether `step` only orders the blocks of an axis of varying length: both of its loops are
  /// parts of one loop over blocks.
  bool is_raster(const Step& step) const {
    if (step.kind != StepKind::Split || !is_sized(step.axes[0])) return false;
    const AxisState& a = at(step.axes[0]);
    if (a.split_outer < 0) return false;
    const int outer = fused(a.split_outer), inner = fused(a.split_inner);
    return outer == inner && heddle::is_block(at(outer).loop);
  }

  /// The factor in this form; 0: unchanged.
  int64_t factor(const Step& step, BlockForm form, int64_t cores) const {
    const AxisState& a = at(step.axes[0]);
    if (form == BlockForm::Longer) return a.static_extent <= a.factor ? kLonger * a.factor : 0;
    if (a.static_extent <= a.factor || !is_parallel(a.split_outer)) return 0;
    const int64_t blocks = kBlocksPerCore * cores;
    const int64_t length = (a.static_extent + blocks - 1) / blocks;
    return length < a.factor ? length : 0;
  }

 private:
  const AxisState& at(int id) const { return one_.axes[static_cast<size_t>(id)]; }

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
  /// Whether `id` ends in loops of registers, vectors or a matrix unit.
  bool needs_length(int id) const {
    const AxisState& a = at(id);
    if (a.split_outer >= 0) return needs_length(a.split_outer) || needs_length(a.split_inner);
    if (a.fused_into >= 0) return needs_length(a.fused_into);
    return a.loop != LoopKind::Serial;
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

  const ScheduleState& one_;
  const ScheduleState& all_;
};

}  // namespace

SplitFactors without_rasters(const Schedule& at_one_size, const ComputeDag& family) {
  const Schedule all = for_all_sizes(at_one_size, family);
  const Blocks blocks(at_one_size, all);
  SplitFactors factors;
  for (const Step& step : at_one_size.steps()) factors.push_back(blocks.is_raster(step) ? 1 : 0);
  return factors;
}

std::optional<Schedule> with_blocks(const Schedule& at_one_size, const ComputeDag& family,
                                    BlockForm form) {
  const Schedule all = for_all_sizes(at_one_size, family);
  const Blocks blocks(at_one_size, all);
  SplitFactors factors;
  for (const Step& step : at_one_size.steps()) {
    factors.push_back(blocks.is_block(step) ? blocks.factor(step, form, at_one_size.target().cores)
                                            : 0);
  }
  const bool changed = std::any_of(factors.begin(), factors.end(), [](int64_t f) { return f > 0; });
  if (!changed) return std::nullopt;
  return for_all_sizes(at_one_size, family, factors);
}

Schedule shared_at_all_sizes(const Schedule& at_one_size, const std::vector<Tensor>& outputs) {
  std::optional<Schedule> shorter;
  if (!at_one_size.target().is_cuda() && at_one_size.target().cores > 1)
    shorter = with_blocks(at_one_size, ComputeDag(outputs), BlockForm::Shorter);
  return shorter ? *std::move(shorter) : heddle::for_all_sizes(at_one_size, outputs);
}

}  // namespace heddle::family
