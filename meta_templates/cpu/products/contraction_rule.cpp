#include "cpu/products/contraction_rule.h"

#include <algorithm>
#include <cmath>

#include "cpu/balanced_block.h"
#include "cpu/cpu_features.h"
#include "cpu/products/register_tile.h"
#include "cpu/products/shared_tiles.h"
#include "heddle/target/product_tasks.h"

namespace heddle::meta::cpu {
namespace {

using Problem = ContractionProblem;

// Where the image has its channels in planes (NCHW), vectors of filters read one cache line for
// each channel. A copy with channels innermost avoids that. It copies the whole image and must pay
// for itself: a 1x1 window of stride 2 reads a quarter of the image. (Such windows on a Xeon with
// AVX-512, time without the copy over time with it: 32 filters 0.34, 80 to 104 filters 0.66 to
// 0.79, 256 and more 0.98 to 1.06.)
bool copy_pays(const Problem& p) {
  return p.results * p.depth >= p.constants.uses_of_copy * (p.row.bytes / p.row.element_bytes);
}
bool channels_last(const Problem& p) {
  return p.channels > 0 && p.channels >= p.lanes && copy_pays(p);
}

/// The value that is given for the knob, or else `value`.
int64_t given_or(const Choice& given, std::string_view knob, int64_t value) {
  return given.has(knob) ? given.value(knob) : value;
}

// Chooses the order of the reductions. Returns the innermost one.
const Problem::Window& choose_channels(const Problem& p, const Choice& given, Choice& choice) {
  const bool last = channels_last(p);
  choice.set("channels_last", last,
             last           ? "no line for each plane"
             : copy_pays(p) ? "few channels"
                            : "few uses of what would be copied");
  return p.channels > 0 && given_or(given, "channels_last", last) != 0 ? p.channel_window
                                                                       : p.window;
}

// Whether the window has few steps, so that it is unrolled completely, and neighbouring rows share
// elements of it, which take registers too (docs/internals/decisions/measured-choices.md, "first
// convolutions": 4x16 is 1.0 to 2.6 times as fast as 6x16 in a loop, 6x16 unrolled 0.4 to 1.3).
bool rows_share_window(const Problem::Window& w) {
  return w.extent <= kShortWindow && w.slides_along_rows;
}

// Chooses the register tile. Returns the tile that the other choices must fit: the given one, if
// any.
RegisterTile choose_tile(const Problem& p, const Problem::Window& innermost, const Choice& given,
                         Choice& choice) {
  const int64_t registers = p.target.vector_registers;
  RegisterTile tile =
      best_register_tile(p, rows_share_window(innermost) ? registers / 2 : registers);
  tile.rows = std::min(tile.rows, p.rows);
  choice.set("tile_rows", tile.rows, "register tile");
  const std::string vectors = "register tile: " + std::to_string(tile.vectors) + " vectors";
  choice.set("tile_cols", tile.vectors * p.lanes, vectors);
  const auto of_given = [&](std::string_view knob, int64_t value) {
    return std::max<int64_t>(1, given_or(given, knob, value));  // a source may give any number
  };
  tile.rows = of_given("tile_rows", tile.rows);
  tile.vectors = ceil_div(of_given("tile_cols", tile.vectors * p.lanes), p.lanes);
  if (!p.cols_in_blocks) return tile;
  while (tile.vectors > 1 && !fits_registers(p.target, tile))
    --tile.vectors;  // other rows may be given than were chosen with these vectors
  choice.set("tile_blocks", tile.vectors, vectors);
  tile.vectors = of_given("tile_blocks", tile.vectors);
  return tile;
}

// Four steps share the loop's overhead and a line of the broadcast operand
// (docs/internals/decisions/measured-choices.md, "knobs of the register tile"). Short loops are unrolled less
// where their tail would be long.
void choose_unroll(const Problem& p, const Problem::Window& w, Choice& choice) {
  constexpr int64_t kLongLoop = 16, kSteps = 4, kShortestSteps = 2;
  // The most lines of a window that slides along vectors. The loads of more lines do not fit the
  // registers.
  constexpr int64_t kSlidingWindow = 5;
  const bool whole =
      p.row.exists ? rows_share_window(w) || (w.slides_along_vectors && w.extent <= kSlidingWindow)
                   : w.extent <= kShortWindow;
  if (whole) {
    choice.set("unroll_k", w.extent, "a window");
    return;
  }
  const int64_t steps = w.extent >= kLongLoop || w.extent % kSteps == 0 ? kSteps
                        : w.extent >= kSteps                            ? kShortestSteps
                                                                        : 1;
  choice.set("unroll_k", p.row.exists ? steps : 1, "the loop's own instructions weigh less");
}

// Whether each block may copy its panels of the vector operand. A block with only some rows of a
// batch would copy all panels again.
bool blocks_have_batch(const Problem& p, const Choice& choice) {
  if (p.attached) return p.block_has_batch;
  return !p.hosts_chain || choice.value("chain_block_rows") == p.rows;
}

// Whether the rows of the vector operand lie too far apart to be read in place.
bool has_long_strides(const Problem& p) {
  // Rows of this many bytes map to few sets of L1, which matters where the panel is not in L1
  // anyway.
  constexpr int64_t kFewSets = 512;
  const int64_t long_row = p.constants.long_row;
  if (!vectors_are_lines(p.target)) {
    return p.vector_row_bytes > long_row ||
           (p.vector_row_bytes >= kFewSets && p.vector.batch_bytes > p.target.l1d_bytes);
  }
  // A tile reads two or more whole lines of a row, so the part of a panel that is in L2 needs no
  // copy. Rows longer than a page are each on a page of their own, and rows that are multiples of
  // 256 bytes share sets of the caches, which matters where the panel is not in L1
  // (docs/internals/decisions/cpu-products.md).
  constexpr int64_t kPage = 4096, kSharedSets = 256, kVectorsOfTile = 2;
  const bool in_l1 = 2 * p.depth * kVectorsOfTile * p.target.vector_bytes <= p.target.l1d_bytes;
  return p.vector_row_bytes > kPage ||
         (p.vector_row_bytes >= long_row && p.vector_row_bytes % kSharedSets == 0 && !in_l1);
}

// Whether windows of several batches overlap, as those of the taps of a filter's gradient do. Panels
// would hold, and copy, each element for every batch that reads it.
bool batches_overlap(const Problem& p) {
  constexpr double kTimes = 1.25;
  const double read = static_cast<double>(p.outer) * static_cast<double>(p.depth) *
                      static_cast<double>(p.cols * p.vector.element_bytes);
  return read > kTimes * static_cast<double>(p.vector.bytes);
}

PackVectors packing_of_vectors(const Problem& p, bool panels_allowed) {
  // With panels all rows are one block. The rows of larger products come from beyond L2 too often.
  const CpuConstants& by = p.constants;
  if (!p.vector.packable || !p.row.exists) return kAsItLies;
  if (p.vector.constant) return kPackWhole;
  const int64_t reads = p.rows * p.other_rows;
  if (p.halves()) return reads >= by.worth_copy ? kPackWhole : kAsItLies;
  if (p.vector_contiguous && !has_long_strides(p)) return kAsItLies;
  const int64_t worth = p.vector_contiguous ? by.worth_panels : by.worth_panels_across;
  if (panels_allowed && !p.has_other_rows && !batches_overlap(p) && reads >= worth &&
      reads <= by.most_rows_of_panels)
    return kPackPanels;
  return reads >= by.worth_copy ? kPackWhole : kAsItLies;
}

// Chooses groups of products that one instruction adds. Both operands are then copied.
void choose_dot(const Problem& p, Choice& choice) {
  // 16-bit floats that are read a few times are not copied.
  const bool packed = p.integers || packing_of_vectors(p, true) != kAsItLies;
  const bool faster = p.integers || prefers_bf16_dots(p.target);
  choice.set("dot", packed && faster ? p.largest_dot : 1,
             !packed  ? "not worth a copy"
             : faster ? "products that one instruction adds up"
                      : "widened once: multiply-adds of f32 are as fast");
}

int64_t tasks_of(const Problem& p) { return p.parallel ? p.target.cores : 1; }

// The most rows of a chain that are processed at a time. Their intermediate results take half of
// L2, or more of it where the weights do not fit it: each block then reads these from L3.
int64_t most_chain_rows(const Problem& p) {
  const int64_t near = p.chain_constant_bytes > p.target.l2_bytes ? p.target.l2_bytes / 4 * 3
                                                                  : p.target.l2_bytes / 2;
  return near / p.chain_row_bytes;
}

void choose_chain_rows(const Problem& p, const RegisterTile& tile, Choice& choice) {
  const int64_t tasks = tasks_of(p);
  const int64_t most = std::clamp<int64_t>(most_chain_rows(p), tile.rows, p.rows);
  const bool enough = p.chain_batches >= p.constants.enough_blocks * tasks;
  const int64_t even = balanced_block(p.rows, most, enough ? 1 : tasks);
  const int64_t tiles = std::min(ceil_div(even, tile.rows), most / tile.rows);
  choice.set("chain_block_rows", even == p.rows ? even : std::max(tile.rows, tiles * tile.rows),
             "rows that stay near L2 from the first product to the last");
}

// Whether a product of several column tiles is so shallow that the time goes into storing results,
// which do not fit L2. A block of few rows then stores whole pages, one after the other, and reads
// the vector operand again from L2 (a Xeon with AMX, f32, one thread: 96x512x512x64 1.18 of the
// speed of a block of all rows, 2048x2048x128 1.07, 512x512x256 0.9).
bool stores_dominate(const Problem& p, const RegisterTile& tile) {
  return vectors_are_lines(p.target) && !p.has_other_rows && p.depth <= p.constants.shallow &&
         p.cols > tile.vectors * p.lanes && 2 * p.vector.batch_bytes <= p.target.l2_bytes &&
         p.results * p.row.element_bytes > p.target.l2_bytes;
}

// The number of row tiles whose operand stays near L2. It may exceed L2: it is read in long
// streams, and larger blocks read the vector operand less often. This matters more where the
// reduction is cut and results are read again too (docs/internals/decisions/measured-choices.md, "blocks of
// 2048^3").
int64_t row_tiles_in_l2(const Problem& p, const RegisterTile& tile) {
  if (stores_dominate(p, tile)) return std::max<int64_t>(1, p.constants.rows_of_stores / tile.rows);
  const CpuConstants& by = p.constants;
  auto block_bytes =
      static_cast<int64_t>(static_cast<double>(p.target.l2_bytes) *
                           (p.depth > by.long_reduction ? by.l2_of_cut_block : by.l2_of_block));
  // Machines of such vectors have a large L2 and a slow L3, so a block must not exceed L2. A vector
  // operand that stays in L2 leaves less of it to the block and is cheap to read again.
  if (vectors_are_lines(p.target) && !p.has_other_rows)
    block_bytes = p.target.l2_bytes / (2 * p.vector.batch_bytes <= p.target.l2_bytes ? 8 : 2);
  const int64_t tile_bytes =
      std::min(p.depth, p.constants.panel_steps) * p.row.element_bytes * tile.rows;
  return std::max<int64_t>(1, block_bytes / std::max<int64_t>(1, tile_bytes));
}

// Numbers of tiles in a block, chosen for L2 and for the threads.
struct Blocks {
  int64_t row = 1, col = 1;
  int64_t other = 1;        // elements of the innermost other axis of the row operand
  bool share_rows = false;  // rows, not columns, are shared out among the threads
};

// Each block copies its panels of the vector operand. A block then has all rows, so that no panel
// is copied again, and columns are shared out. The panels of a block share the pages and cache lines
// of the operand's rows.
void with_panels(const Problem& p, int64_t row_tiles, int64_t col_tiles, int64_t split_over,
                 Blocks& b) {
  b.row = row_tiles;
  b.col = split_over == 1 ? col_tiles
                          : balanced_block(col_tiles, p.constants.panels_a_block, split_over);
}

// Whether tiles of rows and columns are all that there is to share out, on a machine whose caches
// are far from each other.
bool shares_tiles(const Problem& p) {
  return vectors_are_lines(p.target) && !p.has_other_rows && !p.rows_in_planes && !p.hosts_chain &&
         p.row.exists && tasks_of(p) > 1 && p.outer < p.constants.enough_blocks * tasks_of(p);
}

// Columns of whole groups in a block. Each group reads channels of its own, so fewer keep what a block
// reads near, and these fill lines of the caches.
constexpr int64_t kColumnsOfGroups = 64;

Blocks blocks_of(const Problem& p, const RegisterTile& tile, bool panels) {
  Blocks b;
  const int64_t row_tiles = ceil_div(p.rows, tile.rows);
  const int64_t col_tiles = ceil_div(p.cols, tile.vectors * p.lanes);
  const int64_t in_l2 = row_tiles_in_l2(p, tile), tasks = tasks_of(p);
  if (shares_tiles(p)) {
    const TileBlock block =
        shared_block({row_tiles, col_tiles, p.outer, tile.rows, panels}, tasks, p.constants);
    b.share_rows = block.cols == col_tiles;
    b.row = panels ? block.rows : balanced_block(block.rows, in_l2, 1);
    b.col = panels ? balanced_block(block.cols, p.constants.panels_a_block, 1) : block.cols;
    return b;
  }
  // Columns are not cut further where the outer axes have enough work for all threads.
  const int64_t split_over = p.outer >= p.constants.enough_blocks * tasks ? 1 : tasks;
  if (p.has_other_rows) {
    // The rows of a convolution's image count as rows of the block.
    const int64_t most = std::clamp<int64_t>(in_l2 / row_tiles, 1, p.other_rows);
    b.other = balanced_block(p.last_other_rows, most, split_over);
  }
  const bool image = p.other_rows > 1;
  b.share_rows = !panels && p.outer * (image ? p.other_rows : row_tiles) >= tasks * 2;
  if (panels) {
    with_panels(p, row_tiles, col_tiles, split_over, b);
    return b;
  }
  b.row = image ? row_tiles : balanced_block(row_tiles, in_l2, b.share_rows ? split_over : 1);
  // The channels or groups of an image in planes: the next tile of rows is in other planes, so all
  // columns of this one come first, in the order of memory.
  if (p.rows_in_planes) b.row = std::max<int64_t>(1, p.row_group / tile.rows);
  b.col = b.share_rows ? col_tiles : balanced_block(col_tiles, col_tiles, split_over);
  if (p.col_group < p.cols && p.channels == 0) {
    const int64_t a_group = p.col_group / (tile.vectors * p.lanes);
    b.col = std::min(b.col, a_group * std::max<int64_t>(1, kColumnsOfGroups / p.col_group));
  }
  return b;
}

// Blocks whose images take a part of L2. A depthwise convolution is cut by channels first: then no
// row of the image is computed twice. Others read all channels, so only rows are cut.
Blocks blocks_of_images(const Problem& p, const RegisterTile& tile) {
  const int64_t near = p.target.l2_bytes / 4, tasks = tasks_of(p);
  const int64_t row_tiles = ceil_div(p.rows, tile.rows);
  const int64_t col_tiles = ceil_div(p.cols, tile.vectors * p.lanes);
  Blocks b;
  b.row = row_tiles;
  b.col = col_tiles;
  const auto rows_of = [&](int64_t bytes_a_row, int64_t cut_over) {
    const int64_t most = std::clamp<int64_t>(near / std::max<int64_t>(1, bytes_a_row), 1,  //
                                             p.images.rows);
    return balanced_block(p.images.rows, most, cut_over);
  };
  if (!p.images.by_channels) {
    b.share_rows = true;
    b.other = rows_of(
        p.images.row_bytes,
        p.outer * p.other_rows / p.images.rows >= p.constants.enough_blocks * tasks ? 1 : tasks);
    return b;
  }
  // A product needs some vectors of channels for a register tile. Fewer are better than rows that
  // are computed twice.
  constexpr int64_t kVectorsOfBlock = 4;
  const int64_t least = std::min(col_tiles, ceil_div(kVectorsOfBlock, tile.vectors));
  const int64_t tile_bytes = std::max<int64_t>(1, p.images.row_bytes / col_tiles);
  const int64_t most = near / (tile_bytes * p.images.rows);
  if (most < least) {
    b.col = std::max<int64_t>(1, most);
  } else {
    b.col = balanced_block(ceil_div(col_tiles, least), most / least, tasks);
    b.col = std::min(col_tiles, b.col * least);
  }
  b.other = rows_of(tile_bytes * b.col, 1);
  return b;
}

// A line of a plane has the results of several tiles. Planes whose distance is a large power of two
// share few sets of the caches, so a line would be evicted and fetched between two tiles
// (docs/internals/decisions/measured-choices.md, "results in planes").
// Lines of up to half a vector gain too: a vector has results of as many planes as it has lanes. (Emerald Rapids, two threads, time
// over that of results stored one by one: lines of 4 to 8 results 0.57 to 1.0.)
bool stages_results(const Problem& p) {
  const bool is_short = p.rows >= p.constants.staged_rows && 2 * p.rows <= p.lanes;
  return p.scattered && (p.rows >= p.lanes || is_short);
}

// Makes a block so small that its results stay near until they are copied.
void keep_results_near(const Problem& p, const RegisterTile& tile, Blocks& b) {
  constexpr int64_t kBytes = 4;  // of a result
  const int64_t columns = std::min(p.cols, b.col * tile.vectors * p.lanes);
  const int64_t near = std::max<int64_t>(1, p.target.l2_bytes / 4 / (columns * kBytes));
  b.row = std::clamp<int64_t>(near / p.lanes, 1, b.row);
  b.other = std::clamp<int64_t>(near / std::min(p.rows, b.row * p.lanes), 1, b.other);
}

void choose_blocks(const Problem& p, const RegisterTile& tile, PackVectors packing,
                   Choice& choice) {
  Blocks b =
      p.images.hosted ? blocks_of_images(p, tile) : blocks_of(p, tile, packing == kPackPanels);
  if (p.hosts_chain) {
    // A block has all columns. Otherwise the whole chain would be computed for each block of
    // columns.
    b.col = ceil_div(p.cols, tile.vectors * p.lanes);
    b.other = 1;
    // Rows of an image whose columns are all in one block.
    if (p.has_other_rows && choice.value("chain_block_rows") >= p.rows) {
      const int64_t tasks = tasks_of(p), images = p.outer * p.other_rows / p.last_other_rows;
      const int64_t most = std::clamp<int64_t>(most_chain_rows(p) / p.rows, 1, p.last_other_rows);
      b.other = balanced_block(p.last_other_rows, most,
                               images >= p.constants.enough_blocks * tasks ? 1 : tasks);
    }
  }
  if (stages_results(p)) keep_results_near(p, tile, b);
  choice.set(
      "stage_results", stages_results(p),
      stages_results(p) ? "whole lines of each plane are written at once" : "rows are short");
  choice.set("row_block_tiles", b.row, "row tiles whose operand stays near L2");
  choice.set("col_block_tiles", b.col,
             b.share_rows || p.hosts_chain ? "all: rows are shared out" : "columns are shared out");
  choice.set("other_block_rows", b.other,
             p.images.hosted ? "rows whose images stay near" : "rows of the image a block");
}

// The block of the longest reduction for which the blocks of all reductions together have about
// panel_steps steps.
int64_t block_of_reduction(const Problem& p) {
  constexpr int64_t kShortestBlock = 64;
  const int64_t k = p.longest_reduction;
  if (p.depth <= p.constants.panel_steps) return ceil_div(k, 2);
  const int64_t most = std::max(kShortestBlock, p.constants.panel_steps * k / p.depth);
  return ceil_div(k, ceil_div(k, most));
}

// Whether parts of the reduction on several cores gain more than adding them up costs. More cores gain
// more where results are too few to share out, and parts of windows read the image in pieces. Where there are more results, each
// core reads all rows or all columns without parts, and a share of both with them.
bool worth_parts(const Problem& p) {
  const CpuConstants& by = p.constants;
  const bool few = has_few_tasks(p.target, by, double(p.results), double(p.lanes));
  if (p.longest_reduction < p.depth) return few && p.depth >= by.deep_windows;
  const auto deep = static_cast<double>(by.deep_reduction);
  const double depth = static_cast<double>(p.depth), cores = std::max(1, p.target.cores);
  return (few && depth >= deep * std::sqrt(2 / cores)) ||
         (p.results <= by.deep_results && depth >= deep);
}

void choose_reduction(const Problem& p, const RegisterTile& tile, PackVectors packing,
                      Choice& choice) {
  const int64_t k = p.longest_reduction, cores = p.target.cores;
  choice.set("k_block", std::min(k, whole_groups(p, block_of_reduction(p))),
             "a panel of the vector operand stays near");
  choice.set("k_part", whole_groups(p, ceil_div(k, cores)), "one part a core");
  choice.set_kind("reduction", {"whole", "k_blocked", "split_k"}, kWholeReduction,
                  "the whole reduction in one go");
  // Stages that are computed within a block of a chain are read by the whole reduction, so it is
  // not cut.
  if (!p.can_cut || p.hosts_chain) return;
  // Each row tile of a block reads the panel again.
  const int64_t panel_bytes = p.depth * tile.vectors * p.target.vector_bytes;
  if (can_block_k(p) && packing == kPackPanels && 2 * panel_bytes > p.target.l2_bytes)
    choice.set("reduction", kKBlocked, "a panel of the whole reduction is too long for L2");
  else if (can_block_k(p) && p.depth > p.constants.long_reduction &&
           p.rows * p.cols >= p.constants.many_results)
    choice.set("reduction", kKBlocked, "the reduction is too long for the caches");
  if (can_split_k(p) && p.parallel && worth_parts(p))
    choice.set("reduction", kSplitK, "too few results to share out over the cores");
}

void choose_copy_of_vectors(const Problem& p, PackVectors packing, Choice& choice) {
  constexpr int64_t kColumnsAhead = 32;
  choice.set("pack_vectors", packing,
             p.vector.constant        ? "constant: packed once"
             : packing == kPackPanels ? "long strides, a panel at a time"
             : packing == kPackWhole  ? "long strides, read often"
                                      : "read in order as it lies");
  // The lines of a panel are on different pages, where hardware prefetchers do not run ahead. The
  // next panel is therefore prefetched while one is copied.
  choice.set("prefetch_panels", packing == kPackPanels ? kColumnsAhead : 0,
             "columns ahead of those that are copied");
}

// Without a copy, a block has many rows that compete for sets of L2. A copy pays once the operand
// exceeds L2 and is read often (docs/internals/decisions/measured-choices.md, "packing the broadcast
// operand").
void choose_copy_of_broadcasts(const Problem& p, Choice& choice) {
  const CpuConstants& by = p.constants;
  const bool large =
      !p.images.hosted && p.cols >= by.many_columns && p.row.batch_bytes >= p.target.l2_bytes;
  // Without a copy, each step of k would read one line of which a tile uses some elements.
  const bool across =
      !p.images.hosted && p.cols >= by.some_columns && p.depth >= by.deep_rows && p.row_run <= 1;
  const std::string reason = p.row.constant ? "constant: packed once"
                             : large        ? "larger than L2, read for many columns"
                             : across       ? "rows lie across the lines of memory"
                                            : "broadcasts read it in order";
  if (!p.halves()) {
    choice.set("pack_broadcasts",
               p.row.constant || large || across ? kPackTiles : kBroadcastAsItLies, reason);
  } else if (p.cols >= by.widen_columns) {
    choice.set("pack_broadcasts", kWidenInPlace, "widened as it lies, for many columns");
  } else {
    choice.set("pack_broadcasts", kBroadcastAsItLies, reason);
  }
}

// In a network other layers have taken the caches since the last call, so constants come from L3 or
// memory. The stream of a packed constant stops at each page until the hardware has learned of the
// next one (docs/internals/decisions/cpu-products.md).
void choose_fetch_of_packed(const Problem& p, Choice& choice) {
  const int64_t bytes = std::max(p.vector.constant ? p.vector.bytes : 0,  //
                                 p.row.constant ? p.row.bytes : 0);
  const bool far = offers_prefetch_of_packed(p) && bytes > p.target.l1d_bytes;
  int64_t steps = 0;
  for (int64_t n : kStepsFetchedAhead) {
    if (far && n <= p.common_reduction) steps = n;
  }
  choice.set("prefetch_packed", steps,
             far ? "constants come from beyond L2" : "the hardware fetches what is in order");
}

// Packing converts each element once; the inner loop converts it whenever it is read. Operands that
// are read a few times are better kept narrow.
void choose_widening(const Problem& p, Choice& choice) {
  constexpr int64_t kReadOften = 8;  // rows
  const auto set = [&](const char* knob, bool widen) {
    choice.set(knob, widen, widen ? "converted once, read often" : "kept short");
  };
  set("widen_vectors", p.rows >= kReadOften);
  set("widen_broadcasts", true);
}

}  // namespace

int64_t whole_groups(const Problem& p, int64_t length) {
  return ceil_div(length, p.largest_dot) * p.largest_dot;
}

bool can_block_k(const Problem& p) {
  constexpr int64_t kShortest = 64;  // steps; shorter blocks reduce too little at a time
  return p.can_cut && p.longest_reduction >= kShortest;
}

bool can_split_k(const Problem& p) {
  constexpr int64_t kStepsACore = 8;
  const int64_t cores = p.target.cores;
  return p.can_cut && cores > 1 && p.longest_reduction >= kStepsACore * cores;
}

bool offers_prefetch_of_packed(const Problem& p) {
  const bool vectors = p.vector.constant && p.vector.packable && p.row.exists;
  const bool rows = p.row.constant && p.row.packable;
  return vectors_are_lines(p.target) && (vectors || rows) && !p.narrow &&
         p.common_reduction >= kStepsFetchedAhead[0];
}

Choice contraction_rule(const Problem& p, const Choice& given) {
  Choice choice;
  const Problem::Window& innermost = choose_channels(p, given, choice);
  const RegisterTile tile = choose_tile(p, innermost, given, choice);
  choose_unroll(p, innermost, choice);
  choose_dot(p, choice);
  choose_chain_rows(p, tile, choice);
  const PackVectors of_rule = packing_of_vectors(p, blocks_have_batch(p, choice));
  const auto packing = p.vector.packable && p.row.exists
                           ? PackVectors(given_or(given, "pack_vectors", of_rule))
                           : of_rule;
  choose_blocks(p, tile, packing, choice);
  choose_reduction(p, tile, packing, choice);
  choose_copy_of_vectors(p, packing, choice);
  // The choice has the rule's own value, which holds where the given one is not offered.
  choice.set("pack_vectors", of_rule, choice.reason("pack_vectors"));
  choose_copy_of_broadcasts(p, choice);
  choose_fetch_of_packed(p, choice);
  choose_widening(p, choice);
  return choice;
}

}  // namespace heddle::meta::cpu
