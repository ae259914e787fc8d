#include "family/constant_axis.h"
#include "ir/fold.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace heddle::family {
namespace {

constexpr int64_t kLeastLength =
    4;                        // tiles of a part; shorter ones read the other operand too often
constexpr int64_t kEven = 8;  // a part is longer than the mean by at most one in so many

/// The most parts of `length` iterations that are even and long enough, and divide `cores`.
int64_t even_parts(int64_t length, int64_t cores) {
  for (int64_t parts = std::min(cores, length / kLeastLength); parts > 1; --parts) {
    const int64_t beyond = ceil_div(length, parts) * parts - length;
    if (cores % parts == 0 && beyond * kEven <= length) return parts;
  }
  return 1;
}

/// The parts of the parallel loop, outermost first; empty where fusions are nested in another way.
std::vector<int> fused_parts(const FamilyAxes& axes, int loop) {
  std::vector<int> parts;
  for (; axes.at(loop).origin == AxisOrigin::Fused; loop = axes.at(loop).fuse_a) {
    const int last = axes.at(loop).fuse_b;
    if (axes.at(last).origin == AxisOrigin::Fused) return {};
    parts.push_back(last);
  }
  parts.push_back(loop);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

bool is_block_loop(const FamilyAxes& axes, int id) {
  return axes.at(id).origin == AxisOrigin::SplitOuter &&
         axes.is_cut_into_blocks(axes.at(id).parent);
}

/// Whether what is computed in a block, such as a packed operand, serves all of the tiles along
/// this axis. Each part would compute it again.
bool blocks_share(const FamilyAxes& axes, int tiles) {
  const std::vector<int>& loops = axes.stage_of(tiles).leaves;
  const auto inside = std::find(loops.begin(), loops.end(), tiles);
  return std::any_of(axes.stages().begin(), axes.stages().end(), [&](const StageState& s) {
    return s.placement == Placement::At && std::find(loops.begin(), inside, s.at_axis) != inside;
  });
}

/// The steps with `first` as the outermost of `parts`, which are fused.
StepChanges as_outermost(const Schedule& one, std::vector<int> parts, int first) {
  const std::vector<int> before = parts;
  const auto at = std::find(parts.begin(), parts.end(), first);
  std::rotate(parts.begin(), at, at + 1);
  StepChanges changes;
  bool ordered = before == parts;
  int outer = parts[0];
  size_t fused = 1;
  for (size_t i = 0; i < one.steps().size(); ++i) {
    Step step = one.steps()[i];
    if (step.kind == StepKind::Reorder && !ordered) {
      size_t next = 0;
      for (int& axis : step.axes) {
        if (std::find(before.begin(), before.end(), axis) == before.end()) continue;
        if (next == before.size() || axis != before[next]) return {};
        axis = parts[next++];
      }
      if (next == 0) continue;
      if (next != before.size()) return {};
      ordered = true;
    } else if (step.kind == StepKind::Fuse && fused < before.size() &&
               step.axes[1] == before[fused]) {
      if (!ordered) return {};
      step.axes = {outer, parts[fused++]};
      outer = step.results[0];
    } else {
      continue;
    }
    changes.emplace(i, std::move(step));
  }
  return fused == before.size() ? changes : StepChanges();
}

/// The threads share the constant axis whose blocks the loop `blocks` of `parts` counts; nullopt
/// where it has no even parts for them.
std::optional<ConstantShares> shares_of(const Schedule& one, const FamilyAxes& axes,
                                        const std::vector<int>& parts, int blocks, int loop) {
  const AxisState& axis = axes.at(axes.at(blocks).parent);
  if (blocks_share(axes, axis.split_inner)) return std::nullopt;
  const int64_t shares = even_parts(axis.static_extent, one.target().cores);
  if (shares == 1) return std::nullopt;
  ConstantShares out{as_outermost(one, parts, blocks), shares, loop};
  if (out.changes.empty()) return std::nullopt;
  const int64_t length = ceil_div(axis.static_extent, shares);
  for (size_t i = 0; i < one.steps().size(); ++i) {
    Step step = one.steps()[i];
    if (step.kind != StepKind::Split || step.results[0] != blocks) continue;
    step.params[0] = Param(ceil_div(length, ceil_div(length, axis.factor)));
    out.changes.emplace(i, std::move(step));
  }
  return out;
}

}  // namespace

std::optional<ConstantShares> share_constant_axis(const Schedule& at_one_size,
                                                  const FamilyAxes& axes) {
  for (const Step& parallel : at_one_size.steps()) {
    if (parallel.kind != StepKind::Parallel) continue;
    const int loop = parallel.axes[0];
    const std::vector<int> parts = fused_parts(axes, loop);
    const auto varies = [&](int id) { return is_block_loop(axes, id) && axes.is_sized(id); };
    if (std::none_of(parts.begin(), parts.end(), varies)) continue;
    for (const int blocks : parts) {
      if (!is_block_loop(axes, blocks) || axes.is_sized(blocks)) continue;
      if (std::optional<ConstantShares> shares = shares_of(at_one_size, axes, parts, blocks, loop))
        return shares;
    }
  }
  return std::nullopt;
}

}  // namespace heddle::family
