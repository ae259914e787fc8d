#include "heddle/family/schedule.h"

#include <algorithm>
#include <string>

#include "family/axes.h"
#include "family/blocks.h"
#include "family/near.h"
#include "heddle/dag/alternatives.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "schedule/steps/schedule_state.h"

namespace heddle {
namespace {

constexpr int64_t kUsualSize = 256;

/// Whether a split makes vectors of a register tile along an axis of varying length.
bool makes_tile(const Step& split, const family::FamilyAxes& axes) {
  const int axis = split.axes[0], inner = split.results[1];
  if (axes.at(axis).kind != AxisKind::Spatial || !axes.is_sized(axis) ||
      !axes.becomes_vectors(inner))
    return false;
  const StageState& stage = axes.stage_of(axis);
  return axes.at(inner).split_inner >= 0 || axes.at(axis).origin == AxisOrigin::SplitInner ||
         (stage.placement == Placement::At && stage.is_reduction());
}

/// The split as it was applied: its factor is at most the extent of the axis. Vectors of tiles keep
/// their lanes, because longer axes fill them, and shorter ones leave some out.
Step as_applied(const Step& step, const ScheduleState& before, const family::FamilyAxes& axes) {
  if (step.kind != StepKind::Split || tail_of(step) != TailStrategy::Shorten) return step;
  if (makes_tile(step, axes)) return step;
  Step out = step;
  const AxisState& axis = before.axes[static_cast<size_t>(step.axes[0])];
  out.params[0] = Param(std::min(step.params[0].value, std::max<int64_t>(axis.static_extent, 1)));
  return out;
}

/// A tile of a CPU's matrix unit has no tail: it must divide every axis that it cuts.
void check_tiles(const Schedule& family) {
  const ScheduleState& state = family.state();
  for (const Step& step : family.steps()) {
    if (step.kind != StepKind::Tensorize) continue;
    for (const AxisState& a : state.axes) {
      const bool cut = a.defined && a.stage == step.stage && a.split_outer >= 0;
      if (!cut || a.origin != AxisOrigin::Root || as_int(a.extent)) continue;
      if (is_const(simplify(floormod(a.extent, Expr(a.factor))), 0)) continue;
      throw_user_error(
          "the schedule uses a matrix unit, whose tiles of " + std::to_string(a.factor) +
              " have no tail for the extent " + size_text(a.extent) + " of '" + a.name + "'",
          {},
          "promise multiples of the tile, with dim(..).multiple_of(" + std::to_string(a.factor) +
              "), or choose it at a size that it does not divide");
    }
  }
}

}  // namespace

Schedule for_all_sizes(const Schedule& at_one_size, const std::vector<Tensor>& outputs) {
  const ComputeDag dag = family::graph_of(at_one_size, outputs);
  family::StepChanges changes;
  if (at_one_size.target().is_cuda()) changes = family::without_rasters(at_one_size, dag);
  return family::for_all_sizes(at_one_size, dag, changes);
}

ComputeDag family::graph_of(const Schedule& at_one_size, const std::vector<Tensor>& outputs) {
  return apply_alternative(ComputeDag(outputs), at_one_size.dag().alternative());
}

std::string family::identity(const Schedule& schedule) {
  return schedule.dag().alternative() + schedule.to_json().at("steps").dump();
}

Schedule family::for_all_sizes(const Schedule& at_one_size, const ComputeDag& dag,
                               const StepChanges& changes) {
  Schedule family(dag, at_one_size.target(), at_one_size.options());
  Schedule one(at_one_size.dag(), at_one_size.target(), at_one_size.options());
  if (family.dag().size() != one.dag().size()) {
    throw_user_error("the schedule is of another declaration than the family", {},
                     "make it for at_sizes(outputs, sizes).outputs");
  }
  for (size_t i = 0; i < at_one_size.steps().size(); ++i) {
    const Step& step = at_one_size.steps()[i];
    try {
      const auto changed = changes.find(i);
      family.apply(changed != changes.end()
                       ? changed->second
                       : as_applied(step, one.state(), FamilyAxes(at_one_size, family)));
    } catch (const Error& e) {
      if (e.kind != ErrorKind::User) throw;
      throw Error(e.kind, "the schedule does not hold for all sizes: " + e.message, e.where,
                  e.help);
    }
    one.apply(step);
  }
  if (!family.target().is_cuda()) check_tiles(family);
  family.provenance = at_one_size.provenance;
  return family;
}

std::vector<SizeValue> usual_sizes(const std::vector<Tensor>& outputs) {
  std::vector<SizeValue> at;
  for (const Var& v : sizes_of(outputs))
    at.emplace_back(v, std::clamp(kUsualSize, v->size->lo, v->size->hi));
  return at;
}

Schedule family_schedule(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& at,
                         const Target& target, const AutoSchedulerOptions& options) {
  const family::NearChoice one = family::choice_near(outputs, at, target, options);
  Schedule family = for_all_sizes(one.schedule, outputs);
  family.provenance += "; chosen at " + family::sizes_text(one.at) + " for all sizes";
  return family;
}

}  // namespace heddle
