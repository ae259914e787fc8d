// Chooses the tile of a warp-specialized block, and whether warp groups are faster than mma.sync.
#include <algorithm>
#include <cmath>

#include "cuda/warp_group.h"

namespace heddle::meta {
namespace {

constexpr int64_t kBoxRow = 64;  // 16-bit elements of a row of a box
constexpr int64_t kRowBytes = 128, kGroupThreads = 128;
// Bytes of shared memory besides the tiles: barriers and alignment.
constexpr int64_t kOtherBytes = 2048;
// The most accumulators of a thread, out of the registers that setmaxnreg leaves it.
constexpr int64_t kMostAccumulators = 208;

// ---- the model of an SM, from Hopper's data sheet ----

// Rates of an SM per cycle: multiply-adds of 16-bit floats, bytes of shared memory, bytes of L2.
constexpr double kMultiplies = 2048, kSharedBytes = 128, kL2Bytes = 40;
// Cycles of the first loads, and elements stored per cycle. Nothing overlaps with either.
constexpr double kFillCycles = 1500, kStoresPerCycle = 20;
// Tiles of a result from which on warp groups are considered. Fewer were not measured.
constexpr int64_t kLeastTiles = 32;
// Warp groups are chosen only if their cost is below this share of that of mma.sync.
constexpr double kWorthwhile = 0.95;
constexpr int64_t kMostStages = 6, kLeastStages = 3;

int64_t stage_bytes(const WarpGroupTile& t) { return (t.rows() + t.cols) * kRowBytes; }

int64_t most_stages(const TensorCoreProblem& p, const WarpGroupTile& t) {
  return (p.gpu.smem_per_block - kOtherBytes) / stage_bytes(t);
}

// One more warp group loads.
int64_t threads_of(const WarpGroupTile& t) { return (t.groups + 1) * kGroupThreads; }

// Whether no box lies beyond the end in every tile. Lowering would not recognise the load of such a
// box, because its index is simplified by the bounds that it violates.
bool boxes_of_use(const WarpGroupTile& t, int64_t rows, int64_t cols) {
  return t.rows() - kBoxRow < rows && t.cols - kBoxRow < cols;
}

// Registers of a thread for sums.
int64_t accumulators(const TensorCoreProblem& p, int64_t tiles, int64_t cols) {
  return tiles * cols / 2 * (p.partial_sums ? 2 : 1);
}
// The most of them that the rule chooses. Larger tiles left no registers for the epilogue.
int64_t most_chosen(const TensorCoreProblem& p) { return p.partial_sums ? 192 : 128; }

// If columns run across the depth, rows of a box have 64 columns.
std::vector<int64_t> column_counts(const TensorCoreProblem& p) {
  std::vector<int64_t> out;
  for (int64_t n = 32; n <= 256; n += 32) {
    if (!p.cols_lie_across || n % kBoxRow == 0) out.push_back(n);
  }
  return out;
}

int64_t choose_raster(int64_t blocks) {
  for (int64_t r : {16, 8, 4, 2}) {
    if (blocks % r == 0) return r;
  }
  return 1;
}

// Whether a tile has the value that is given for `knob`.
bool agrees(const Choice& given, const char* knob, int64_t value) {
  return !given.has(knob) || given.value(knob) == value;
}

// The tile of least cost among those that `given` allows. Where it allows none that a block can
// hold, its rows are zero.
WarpGroupTile choose_tile(const TensorCoreProblem& p, const Choice& given) {
  WarpGroupTile best{0, 0};
  double least = -1;
  for (int64_t groups : {2, 1}) {
    for (int64_t tiles : {1, 2}) {
      for (int64_t cols : column_counts(p)) {
        WarpGroupTile t{tiles, groups, cols, 2, 1};
        if (!agrees(given, "groups", groups) || !agrees(given, "group_tiles", tiles) ||
            !agrees(given, "group_cols", cols))
          continue;
        if (!boxes_of_use(t, p.rows, p.cols) || threads_of(t) > p.gpu.threads_per_block) continue;
        if (accumulators(p, tiles, cols) > most_chosen(p) || most_stages(p, t) < kLeastStages)
          continue;
        t.stages = std::min(kMostStages, most_stages(p, t));
        const double cycles = warp_group_cycles(p, t);
        if (least >= 0 && cycles >= least) continue;
        least = cycles;
        best = t;
      }
    }
  }
  if (best.rows() > 0) best.raster = choose_raster(ceil_div(p.rows, best.rows()));
  return best;
}

}  // namespace

double warp_group_cycles(const TensorCoreProblem& p, const WarpGroupTile& t) {
  const double r = static_cast<double>(t.rows()), c = static_cast<double>(t.cols);
  // Bytes of shared memory per cycle of the matrix units: each wgmma reads 64 rows and all columns,
  // and TMA writes both.
  const double shared = 64 * (64 + c) / c + 2 * kMultiplies * (r + c) / (r * c);
  const double share = std::min(1.0, kSharedBytes / shared);
  const double products = r * c * kBoxRow / kMultiplies / share,
               loads = (r + (t.pair == 2 ? c / 2 : c)) * kRowBytes / kL2Bytes;
  // A step is 128 bytes of the depth, which take the same time in every type.
  const double steps = static_cast<double>(ceil_div(p.depth, group_box_row(p.pack)));
  const double tiles =
      static_cast<double>(ceil_div(p.rows, t.rows()) * ceil_div(p.cols, t.cols) * p.batch);
  const double rounds = std::ceil(tiles / static_cast<double>(p.gpu.sms));
  return kFillCycles + rounds * (steps * std::max(products, loads) + r * c / kStoresPerCycle);
}

NamedFeatures WarpGroupProblem::features() const {
  NamedFeatures all = product.features();
  WarpGroupTile t = choose_tile(product, Choice());
  all.push_back({"cols_lie_across", product.cols_lie_across ? 1. : 0.});
  all.push_back({"mma_cycles", mma_cycles});
  all.push_back({"group_cycles", t.rows() > 0 ? warp_group_cycles(product, t) : 0.});
  return all;
}

Choice warp_group_rule(const WarpGroupProblem& problem, const Choice& given) {
  const TensorCoreProblem& p = problem.product;
  WarpGroupTile t = choose_tile(p, given);
  if (t.rows() == 0) t = choose_tile(p, Choice());
  if (t.rows() == 0) t = WarpGroupTile{};
  const int64_t tiles = ceil_div(p.rows, t.rows()) * ceil_div(p.cols, t.cols) * p.batch;
  const bool faster =
      tiles >= kLeastTiles && warp_group_cycles(p, t) < problem.mma_cycles * kWorthwhile;
  Choice choice;
  choice.set("unit", faster ? 1 : 0,
             faster ? "TMA and wgmma" : "too small or too narrow for warp groups");
  choice.set("group_tiles", t.tiles, "64-row tiles of a warp group");
  choice.set("groups", t.groups, "warp groups that multiply");
  choice.set("group_cols", t.cols, "columns of a block's tile");
  choice.set("group_stages", t.stages, "tiles in rotation");
  choice.set("pairs", 0, "each block loads all of its tiles: pairs were slower");
  choice.set("raster", t.raster, "rows of tiles that are taken together, for the second cache");
  return choice;
}

WarpGroupKnobs ask_warp_group(TemplateBuilder& t, const TensorCoreProblem& p, Param unit,
                              const Choice& choice) {
  WarpGroupKnobs k;
  k.group_tiles = t.knob("group_tiles", {1, 2}, choice);
  k.groups = t.knob("groups", {1, 2}, choice);
  k.group_cols = t.knob("group_cols", column_counts(p), choice);
  k.group_stages = t.knob("group_stages", {2, 3, 4, 5, 6}, choice);
  k.raster = t.knob("raster", {1, 2, 4, 8, 16}, choice);
  k.pairs = t.choice("pairs", choice);
  const Gpu gpu = p.gpu;
  const int64_t rows = p.rows, cols = p.cols, batches = p.batch;
  const auto tile = [=](const auto& v) {
    return WarpGroupTile{v(k.group_tiles),  v(k.groups), v(k.group_cols),
                         v(k.group_stages), v(k.raster), v(k.pairs) + 1};
  };
  t.require("the rings of a warp-specialized block must fit shared memory", [=](const auto& v) {
    return v(unit) == 0 ||
           stage_bytes(tile(v)) * v(k.group_stages) + kOtherBytes <= gpu.smem_per_block;
  });
  t.require("the accumulators of a warp group must fit its registers", [=](const auto& v) {
    return v(unit) == 0 || accumulators(p, v(k.group_tiles), v(k.group_cols)) <= kMostAccumulators;
  });
  t.require("a block has no more threads than it may", [=](const auto& v) {
    return v(unit) == 0 || threads_of(tile(v)) <= gpu.threads_per_block;
  });
  t.require("each box must have elements of the operands",
            [=](const auto& v) { return v(unit) == 0 || boxes_of_use(tile(v), rows, cols); });
  t.require("persistent blocks must have several tiles", [=](const auto& v) {
    return v(unit) == 0 ||
           batches * ceil_div(rows, tile(v).rows()) * ceil_div(cols, tile(v).cols) > 1;
  });
  t.require("rows of tiles must be whole rasters", [=](const auto& v) {
    return v(unit) == 0 || ceil_div(rows, tile(v).rows()) % v(k.raster) == 0;
  });
  t.require("the two blocks of a pair have neighbouring rows", [=](const auto& v) {
    return v(unit) == 0 || v(k.pairs) == 0 ||
           (v(k.raster) % 2 == 0 && ceil_div(rows, tile(v).rows()) % 2 == 0);
  });
  return k;
}

}  // namespace heddle::meta
