#include "cpu/products/tile_plan.h"

#include <algorithm>

#include "common/costs.h"
#include "heddle/instruction/instruction.h"

namespace heddle::meta::cpu {

bool has_tiles(const Target& target, const NarrowProduct& p) {
  const MachineInstruction& amx = amx_instruction();
  const InstructionForm* form = amx.form({p.wide, p.x, p.y});
  return form && amx.legal(target, *form);
}

namespace {

int64_t largest_divisor(int64_t n, int64_t most) {
  int64_t d = std::min(n, most);
  while (n % d != 0) --d;
  return d;
}

bool is_stored(const ComputeDag& dag, const StageGroup& g, const Access& a) {
  auto has = [&](const std::vector<int>& stages) {
    return std::find(stages.begin(), stages.end(), a.producer) != stages.end();
  };
  return dag.stage(a.producer).is_placeholder() ||
         (!has(g.operands) && !has(g.inlined) && !has(g.tunable));
}

// Whether each tile of both operands, which is copied or loaded, is used a number of times.
bool worth_tiles(const ComputeDag& dag, const Operation& op, const TilePlan& p) {
  constexpr int64_t kLeastRows = 4, kLeastReuse = 32;
  const ContractionShape& sh = p.shape;
  int64_t reuse = sh.rows;
  for (int i : sh.m_others) reuse *= op.axes()[static_cast<size_t>(i)].extent();
  return sh.rows >= kLeastRows && sh.cols >= amx::kLanes &&
         p.k.extent >= amx::kGroups * p.group_size / 4 && sh.depth >= amx::kGroups * p.group_size &&
         (is_constant(dag, *sh.vector) || reuse >= kLeastReuse);
}

// Whether tiles are nearly whole, so that a copy of the row operand for whole tiles does not pay.
bool nearly_whole(const TilePlan& p) {
  constexpr int64_t kRowsOfMatrix = 14, kGroupsOfMatrix = 12, kRowsOfImage = 7, kGroupsOfImage = 4;
  const int64_t groups = p.k.extent / p.group_size;
  return p.k.extent % p.group_size == 0 && p.shape.cols % amx::kLanes == 0 &&
         p.rows >= std::min(p.shape.rows, p.matrix ? kRowsOfMatrix : kRowsOfImage) &&
         p.groups >= std::min(groups, p.matrix ? kGroupsOfMatrix : kGroupsOfImage);
}

std::optional<TilePlan> plan_tiles(const ComputeDag& dag, const StageGroup& g,
                                   const NarrowProduct& narrow) {
  const Operation& op = dag.stage(g.anchor);
  TilePlan p;
  p.shape = contraction_shape(dag, g.anchor, amx::kLanes, Columns::Scattered);
  const ContractionShape& sh = p.shape;
  const std::optional<GroupedReduction> k = grouped_reduction(op, sh);
  if (!k || sh.m < 0 || sh.vector_dim < 0 || sh.group < sh.rows) return {};
  if (sh.row->producer == sh.vector->producer) return {};
  p.k = *k;
  p.group_size = amx::kGroupBytes / narrow.x.bytes();
  if (!worth_tiles(dag, op, p)) return {};
  p.matrix = op.reduce_axes().size() == 1 && at_plain_axes(*sh.row) && at_plain_axes(*sh.vector);
  // The elements of A along a row of a tile are adjacent, and its rows have a constant distance.
  p.copies_rows = !is_stored(dag, g, *sh.row) || k->row_dim + 1 != sh.row->tensor.rank();
  p.rows = sh.rows < amx::kRows ? sh.rows : largest_divisor(sh.rows, amx::kRows);
  if (k->extent % p.group_size == 0)
    p.groups = largest_divisor(k->extent / p.group_size, amx::kGroups);
  if (nearly_whole(p)) return p;
  if (!p.matrix) return {};
  p.padded = p.copies_rows = true;
  p.rows = std::min(sh.rows, amx::kRows);
  p.groups = amx::kGroups;
  return p;
}

}  // namespace

std::optional<TilePlan> tile_plan(const ComputeDag& dag, const StageGroup& g,
                                  const Target& target) {
  if (g.anchor_class != StageClass::ComplexReduction || g.attached || g.in_chain ||
      !g.chain.empty() || dag.stage(g.anchor).axes().empty() ||
      dag.stage(g.anchor).num_outputs() != 1 || streams_operands(dag, g.anchor))
    return {};
  const std::optional<NarrowProduct> narrow = narrow_product(dag.stage(g.anchor));
  if (!narrow || !has_tiles(target, *narrow)) return {};
  return plan_tiles(dag, g, *narrow);
}

}  // namespace heddle::meta::cpu
