// Matrices of products that are reduced where they are computed, on the tensor cores of a GPU. Its
// parts:
//
//   schedule/groups/computed_rows.h   for which matrices
//   computed_matrix_rule.cpp          how many rows and keys a tile has
//   computed_matrix_recipe.cpp        the loops for mma.sync, with a picture
//   computed_matrix_group_recipe.cpp  the loops for wgmma and TMA, with a picture
//   computed_matrix_loops.h           what both have in common
//   here                              the knobs and what they must fulfil
#include "cuda/products/computed_matrix_group.h"

namespace heddle::meta {
namespace {

// The most registers that a thread may use, as computed_matrix_registers counts them.
constexpr int64_t kMostRegisters = 340;

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.is_cuda() && !g.attached && !g.fused.empty() &&
         find_own_matrix(dag, g.anchor).has_value();
}

ComputedMatrixProblem problem_of(const ComputedMatrix& m, const TemplateBuilder& t) {
  ComputedMatrixProblem p;
  p.rows = m.rows;
  p.keys = m.keys;
  p.cols = m.col >= 0 ? m.cols : 0;
  p.batches = m.batches;
  for (const ComputedMatrix::Product& product : m.products) p.depths.push_back(product.depth);
  p.gpu = t.target().gpu;
  p.constants = t.constants().gpu;
  return p;
}

// Those of `values` of which less than half would be beyond `extent`.
std::vector<int64_t> within(int64_t extent, std::vector<int64_t> values) {
  std::erase_if(values, [&](int64_t v) { return v > 1 && v * kMatrixUnit >= 2 * extent; });
  return values;
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ComputedMatrix m = *find_own_matrix(t.dag(), g.anchor);
  const std::vector<int> loaded = computed_matrix_group_operands(t.dag(), g, m, t.target().gpu);
  ComputedMatrixProblem p = problem_of(m, t);
  p.warp_groups = !loaded.empty();
  const Choice choice = t.decide("cuda_computed_matrix", p, computed_matrix_rule);
  ComputedMatrixKnobs k;
  k.row_tiles = t.knob("row_tiles", within(p.rows, {1, 2}), choice);
  k.row_warps = t.knob("row_warps", within(p.rows, {1, 2, 4, 8}), choice);
  k.key_units = t.knob("key_units", within(p.keys, {1, 2, 4, 8}), choice);
  k.stages = t.knob("stages", {2, 3, 4}, choice);
  const Param resident = t.choice("resident", choice);
  const auto tile = [=](const auto& v) {
    return ComputedMatrixTile{v(k.row_tiles), v(k.row_warps), v(k.key_units), v(k.stages),
                              v(resident) == 1};
  };
  t.require("half of the rows must be of use",
            [=](const auto& v) { return tile(v).rows() < std::max(2 * p.rows, 2 * kMatrixUnit); });
  const int64_t warps = most_block_threads(p.gpu) / kWarp;
  t.require("a block has at most " + std::to_string(warps) + " warps",
            [=](const auto& v) { return v(k.row_warps) <= warps; });
  t.require("the fragments must fit the registers",
            [=](const auto& v) { return computed_matrix_registers(p, tile(v)) <= kMostRegisters; });
  t.require("the tiles must fit shared memory", [=](const auto& v) {
    return computed_matrix_bytes(p, tile(v)) <= p.gpu.smem_per_block;
  });
  const auto by_mma_sync = [&] {
    for (int64_t stay : {0, 1})
      t.when(resident, stay, [&] { computed_matrix_recipe(t, g, m, k, stay == 1); });
  };
  if (!p.warp_groups || computed_matrix_group_tile(p).keys == 0) return by_mma_sync();
  const Param unit = t.kind("unit", {"mma_sync", "wgmma"}, choice);
  const ComputedMatrixGroupKnobs group = ask_computed_matrix_group(t, p, unit, choice);
  for (const int operand : loaded) {
    if (std::find(g.tunable.begin(), g.tunable.end(), operand) != g.tunable.end())
      t.keep_at_root(operand, unit, 1);
  }
  t.when(unit, "mma_sync", by_mma_sync);
  t.when(unit, "wgmma", [&] { computed_matrix_group_recipe(t, g, m, group); });
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_computed_matrix", 9, matches, build});

}  // namespace
}  // namespace heddle::meta
