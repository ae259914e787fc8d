// Chooses the tile of a warp-specialized block, and whether warp groups are faster than mma.sync.
#include <algorithm>
#include <cmath>

#include "cuda/products/warp_group_fit.h"

namespace heddle::meta {
namespace {

// ---- the model of an SM, from Hopper's data sheet. The defaults of its constants (GpuConstants) were
// fitted to 17 sizes on an H200, where of nine ways the one that is chosen takes 0.2 % longer than the
// fastest on average. ----

// Rates of an SM per cycle: multiply-adds of 16-bit floats, bytes of shared memory.
constexpr double kMultiplies = 2048, kSharedBytes = 128;
constexpr double kStep = 64;  // 16-bit elements of a step
// Bytes of f32 sums that a block stores and loads per cycle where blocks share a tile.
constexpr double kPartBytes = 26;
// Tiles of a result from which on warp groups are considered. Fewer were not measured.
constexpr int64_t kLeastTiles = 32;
constexpr int64_t kMostStages = 12, kLeastStages = 3;
// Two blocks load the halves of a box, which are multiples of the eight rows of its swizzle.
constexpr int64_t kPairedRows = 16;
// The share of the time of its loads that a box takes which a pair of blocks loads together. (Fitted to 229 ways
// of 51 products on an H200.)
constexpr double kPairShare = 0.6;
// Elements of the results that lanes store in a cycle in pieces of 16 bytes, or one by one for TMA.
// Sums of 32 bits take twice the shared memory and time.
constexpr double kPieces = 12, kPiecesOfSums = 8;
// The ways of a tile: four ways to store, alone or shared, together or in turns, one block or a pair.
constexpr int64_t kStores = 4, kWays = kStores * 8;
// Bytes of a row of the results from which on TMA stores them: a 1x1 convolution of 401408 pixels
// and 16 filters took an H200 24.5 us with rows of 32 bytes, and 12.6 us where lanes stored them.
constexpr int64_t kLeastStoredRow = 64;
// Rounds of tiles beyond which warp groups take turns: in two rounds each of them has one tile. (9248 x 288 x 2304
// of f16 by windows on an H200: 219 tiles in turns 38.0 us, 111 larger ones together 30.5.)
constexpr int64_t kRoundsOfTurns = 2;
// Steps of the depth from which on warp groups always take turns, and the widest tile that does
// with fewer.
constexpr int64_t kManyTurnSteps = 8, kMostColsOfShortTurns = 192;
// The longest depth at which results of shorter rows go to mma.sync.
constexpr int64_t kShortDepth = 128;
// The most accumulators of a thread that the rule chooses. With partial sums, fewer leave TMA rows
// of whole results to store. (e4m3 on an H200, 192 and 128 columns: 8192^3 1056 and 1004 us, 4096^3
// 114 and 113.) What erf needs beside 192 of them is spilled. (4096 x 3072 x 768 with bias and
// gelu, f16: 64 us with 192, 47 with 128.)
// Three warp groups have 160 registers a thread.
int64_t most_chosen(const TensorCoreProblem& p, int64_t groups) {
  const bool needs_more = p.partial_sums || p.slow_results;
  return groups > 2 ? (needs_more ? 0 : 96) : needs_more ? 128 : 192;
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

// The steps that a block has to load, but no fewer than cost another block its place on the multiprocessor.
// (704 x 768 x 4096 of f16 on an H200, 64 x 64 tiles: 19.4 us with four stages, 14.6 with six.)
int64_t steps_to_load(const TensorCoreProblem& p, const WarpGroupTile& t) {
  constexpr int64_t kUsualStages = 6;
  const int64_t steps = ceil_div(p.depth, group_box_row(p.pack));
  return std::max(kUsualStages, steps * ceil_div(tiles_of(p, t), p.gpu.sms));
}

// Whether a block can hold the tile, and `given` allows it. Sets the number of its stages.
bool fits(const TensorCoreProblem& p, const Choice& given, WarpGroupTile& t) {
  if (!agrees(given, "groups", t.groups) || !agrees(given, "group_tiles", t.tiles) ||
      !agrees(given, "group_cols", t.cols) || !agrees(given, "group_store", t.store) ||
      !agrees(given, "waves", t.stream) || !agrees(given, "pairs", t.pair - 1) ||
      !agrees(given, "group_turns", t.turns) || !agrees(given, "exchanged", t.exchanged))
    return false;
  // Lanes store 4 bytes at a time where others store 16 or whole boxes. (Convolutions of 8 and 32 images on an
  // H200: 1.05 to 1.2 times as long.)
  const bool boxed =
      p.boxed_bytes > 0 && (p.exchanged ? p.rows : p.cols) * p.boxed_bytes >= kLeastStoredRow;
  if (t.store == 0 && boxed && !given.has("group_store")) return false;
  if (t.pair == 2 && (p.rows <= t.rows() || t.cols % kPairedRows != 0)) return false;
  if (!boxes_of_use(t, p.rows, p.cols) || threads_of(t) > p.gpu.threads_per_block) return false;
  if (t.store && (!may_box(p, t) || !boxed)) return false;
  if (t.store == 2 && t.tiles == 1) return false;
  if (!may_share(p, t) || !may_take_turns(p, t)) return false;
  if (accumulators(p, t.tiles, t.cols) > most_chosen(p, t.groups) ||
      most_stages(p, t) < kLeastStages)
    return false;
  t.stages = std::min({kMostStages, most_stages(p, t), steps_to_load(p, t)});
  return true;
}

// Whether the depth is long enough for warp groups to take turns. With few steps the stores decide,
// which turns hide; but wide tiles leave too few stages, rows of less than 128 bytes are slow to
// load, and erf takes the registers of both groups. (36 convolutions 1x1 of ResNet-50 and
// MobileNet-v2 on an H100 lost 6.8 % to their best tiles, and 10.3 % without turns at few steps.)
bool pays_for_turns(const TensorCoreProblem& p, const WarpGroupTile& t) {
  const int64_t step = group_box_row(p.pack);
  if (ceil_div(p.depth, step) >= kManyTurnSteps) return true;
  return p.depth >= step && t.cols <= kMostColsOfShortTurns && !p.slow_results;
}

// Whether the way of a tile was faster on an H200: pairs of blocks gained where rows begin within a
// sector, and nowhere else. Two tiles of results leave a group that takes turns too few registers
// and stages, and there have to be turns.
bool has_gained(const TensorCoreProblem& p, const WarpGroupTile& t, const Choice& given) {
  const bool splits = p.operands[0].splits_sectors || p.operands[1].splits_sectors;
  if (t.turns == 1 && t.store == 1 && t.tiles > 1 && !given.has("group_store")) return false;
  const bool turns = tiles_of(p, t) > kRoundsOfTurns * p.gpu.sms && pays_for_turns(p, t);
  // With tf32, turns took longer. (4096^3 377 us, together 341.)
  const bool of_tf32 = p.pack == 1;
  if (t.turns == 1 && (!turns || of_tf32) && !given.has("group_turns")) return false;
  return t.pair == 1 || splits || given.has("pairs");
}

// Takes the tile of least cost among those that `given` allows, where it costs less than `best`.
void choose_tile(const TensorCoreProblem& p, const Choice& given, WarpGroupTile& best,
                 double& least) {
  for (int64_t groups : {2, 1, 3}) {
    for (int64_t tiles : {1, 2}) {
      for (int64_t cols : column_counts(p)) {
        for (int64_t way = 0; way < kWays; ++way) {
          WarpGroupTile t{tiles, groups, cols};
          t.store = way % kStores;
          t.stream = way / kStores % 2;
          t.turns = way / (2 * kStores) % 2;
          t.pair = way / (4 * kStores) + 1;
          t.exchanged = p.exchanged ? 1 : 0;
          if (!has_gained(p, t, given) || !fits(p, given, t)) continue;
          const double cycles =
              warp_group_cycles(p, t) * (t.stream ? p.constants.group_sharing_gains : 1);
          if (least >= 0 && cycles >= least) continue;
          least = cycles;
          best = t;
        }
      }
    }
  }
}

// The tile of least cost among those that `given` allows. Where it allows none that a block can
// hold, its rows are zero.
WarpGroupTile choose_tile(const WarpGroupProblem& p, const Choice& given) {
  WarpGroupTile best{0, 0};
  double least = -1;
  choose_tile(p.product, given, best, least);
  if (p.exchanged) choose_tile(*p.exchanged, given, best, least);
  if (best.rows() > 0) best.raster = choose_raster(rows_of_tiles(p.of(best).rows, best));
  return best;
}

// Elements of the results that lanes store in a cycle. Each stores half of a sector of memory, which the
// second cache puts together while it holds the results. (100384 x 152 x 608 and x 160 x 640 of f16 on an
// H200: 59 and 53 us, and 50 and 45 where TMA stores wider tiles.)
double stores_of_lanes(const TensorCoreProblem& p) {
  constexpr double kFarStores = 1.6;
  const double bytes = static_cast<double>(p.rows * p.cols * p.batch * p.boxed_bytes);
  const bool held = bytes <= 0.4 * static_cast<double>(p.gpu.l2_bytes);
  return held ? p.constants.group_stores : std::min(kFarStores, p.constants.group_stores);
}

}  // namespace

double warp_group_cycles(const TensorCoreProblem& p, const WarpGroupTile& t) {
  const GpuConstants& by = p.constants;
  const bool by_tile = t.store == 2 || (t.store == 3 && t.tiles > 1);
  const double r = static_cast<double>(t.rows()), c = static_cast<double>(t.cols);
  // Bytes of shared memory per cycle of the matrix units: each wgmma reads 64 rows and all columns,
  // and TMA writes both.
  const double shared = 64 * (64 + c) / c + 2 * kMultiplies * (r + c) / (r * c);
  const double share = std::min(1.0, kSharedBytes / shared);
  const auto row = [&](size_t operand) {
    return p.operands[operand].splits_sectors ? by.group_split_row_cycles : by.group_row_cycles;
  };
  const double together = t.turns       ? 1
                          : t.pair == 1 ? by.group_together
                                        : by.group_pair_together,
               products = r * c * kStep / kMultiplies / share * together,
               loads = r * row(0) + (t.pair == 2 ? kPairShare * c : c) * row(1),
               begin = by.group_fill_cycles + (t.pair == 2 ? by.group_pair_cycles : 0);
  // A step is 128 bytes of the depth, which take the same time in every type.
  const double steps = static_cast<double>(ceil_div(p.depth, group_box_row(p.pack)));
  const double step = std::max(products, loads),
               stored = r * std::min(c, static_cast<double>(p.cols)),
               stores = (t.store == 3 && p.viewed                   ? stored / kPiecesOfSums
                         : t.store == 3 || (t.store && t.exchanged) ? stored / kPieces
                         : t.store                                  ? r * c / by.group_boxed
                                                                    : stored / stores_of_lanes(p)) +
                        (by_tile ? by.group_box_wait : 0);
  const int64_t tiles = tiles_of(p, t);
  // Where warp groups take turns, one stores while the other one multiplies.
  const double all = steps * step,
               tile = t.turns ? std::max(all, (all + stores) / 2) : all + stores;
  if (!t.stream) {
    const auto rounds = static_cast<double>(ceil_div(tiles, p.gpu.sms));
    return begin + rounds * tile + (t.turns ? stores : 0);
  }
  const LastRound last = shared_round(p, t);
  const double parts = static_cast<double>(1 + last.most_parts()),
               sums = r * c * 4 * parts / kPartBytes + by.group_part_cycles;
  return begin + static_cast<double>(tiles / p.gpu.sms) * tile +
         static_cast<double>(last.run) * step + sums + stores;
}

NamedFeatures WarpGroupProblem::features() const {
  NamedFeatures all = product.features();
  WarpGroupTile t = choose_tile(*this, Choice());
  all.push_back({"cols_lie_across", product.cols_lie_across ? 1. : 0.});
  all.push_back({"mma_cycles", mma_cycles});
  all.push_back({"group_cycles", t.rows() > 0 ? warp_group_cycles(of(t), t) : 0.});
  return all;
}

Choice warp_group_rule(const WarpGroupProblem& problem, const Choice& given) {
  WarpGroupTile t = choose_tile(problem, given);
  if (t.rows() == 0) t = choose_tile(problem, Choice());
  if (t.rows() == 0) t = WarpGroupTile{};
  const TensorCoreProblem& p = problem.of(t);
  const int64_t busy =
      t.stream ? std::max(tiles_of(p, t), shared_round(p, t).units()) : tiles_of(p, t);
  // The model of mma.sync is without its stores, which count where the depth is short.
  const double stores = static_cast<double>(p.rows * p.cols * p.batch) / p.constants.group_stores /
                        static_cast<double>(p.gpu.sms);
  // Most of a tile is padding where results are narrow, and a short depth does not make up for it.
  // (401408 rows of 16 results on an H200, depth of 32: 12.8 us by mma.sync, 21.5 by wgmma; 100352
  // of 24, depth of 144: 15.4 and 14.8.)
  const bool narrow = p.boxed_bytes > 0 && problem.product.cols * p.boxed_bytes < kLeastStoredRow &&
                      p.depth <= kShortDepth;
  const bool faster =
      !narrow && busy >= kLeastTiles &&
      warp_group_cycles(p, t) < (problem.mma_cycles + stores) * p.constants.group_worthwhile;
  Choice choice;
  choice.set("unit", faster ? 1 : 0,
             faster ? "TMA and wgmma" : "too small or too narrow for warp groups");
  choice.set("group_tiles", t.tiles, "64-row tiles of a warp group");
  choice.set("groups", t.groups, "warp groups that multiply");
  choice.set("group_cols", t.cols, "columns of a block's tile");
  choice.set("group_stages", t.stages, "tiles in rotation");
  if (p.boxed_bytes > 0)
    choice.set("group_store", t.store,
               t.store == 3   ? "each lane stores 16 bytes of the results at a time"
               : t.store == 2 ? "TMA stores the results, one 64-row tile after the other"
               : t.store == 1 ? "TMA stores the results while the next tile is computed"
                              : "each lane stores its results");
  choice.set("waves", t.stream,
             t.stream ? "blocks share the tiles of the last wave" : "a block computes whole tiles");
  choice.set("group_turns", t.turns,
             t.turns ? "one warp group multiplies while the other one stores"
                     : "all warp groups multiply a tile together");
  choice.set(
      "pairs", t.pair - 1,
      t.pair == 2 ? "two blocks load their columns together" : "each block loads all of its tiles");
  if (problem.exchanged)
    choice.set(
        "exchanged", t.exchanged,
        t.exchanged ? "tiles of the transposed product" : "tiles of the product as declared");
  choice.set("raster", t.raster, "rows of tiles that are taken together, for the second cache");
  return choice;
}

}  // namespace heddle::meta
