// Contractions of 16-bit floats, bytes and (where allowed) tf32 on the tensor cores of a GPU, by
// mma.sync (for sm_80 to sm_89, and on Hopper for products that wgmma does not take). There are
// four parts:
//
//   tensor_core_shape.h     what is such a product; a convolution is one too, of as many rows as it
//                           has pixels (implicit GEMM, product_view.h)
//   tensor_core_rule.h      which tile, how deep, in how many parts
//   tensor_core_recipe.cpp  the loops, with a picture
//   here                    the knobs and what they must fulfil
#include <optional>

#include "cuda/products/tensor_core_recipe.h"
#include "cuda/products/warp_group.h"
#include "cuda/products/window_shape.h"

namespace heddle::meta {
namespace {

// The most warps of a block that knobs offer.
constexpr int64_t kMostWarps = 16;
// All registers that a thread may use, less a few for the compiler.
constexpr int64_t kMostRegisters = 250;

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return feeds_tensor_cores(dag, g, target);
}

// The knobs, in the order that records know.
TensorCoreKnobs ask(TemplateBuilder& t, const TensorCoreProblem& p, const Choice& choice) {
  const int64_t row_units = ceil_div(p.rows, mma::kRows), col_units = ceil_div(p.cols, mma::kCols);
  TensorCoreKnobs k;
  k.row_tiles = t.knob("row_tiles", useful(row_units, {1, 2, 4}), choice);
  k.row_warps = t.knob("row_warps", useful(row_units, {1, 2, 4}), choice);
  k.col_tiles = t.knob("col_tiles", useful(col_units, {1, 2, 4, 8, 16}), choice);
  k.col_warps = t.knob("col_warps", useful(col_units, {1, 2, 4, 8}), choice);
  std::vector<int64_t> ways{0};
  if (may_split_depth(p)) ways.push_back(1);
  k.reduction = t.kind("reduction", choice, ways);
  t.alias(k.reduction, "mode");
  if (may_split_depth(p)) k.k_part = t.knob("k_part", part_lengths(p), choice);
  const bool split = t.chosen(k.reduction) == 1;
  const int64_t steps = mma_steps(p, split ? t.chosen(k.k_part) : 0);
  k.tile_k = t.knob("tile_k", useful(steps, {1, 2, 4, 8}), choice);
  k.stages = t.knob("stages", {2, 3, 4, 5, 6}, choice);
  return k;
}

void require_legal(TemplateBuilder& t, const TensorCoreProblem& p, const TensorCoreKnobs& k) {
  const Gpu gpu = p.gpu;
  const int64_t pack = p.pack, mma_k = p.mma_k();
  const int64_t row_limit = std::max(2 * p.rows, 2 * mma::kRows),
                col_limit = std::max(2 * p.cols, 2 * mma::kCols);
  t.require("half of the tile must be of use", [=](const auto& v) {
    return mma::kRows * v(k.row_tiles) * v(k.row_warps) < row_limit &&
           mma::kCols * v(k.col_tiles) * v(k.col_warps) < col_limit;
  });
  if (may_split_depth(p)) {
    t.require("a part must be whole tiles", [=](const auto& v) {
      return v(k.reduction) == 0 || v(k.k_part) % (mma_k * v(k.tile_k)) == 0;
    });
  }
  const int64_t most_warps = std::min<int64_t>(kMostWarps, most_block_threads(gpu) / kWarp);
  t.require("a block has at most " + std::to_string(most_warps) + " warps",
            [=](const auto& v) { return v(k.row_warps) * v(k.col_warps) <= most_warps; });
  t.require("the fragments must fit the registers", [=](const auto& v) {
    const int64_t registers = registers_of({v(k.row_tiles), 1, v(k.col_tiles), 1, 1});
    return registers <= kMostRegisters &&
           registers * v(k.row_warps) * v(k.col_warps) * kWarp <= gpu.registers_per_sm;
  });
  t.require("the tiles must fit shared memory", [=](const auto& v) {
    const int64_t rows = mma::kRows * v(k.row_tiles) * v(k.row_warps),
                  cols = mma::kCols * v(k.col_tiles) * v(k.col_warps);
    return tile_bytes(rows, cols, mma_k * v(k.tile_k), pack) * v(k.stages) <= gpu.smem_per_block;
  });
}

// The modelled cycles of the chosen tile of mma.sync.
double cycles_of_choice(const TensorCoreProblem& p, const Choice& c) {
  TensorCoreTile tile{c.value("row_tiles"), c.value("row_warps"), c.value("col_tiles"),
                      c.value("col_warps"), 1};
  if (c.value("reduction") == 1) tile.parts = ceil_div(p.depth, c.value("k_part"));
  return tensor_core_cycles(p, tile);
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const TensorCoreShape shape(t.dag(), g);
  const TensorCoreProblem problem = shape.problem(t.target().gpu, t.constants().gpu);
  const Choice choice = t.decide("cuda_tensor_core", problem, tensor_core_rule);
  TensorCoreKnobs knobs = ask(t, problem, choice);
  require_legal(t, problem, knobs);
  const auto reduce = [&](const TensorCoreShape& of) {
    t.when(knobs.reduction, "whole", [&] { tensor_core_whole(t, g, of, knobs); });
    if (may_split_depth(problem))
      t.when(knobs.reduction, "split_k", [&] { tensor_core_parts(t, g, of, knobs); });
  };
  const auto by_mma_sync = [&] {
    if (!shape.innermost()) return reduce(shape);
    knobs.channels_last = t.choice("channels_last", choice);
    t.when(knobs.channels_last, 0, [&] { reduce(shape); });
    t.when(knobs.channels_last, 1, [&] { reduce(shape.of_copies()); });
  };
  if (takes_warp_groups(t.dag(), g, shape, problem.gpu)) {
    std::optional<TensorCoreProblem> exchanged;
    if (!shape.view() && problem.cols > wgmma::kRowsOfWarp)
      exchanged = shape.exchanged().problem(problem.gpu, problem.constants);
    const WarpGroupProblem of_groups{problem, cycles_of_choice(problem, choice),
                                     exchanged ? &*exchanged : nullptr};
    const Choice groups = t.decide(
        "cuda_warp_group", of_groups,
        [](const WarpGroupProblem& p, const Choice& given) { return warp_group_rule(p, given); });
    const Param unit = t.kind("unit", {"mma_sync", "wgmma"}, groups, {0, 1});
    const WarpGroupKnobs group_knobs = ask_warp_group(t, of_groups, unit, groups);
    for (const int operand : shape.producers()) {
      // TMA pads images by itself.
      if (may_be_at_root(g, operand) && (!shape.view() || can_be_in_memory(t.dag(), g, operand)))
        t.keep_at_root(operand, unit, 1);
    }
    t.when(unit, "mma_sync", by_mma_sync);
    t.when(unit, "wgmma", [&] { warp_group_product(t, g, shape, group_knobs); });
    return;
  }
  by_mma_sync();
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_tensor_core", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
