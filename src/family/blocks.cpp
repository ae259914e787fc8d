#include "family/blocks.h"

#include <algorithm>
#include <utility>

#include "family/axes.h"
#include "family/constant_axis.h"
#include "heddle/family/schedule.h"
#include "heddle/support/error.h"

namespace heddle::family {
namespace {

constexpr int64_t kLonger = 4;
constexpr int64_t kBlocksPerCore = 8;

/// Whether `step` cuts an axis of varying length into blocks, and no other step needs the length of
/// the blocks.
bool makes_blocks(const Step& step, const FamilyAxes& axes) {
  return step.kind == StepKind::Split && axes.is_sized(step.axes[0]) &&
         axes.is_cut_into_blocks(step.axes[0]);
}

/// Whether `step` only orders the blocks of an axis of varying length: both of its loops are parts
/// of one loop over blocks.
bool is_raster(const Step& step, const FamilyAxes& axes) {
  if (step.kind != StepKind::Split || !axes.is_sized(step.axes[0])) return false;
  const AxisState& a = axes.at(step.axes[0]);
  if (a.split_outer < 0) return false;
  const int outer = axes.fused(a.split_outer), inner = axes.fused(a.split_inner);
  return outer == inner && is_block(axes.at(outer).loop);
}

Step with_factor(Step split, int64_t factor) {
  split.params[0] = Param(factor);
  return split;
}

/// Blocks of four times the length where one block is all.
StepChanges longer(const Schedule& one, const FamilyAxes& axes) {
  StepChanges changes;
  for (size_t i = 0; i < one.steps().size(); ++i) {
    const Step& step = one.steps()[i];
    if (!makes_blocks(step, axes)) continue;
    const AxisState& a = axes.at(step.axes[0]);
    if (a.static_extent <= a.factor) changes.emplace(i, with_factor(step, kLonger * a.factor));
  }
  return changes;
}

/// The length of blocks of at most `length` in place of `factor`. An axis of rows in a row, such as
/// the tiles of all images, is cut where its blocks were cut: others would be in parts of rows, and
/// what is computed for a block would be that of whole rows.
int64_t shorter_length(const FamilyAxes& axes, int axis, int64_t factor, int64_t length) {
  if (axes.is_size(axis)) return length;
  while (factor % length != 0) --length;
  return length;
}

StepChanges shared(const Schedule& one, const FamilyAxes& axes) {
  std::optional<ConstantShares> constant = share_constant_axis(one, axes);
  StepChanges changes = constant ? std::move(constant->changes) : StepChanges();
  for (size_t i = 0; i < one.steps().size(); ++i) {
    const Step& step = one.steps()[i];
    if (!makes_blocks(step, axes)) continue;
    const AxisState& a = axes.at(step.axes[0]);
    if (a.static_extent <= a.factor || !axes.is_parallel(a.split_outer)) continue;
    int64_t cores = one.target().cores;
    if (constant && axes.fused(a.split_outer) == constant->loop) cores /= constant->parts;
    if (cores == 1) continue;
    const int64_t blocks = kBlocksPerCore * cores;
    const int64_t most = (a.static_extent + blocks - 1) / blocks;
    if (most >= a.factor) continue;
    const int64_t length = shorter_length(axes, step.axes[0], a.factor, most);
    changes.emplace(i, with_factor(step, length));
  }
  return changes;
}

/// Nothing where there are no changes, or the changed schedule does not hold for all sizes.
std::optional<Schedule> changed(const Schedule& at_one_size, const ComputeDag& family,
                                const StepChanges& changes) {
  if (changes.empty()) return std::nullopt;
  try {
    return for_all_sizes(at_one_size, family, changes);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User) throw;
    return std::nullopt;
  }
}

}  // namespace

StepChanges without_rasters(const Schedule& at_one_size, const ComputeDag& family) {
  const Schedule all = for_all_sizes(at_one_size, family);
  const FamilyAxes axes(at_one_size, all);
  StepChanges changes;
  for (size_t i = 0; i < at_one_size.steps().size(); ++i) {
    const Step& step = at_one_size.steps()[i];
    if (is_raster(step, axes)) changes.emplace(i, with_factor(step, 1));
  }
  return changes;
}

std::array<BlockForm, 3> block_forms(const Schedule& at_one_size,
                                     const std::vector<Tensor>& outputs) {
  std::array<BlockForm, 3> forms{{{"", heddle::for_all_sizes(at_one_size, outputs)},
                                  {", longer blocks"},
                                  {", shared blocks"}}};
  if (at_one_size.target().is_cuda()) return forms;
  const ComputeDag family = graph_of(at_one_size, outputs);
  const FamilyAxes axes(at_one_size, *forms[0].schedule);
  forms[1].schedule = changed(at_one_size, family, longer(at_one_size, axes));
  forms[2].schedule = changed(at_one_size, family, shared(at_one_size, axes));
  return forms;
}

Schedule shared_at_all_sizes(const Schedule& at_one_size, const std::vector<Tensor>& outputs) {
  Schedule all = heddle::for_all_sizes(at_one_size, outputs);
  if (at_one_size.target().is_cuda() || at_one_size.target().cores <= 1) return all;
  std::optional<Schedule> made = changed(at_one_size, graph_of(at_one_size, outputs),
                                         shared(at_one_size, FamilyAxes(at_one_size, all)));
  return made ? *std::move(made) : all;
}

}  // namespace heddle::family
