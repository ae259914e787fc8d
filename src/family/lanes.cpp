#include "family/lanes.h"

#include <algorithm>

#include "family/axes.h"
#include "heddle/family/schedule.h"
#include "heddle/lower/lower.h"

namespace heddle::family {
namespace {

/// Whether a loop of rows and their elements becomes vectors, which only then may cross rows.
bool fuses_rows(const Schedule& one, const Schedule& all) {
  const FamilyAxes axes(one, all);
  for (const Step& step : one.steps()) {
    if (step.kind == StepKind::Fuse && axes.is_sized(step.axes[1]) &&
        axes.becomes_vectors(step.results[0]))
      return true;
  }
  return false;
}

bool divides_lanes(const Expr& e) {
  const Binary* b = e.as<Binary>();
  return b && b->dtype.is_vector() && !b->dtype.is_float() &&
         (b->op == BinaryOp::FloorDiv || b->op == BinaryOp::FloorMod) && !sizes_in(b->b).empty();
}

}  // namespace

bool divides_in_lanes(const Schedule& at_one_size, const std::vector<Tensor>& outputs) {
  const bool fuses = std::any_of(at_one_size.steps().begin(), at_one_size.steps().end(),
                                 [](const Step& step) { return step.kind == StepKind::Fuse; });
  if (!fuses || !at_one_size.dag().alternative().empty()) return false;
  const Schedule all = heddle::for_all_sizes(at_one_size, outputs);
  if (!fuses_rows(at_one_size, all)) return false;
  std::vector<Tensor> args = all.dag().direct().placeholders();
  args.insert(args.end(), all.dag().outputs().begin(), all.dag().outputs().end());
  bool found = false;
  visit(
      lower(all, args).main.body, [](const Stmt&) {},
      [&](const Expr& e) { found |= divides_lanes(e); });
  return found;
}

}  // namespace heddle::family
