#include "cuda/attention/rule.h"

#include <algorithm>

namespace heddle::meta {
namespace {

// kPad: elements after each row of a tile in shared memory. These 16 bytes put the rows of a matrix
// into different banks. kBytes: bytes of an element.
constexpr int64_t kPad = 8, kBytes = 2;
// Registers besides fragments: addresses, counters, values of rows.
constexpr int64_t kOtherRegisters = 48;
// Rows of a block with wide warps.
constexpr int64_t kManyRows = 128;

// Attention in parts: the largest number of rows for which it is offered, and the fewest keys of a
// part.
constexpr int64_t kFewRows = 64, kShortestPart = 64;
// The tile of a part, and from how many keys and up to what head blocks of small tiles were timed.
constexpr int64_t kPartKeys = 32, kPartStages = 3, kManyKeys = 4096, kSmallHead = 64;

int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

}  // namespace

int64_t AttentionProblem::padded_depth() const { return round_up(depth, kAttentionUnit); }
int64_t AttentionProblem::padded_cols() const { return round_up(cols, kAttentionUnit); }

NamedFeatures AttentionProblem::features() const {
  const auto number = [](auto x) { return static_cast<double>(x); };
  return {{"rows", number(rows)},
          {"keys", number(keys)},
          {"batches", number(batches)},
          {"depth", number(depth)},
          {"cols", number(cols)},
          {"causal", number(causal)},
          {"masked", number(masked)},
          {"reach", number(reach)},
          {"warp_groups", number(warp_groups)},
          {"sms", number(gpu.sms)},
          {"smem_per_block_bytes", number(gpu.smem_per_block)},
          {"block_threads", number(most_block_threads(gpu))}};
}

int64_t attention_registers(const AttentionProblem& p, const AttentionTile& t) {
  // Four lanes share a row, in tiles of 8 columns. A weight takes half a register.
  const int64_t sums = p.padded_cols() / 2, scores = t.keys / 2, weights = t.keys / 4;
  const int64_t queries = t.resident ? p.padded_depth() / 4 : 4;
  return t.row_tiles * (sums + scores + weights + queries) + kOtherRegisters;
}

int64_t attention_bytes(const AttentionProblem& p, const AttentionTile& t) {
  const int64_t depth = p.padded_depth() + kPad, cols = p.padded_cols() + kPad;
  // An operand may be transposed. Then other rows are padded.
  const int64_t rows = std::max(t.rows() * depth, (t.rows() + kPad) * p.padded_depth());
  const int64_t tiles = std::max(t.keys * depth, (t.keys + kPad) * p.padded_depth()) +
                        std::max(t.keys * cols, (t.keys + kPad) * p.padded_cols());
  return (rows + t.stages * tiles) * kBytes;
}

bool attention_parts_have_keys(const AttentionProblem& p, int64_t keys, int64_t parts) {
  const int64_t of_part = round_up(ceil_div(p.keys, parts), keys);
  return (parts - 1) * of_part < p.keys;
}

bool attention_in_parts(const AttentionProblem& p) {
  return p.rows <= kFewRows && p.keys >= 2 * kShortestPart;
}

namespace {

// A warp goes through the keys of a part: short tiles, several of them under way, and as many
// blocks to an SM as its memory holds, so that together they keep memory busy.
AttentionTile tile_of_parts(const AttentionProblem& p) {
  AttentionTile t;
  t.row_tiles = 1;
  t.row_warps = 1;
  while (t.rows() < p.rows && t.row_warps < 4) t.row_warps *= 2;
  t.keys = kPartKeys;
  t.stages = kPartStages;
  // Where there are enough blocks, those of smaller tiles hide each other's waits: 16 sequences of 8
  // groups with 8,191 keys take 79 to 90 us on an H200 (parts of 512 to 1,024), 114 with tiles of 32.
  if (2 * ceil_div(p.rows, t.rows()) * p.batches >= p.gpu.sms && p.keys >= kManyKeys &&
      std::max(p.depth, p.cols) <= kSmallHead) {
    t.keys = kAttentionUnit;
    t.stages = 2;
  }
  while (t.keys > kAttentionUnit && attention_bytes(p, t) > p.gpu.smem_per_block) t.keys /= 2;
  while (t.stages > 2 && attention_bytes(p, t) > p.gpu.smem_per_block) --t.stages;
  t.resident = attention_registers(p, t) <= p.constants.attention_registers;
  return t;
}

// The number of blocks that run at the same time.
int64_t places(const AttentionProblem& p, const AttentionTile& t) {
  const int64_t of_sm =
      std::max<int64_t>(1, p.gpu.smem_per_sm / (attention_bytes(p, t) + p.gpu.smem_reserved));
  // Smaller tiles have fewer keys under way.
  const int64_t smaller =
      std::max<int64_t>(1, kPartKeys * (kPartStages - 1) / (t.keys * (t.stages - 1)));
  return p.gpu.sms * std::min(of_sm, smaller * p.constants.attention_blocks_for_memory);
}

// The parts with the least time, in tiles of keys that a place loads one after the other. A part
// costs some of them to begin and to add up.
int64_t parts_of(const AttentionProblem& p, const AttentionTile& t) {
  const GpuConstants& by = p.constants;
  const int64_t blocks = ceil_div(p.rows, t.rows()) * p.batches, at_once = places(p, t);
  const auto time = [&](int64_t parts) {
    const int64_t tiles = ceil_div(ceil_div(p.keys, parts), t.keys);
    return ceil_div(blocks * parts, at_once) * (tiles + by.attention_tiles_to_begin) +
           (parts > 1 ? by.attention_tiles_of_sum : 0);
  };
  int64_t best = 1;
  for (int64_t parts : kAttentionParts) {
    const bool long_enough = ceil_div(p.keys, parts) >= kShortestPart;
    if (long_enough && attention_parts_have_keys(p, t.keys, parts) && time(parts) < time(best))
      best = parts;
  }
  return best;
}

// Chooses what was fastest of all configs timed on an H100 (heads of 64 and 128, f16).
AttentionTile whole_tile(const AttentionProblem& p) {
  AttentionTile t;
  const int64_t good = p.causal || p.masked ? p.constants.attention_registers
                                            : p.constants.attention_unmasked_registers;
  // A warp of 32 rows uses each fragment of keys and values twice. Where rows attend to few of the keys or to nearly
  // all, blocks take unequal time, and there must be many; rows behind a long past attend to nearly all.
  const bool uneven = p.causal && 2 * p.rows > p.keys;
  const int64_t blocks = ceil_div(p.rows, kManyRows) * p.batches;
  const bool wide = 2 * p.rows > kManyRows &&
                    blocks >= (uneven ? p.constants.attention_balanced_blocks : 1) * p.gpu.sms;
  t.row_tiles = wide ? 2 : 1;
  t.row_warps = 4;
  while (t.row_warps > 1 && t.rows() >= 2 * p.rows) t.row_warps /= 2;
  // A block that is alone on its SM takes longer tiles, and fewer of them.
  const bool alone = ceil_div(p.rows, t.rows()) * p.batches <= p.gpu.sms;
  t.keys = alone ? 128 : 64;
  while (t.keys > kAttentionUnit && t.keys >= 2 * p.keys) t.keys /= 2;
  const auto fits = [&] { return attention_registers(p, t) <= good; };
  while (alone && t.keys > 64 && !fits()) t.keys /= 2;
  t.resident = attention_registers(p, t) <= p.constants.attention_registers;
  while (t.keys > 2 * kAttentionUnit && !fits()) t.keys /= 2;
  if (t.row_tiles > 1 && !fits()) t.row_tiles = 1;
  t.stages = t.keys <= 2 * kAttentionUnit ? 3 : 2;
  while (t.stages > 2 && attention_bytes(p, t) > p.gpu.smem_per_block) --t.stages;
  while (t.keys > kAttentionUnit && attention_bytes(p, t) > p.gpu.smem_per_block) t.keys /= 2;
  return t;
}

// Whether few of the multiply-adds of warp groups are with zeros: their boxes and sums of columns are
// whole multiples of 64. mma.sync takes what there is, at about 0.65 of their rate.
bool fills_boxes(const AttentionProblem& p) {
  constexpr int64_t kBox = 64;
  const auto used = static_cast<double>(p.padded_depth() + p.padded_cols()),
             all = static_cast<double>(p.padded_depth() + round_up(p.cols, kBox));
  return used >= p.constants.attention_share_of_use * all;
}

}  // namespace

Choice attention_rule(const AttentionProblem& p) {
  AttentionTile t = whole_tile(p);
  if (attention_in_parts(p)) {
    AttentionTile cut = tile_of_parts(p);
    cut.parts = parts_of(p, cut);
    if (cut.parts > 1) t = cut;
  }
  Choice c;
  c.set("row_tiles", t.row_tiles,
        t.row_tiles > 1 ? "each fragment of keys and values is used twice"
                        : "more blocks for the SMs");
  c.set("row_warps", t.row_warps, "warps of a block, each with its rows");
  c.set("keys", t.keys, "keys of a tile: their scores are in registers");
  c.set("stages", t.stages, "tiles of keys and values are loaded meanwhile");
  c.set(
      "resident", t.resident ? 1 : 0,
      t.resident ? "queries stay in registers" : "registers are short: queries from shared memory");
  c.set("form", t.parts > 1 ? 1 : 0,
        t.parts > 1 ? "too few rows for the SMs: they share the keys" : "rows fill the SMs");
  c.set("parts", std::max(t.parts, kAttentionParts.front()), "parts of keys that run at once");
  const AttentionGroupTile group = attention_group_tile(p);
  const bool groups = p.warp_groups && group.keys > 0 && t.parts == 1 &&
                      p.rows >= p.constants.attention_group_rows && fills_boxes(p);
  c.set(
      "unit", groups ? 1 : 0,
      groups ? "TMA and wgmma" : "too few rows, too small heads, or operands that TMA cannot load");
  c.set("groups", group.groups, "warp groups of a block, each with 64 rows");
  c.set("group_keys", std::max<int64_t>(group.keys, 64), "keys of a tile of warp groups");
  c.set("group_stages", group.stages, "tiles of keys and values that TMA loads ahead");
  return c;
}

}  // namespace heddle::meta
