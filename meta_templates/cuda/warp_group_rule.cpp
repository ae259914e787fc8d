// Chooses the tile of a warp-specialized block, and whether warp groups are faster than mma.sync.
#include <algorithm>
#include <cmath>

#include "cuda/warp_group.h"
#include "heddle/target/last_round.h"

namespace heddle::meta {
namespace {

constexpr int64_t kBoxRow = 64;  // 16-bit elements of a row of a box
constexpr int64_t kRowBytes = 128, kGroupThreads = 128;
// Bytes of shared memory besides the tiles: barriers and alignment.
constexpr int64_t kOtherBytes = 2048;
// The most accumulators of a thread, out of the registers that setmaxnreg leaves it.
constexpr int64_t kMostAccumulators = 208;

// ---- the model of an SM, from Hopper's data sheet ----

// Rates of an SM per cycle: multiply-adds of 16-bit floats, bytes of shared memory.
constexpr double kMultiplies = 2048, kSharedBytes = 128;
// Cycles of a row of a box (128 bytes) from the second cache, and of one that begins within a
// sector. Fitted to 7168 x 4200 x 7864 and neighbours with rows of either kind on an H200.
constexpr double kRowCycles = 2.6, kSplitRowCycles = 3.9;
// What pairs of blocks take to begin together, by 1024^3 and 2048^3 on an H200.
constexpr double kPairCycles = 1500;
// Cycles of the first loads. Nothing overlaps with them.
constexpr double kFillCycles = 1500;
// Elements of a tile that leave the registers per cycle: directly to memory, each lane four bytes
// (an H200 took about 7,500 cycles for 128 x 256 of them), and to shared memory.
constexpr double kStoresPerCycle = 5, kBoxedPerCycle = 24;
// Bytes of f32 sums that a block stores and loads per cycle where blocks share a tile, and the
// cycles from one to the other.
constexpr double kPartBytes = 32, kPartCycles = 3000;
// Sharing has to gain more than this by the model.
constexpr double kSharingGains = 1.05;
// Tiles of a result from which on warp groups are considered. Fewer were not measured.
constexpr int64_t kLeastTiles = 32;
// Warp groups are chosen only if their cost is below this share of that of mma.sync.
constexpr double kWorthwhile = 0.95;
constexpr int64_t kMostStages = 6, kLeastStages = 3;

int64_t stage_bytes(const WarpGroupTile& t) { return (t.rows() + t.cols) * kRowBytes; }

// Bytes of the results that wait for TMA.
int64_t boxed_bytes(const TensorCoreProblem& p, const WarpGroupTile& t) {
  return t.store * t.rows() * t.cols * p.boxed_bytes;
}

int64_t most_stages(const TensorCoreProblem& p, const WarpGroupTile& t) {
  return (p.gpu.smem_per_block - kOtherBytes - boxed_bytes(p, t)) / stage_bytes(t);
}

// Whether rows of boxes of results are filled.
bool may_box(const TensorCoreProblem& p, int64_t cols) {
  return p.boxed_bytes > 0 && cols * p.boxed_bytes % kRowBytes == 0;
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
// The most of them that the rule chooses. With partial sums, fewer leave TMA rows of whole results
// to store. (e4m3 on an H200, 192 and 128 columns: 8192^3 1056 and 1004 us, 4096^3 114 and 113.)
int64_t most_chosen(const TensorCoreProblem& p) { return p.partial_sums ? 128 : 192; }

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

// Tiles down the result. Where pairs of blocks leave one over, its partner has no rows.
int64_t rows_of_tiles(int64_t rows, const WarpGroupTile& t) {
  return ceil_div(ceil_div(rows, t.rows()), t.pair) * t.pair;
}

int64_t tiles_of(const TensorCoreProblem& p, const WarpGroupTile& t) {
  return rows_of_tiles(p.rows, t) * ceil_div(p.cols, t.cols) * p.batch;
}

// The last round where blocks share its tiles.
LastRound shared_round(const TensorCoreProblem& p, const WarpGroupTile& t) {
  return last_round(tiles_of(p, t), p.gpu.sms, ceil_div(p.depth, group_box_row(p.pack)));
}

// Whether a block can hold the tile, and `given` allows it. Sets the number of its stages.
bool fits(const TensorCoreProblem& p, const Choice& given, WarpGroupTile& t) {
  if (!agrees(given, "groups", t.groups) || !agrees(given, "group_tiles", t.tiles) ||
      !agrees(given, "group_cols", t.cols) || !agrees(given, "group_store", t.store) ||
      !agrees(given, "waves", t.stream) || !agrees(given, "pairs", t.pair - 1))
    return false;
  if (t.pair == 2 && p.rows <= t.rows()) return false;
  if (!boxes_of_use(t, p.rows, p.cols) || threads_of(t) > p.gpu.threads_per_block) return false;
  if (t.store && !may_box(p, t.cols)) return false;
  if (t.stream && shared_round(p, t).parts < 2) return false;
  if (accumulators(p, t.tiles, t.cols) > most_chosen(p) || most_stages(p, t) < kLeastStages)
    return false;
  t.stages = std::min(kMostStages, most_stages(p, t));
  return true;
}

// Whether the way of a tile was faster on an H200: pairs of blocks gained where rows begin within a
// sector, and nowhere else.
bool has_gained(const TensorCoreProblem& p, const WarpGroupTile& t, const Choice& given) {
  const bool splits = p.operands[0].splits_sectors || p.operands[1].splits_sectors;
  return t.pair == 1 || splits || given.has("pairs");
}

// The tile of least cost among those that `given` allows. Where it allows none that a block can
// hold, its rows are zero.
WarpGroupTile choose_tile(const TensorCoreProblem& p, const Choice& given) {
  WarpGroupTile best{0, 0};
  double least = -1;
  for (int64_t groups : {2, 1}) {
    for (int64_t tiles : {1, 2}) {
      for (int64_t cols : column_counts(p)) {
        for (int64_t way : {0, 1, 2, 3, 4, 5}) {
          // Pairs of blocks share no tiles.
          WarpGroupTile t{tiles, groups, cols, 2, 1, way / 4 + 1, way % 2, way / 2 % 2};
          if (!has_gained(p, t, given) || !fits(p, given, t)) continue;
          const double cycles = warp_group_cycles(p, t) * (t.stream ? kSharingGains : 1);
          if (least >= 0 && cycles >= least) continue;
          least = cycles;
          best = t;
        }
      }
    }
  }
  if (best.rows() > 0) best.raster = choose_raster(rows_of_tiles(p.rows, best));
  return best;
}

}  // namespace

double warp_group_cycles(const TensorCoreProblem& p, const WarpGroupTile& t) {
  const double r = static_cast<double>(t.rows()), c = static_cast<double>(t.cols);
  // Bytes of shared memory per cycle of the matrix units: each wgmma reads 64 rows and all columns,
  // and TMA writes both.
  const double shared = 64 * (64 + c) / c + 2 * kMultiplies * (r + c) / (r * c);
  const double share = std::min(1.0, kSharedBytes / shared);
  const auto row = [&](size_t operand) {
    return p.operands[operand].splits_sectors ? kSplitRowCycles : kRowCycles;
  };
  const double products = r * c * kBoxRow / kMultiplies / share,
               loads = r * row(0) + (t.pair == 2 ? c / 2 : c) * row(1),
               begin = kFillCycles + (t.pair == 2 ? kPairCycles : 0);
  // A step is 128 bytes of the depth, which take the same time in every type.
  const double steps = static_cast<double>(ceil_div(p.depth, group_box_row(p.pack)));
  const double step = std::max(products, loads),
               stores = r * c / (t.store ? kBoxedPerCycle : kStoresPerCycle);
  const int64_t tiles = tiles_of(p, t);
  if (!t.stream) {
    const auto rounds = static_cast<double>(ceil_div(tiles, p.gpu.sms));
    return begin + rounds * (steps * step + stores);
  }
  const LastRound last = shared_round(p, t);
  const double sums = r * c * 4 * static_cast<double>(1 + last.parts) / kPartBytes + kPartCycles;
  return begin + static_cast<double>(tiles / p.gpu.sms) * (steps * step + stores) +
         static_cast<double>(last.steps) * step + sums + stores;
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
  const int64_t busy =
      t.stream ? std::max(tiles_of(p, t), shared_round(p, t).units()) : tiles_of(p, t);
  // The model of mma.sync is without its stores, which count where the depth is short.
  const double stores = static_cast<double>(p.rows * p.cols * p.batch) / kStoresPerCycle /
                        static_cast<double>(p.gpu.sms);
  const bool faster =
      busy >= kLeastTiles && warp_group_cycles(p, t) < (problem.mma_cycles + stores) * kWorthwhile;
  Choice choice;
  choice.set("unit", faster ? 1 : 0,
             faster ? "TMA and wgmma" : "too small or too narrow for warp groups");
  choice.set("group_tiles", t.tiles, "64-row tiles of a warp group");
  choice.set("groups", t.groups, "warp groups that multiply");
  choice.set("group_cols", t.cols, "columns of a block's tile");
  choice.set("group_stages", t.stages, "tiles in rotation");
  if (p.boxed_bytes > 0)
    choice.set("group_store", t.store,
               t.store ? "TMA stores the results while the next tile is computed"
                       : "each lane stores its results");
  choice.set("waves", t.stream,
             t.stream ? "blocks share the tiles of the last wave" : "a block computes whole tiles");
  choice.set(
      "pairs", t.pair - 1,
      t.pair == 2 ? "two blocks load their columns together" : "each block loads all of its tiles");
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
  k.waves = t.kind("waves", {"whole", "stream_k"}, choice, {0, 1});
  if (p.boxed_bytes > 0) {
    k.store = t.kind("group_store", {"direct", "tma"}, choice, {0, 1});
    k.box_row = kRowBytes / p.boxed_bytes;
  }
  const Gpu gpu = p.gpu;
  const int64_t rows = p.rows, cols = p.cols, batches = p.batch;
  const auto tile = [=](const auto& v) {
    return WarpGroupTile{v(k.group_tiles), v(k.groups),    v(k.group_cols), v(k.group_stages),
                         v(k.raster),      v(k.pairs) + 1, v(k.store),      v(k.waves)};
  };
  t.require("the rings of a warp-specialized block must fit shared memory", [=](const auto& v) {
    return v(unit) == 0 ||
           stage_bytes(tile(v)) * v(k.group_stages) + boxed_bytes(p, tile(v)) + kOtherBytes <=
               gpu.smem_per_block;
  });
  t.require("rows of the boxes that TMA stores must be whole", [=](const auto& v) {
    return v(unit) == 0 || v(k.store) == 0 || may_box(p, v(k.group_cols));
  });
  t.require("the accumulators of a warp group must fit its registers", [=](const auto& v) {
    return v(unit) == 0 || accumulators(p, v(k.group_tiles), v(k.group_cols)) <= kMostAccumulators;
  });
  t.require("a block has no more threads than it may", [=](const auto& v) {
    return v(unit) == 0 || threads_of(tile(v)) <= gpu.threads_per_block;
  });
  t.require("blocks share tiles where the last wave has too few for all of them",
            [=](const auto& v) {
              return v(unit) == 0 || v(k.waves) == 0 ||
                     (v(k.pairs) == 0 && shared_round(p, tile(v)).parts > 1);
            });
  t.require("each box must have elements of the operands",
            [=](const auto& v) { return v(unit) == 0 || boxes_of_use(tile(v), rows, cols); });
  t.require("persistent blocks must have several tiles", [=](const auto& v) {
    return v(unit) == 0 ||
           batches * ceil_div(rows, tile(v).rows()) * ceil_div(cols, tile(v).cols) > 1;
  });
  t.require("rows of tiles must be whole rasters", [=](const auto& v) {
    return v(unit) == 0 || rows_of_tiles(rows, tile(v)) % v(k.raster) == 0;
  });
  t.require("the two blocks of a pair have neighbouring rows", [=](const auto& v) {
    return v(unit) == 0 || v(k.pairs) == 0 || (v(k.raster) % 2 == 0 && rows > tile(v).rows());
  });
  return k;
}

}  // namespace heddle::meta
