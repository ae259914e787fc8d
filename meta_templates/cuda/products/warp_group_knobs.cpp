// The knobs of the recipe, and what a block can hold of their values.
#include "cuda/products/warp_group_fit.h"

namespace heddle::meta {

namespace {

// What a block can hold, and what lowering can make.
void require_legal(TemplateBuilder& t, const WarpGroupProblem& problem, Param unit,
                   const WarpGroupKnobs& k) {
  const TensorCoreProblem p = problem.product, e = problem.exchanged ? *problem.exchanged : p;
  const Gpu gpu = p.gpu;
  const int64_t batches = p.batch;
  const auto tile = [=](const auto& v) {
    return WarpGroupTile{v(k.group_tiles), v(k.groups),    v(k.group_cols), v(k.group_stages),
                         v(k.raster),      v(k.pairs) + 1, v(k.store),      v(k.waves),
                         v(k.turns),       v(k.exchanged)};
  };
  const auto of = [=](const auto& v) -> const TensorCoreProblem& {
    return v(k.exchanged) == 1 ? e : p;
  };
  t.require("the rings of a warp-specialized block must fit shared memory", [=](const auto& v) {
    return v(unit) == 0 ||
           stage_bytes(tile(v)) * v(k.group_stages) + boxed_bytes(of(v), tile(v)) + kOtherBytes <=
               gpu.smem_per_block;
  });
  t.require("results leave tile by tile where a warp group has several",
            [=](const auto& v) { return v(unit) == 0 || v(k.store) != 2 || v(k.group_tiles) > 1; });
  t.require(
      "rows of the boxes that TMA stores, and pieces of 16 bytes, must be whole",
      [=](const auto& v) { return v(unit) == 0 || v(k.store) == 0 || may_box(of(v), tile(v)); });
  t.require("columns that run across the depth come in boxes of 64", [=](const auto& v) {
    return v(unit) == 0 || !of(v).cols_lie_across || v(k.group_cols) % wgmma::kLinesAcross == 0;
  });
  t.require("the accumulators of a warp group must fit its registers", [=](const auto& v) {
    return v(unit) == 0 ||
           accumulators(of(v), v(k.group_tiles), v(k.group_cols)) <= most_accumulators(v(k.groups));
  });
  t.require("a block has no more threads than it may", [=](const auto& v) {
    return v(unit) == 0 || threads_of(tile(v)) <= gpu.threads_per_block;
  });
  t.require("blocks share tiles where the last wave has too few for all of them",
            [=](const auto& v) { return v(unit) == 0 || may_share(of(v), tile(v)); });
  t.require("warp groups take turns where a block has several tiles",
            [=](const auto& v) { return v(unit) == 0 || may_take_turns(of(v), tile(v)); });
  t.require(
      "each box must have elements of the operands, and 256 rows at most",
      [=](const auto& v) { return v(unit) == 0 || boxes_of_use(tile(v), of(v).rows, of(v).cols); });
  t.require("persistent blocks must have several tiles", [=](const auto& v) {
    return v(unit) == 0 ||
           batches * ceil_div(of(v).rows, tile(v).rows()) * ceil_div(of(v).cols, tile(v).cols) > 1;
  });
  t.require("rows of tiles must be whole rasters", [=](const auto& v) {
    return v(unit) == 0 || rows_of_tiles(of(v).rows, tile(v)) % v(k.raster) == 0;
  });
  t.require("the two blocks of a pair have neighbouring rows", [=](const auto& v) {
    return v(unit) == 0 || v(k.pairs) == 0 || (v(k.raster) % 2 == 0 && of(v).rows > tile(v).rows());
  });
}

}  // namespace

WarpGroupKnobs ask_warp_group(TemplateBuilder& t, const WarpGroupProblem& problem, Param unit,
                              const Choice& choice) {
  const TensorCoreProblem &p = problem.product, &e = problem.exchanged ? *problem.exchanged : p;
  WarpGroupKnobs k;
  k.group_tiles = t.knob("group_tiles", {1, 2}, choice);
  k.groups = t.knob("groups", {1, 2, 3}, choice);
  const std::vector<int64_t> counts = column_counts(p), counts_exchanged = column_counts(e);
  k.group_cols = t.knob(
      "group_cols", counts.size() < counts_exchanged.size() ? counts_exchanged : counts, choice);
  k.group_stages = t.knob("group_stages", {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, choice);
  k.raster = t.knob("raster", {1, 2, 4, 8, 16}, choice);
  k.pairs = t.choice("pairs", choice);
  k.waves = t.kind("waves", {"whole", "stream_k"}, choice, {0, 1});
  k.turns = t.kind("group_turns", {"together", "alternate"}, choice, {0, 1});
  if (p.boxed_bytes > 0) {
    const std::vector<int64_t> ways =
        p.viewed ? std::vector<int64_t>{0, 3} : std::vector<int64_t>{0, 1, 2, 3};
    k.store = t.kind("group_store", {"direct", "tma", "tma_by_tile", "pieces"}, choice, ways);
    k.box_row = tma::kRowBytes / p.boxed_bytes;
  }
  if (problem.exchanged) k.exchanged = t.choice("exchanged", choice);
  require_legal(t, problem, unit, k);
  return k;
}

}  // namespace heddle::meta
