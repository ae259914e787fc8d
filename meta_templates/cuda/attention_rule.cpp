#include "cuda/attention_rule.h"

#include <algorithm>

namespace heddle::meta {
namespace {

// kPad: elements after each row of a tile in shared memory. These 16 bytes put the rows of a matrix
// into different banks. kBytes: bytes of an element.
constexpr int64_t kPad = 8, kBytes = 2;
// Registers besides fragments: addresses, counters, values of rows.
constexpr int64_t kOtherRegisters = 48;
// Registers, as attention_registers counts them, up to which the compiler did not spill, with masks
// and without.
constexpr int64_t kGoodRegisters = 250, kUnmaskedRegisters = 284;
// Rows of a block with wide warps.
constexpr int64_t kManyRows = 128;
// Blocks per SM from which on causal rows balance, although the last of them take longest.
constexpr int64_t kBalancedBlocks = 8;

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

// Chooses what was fastest of all configs timed on an H100 (heads of 64 and 128, f16).
Choice attention_rule(const AttentionProblem& p) {
  AttentionTile t;
  const int64_t good = p.causal || p.masked ? kGoodRegisters : kUnmaskedRegisters;
  // A warp of 32 rows uses each fragment of keys and values twice.
  const int64_t blocks = ceil_div(p.rows, kManyRows) * p.batches;
  const bool wide =
      2 * p.rows > kManyRows && blocks >= (p.causal ? kBalancedBlocks : 1) * p.gpu.sms;
  t.row_tiles = wide ? 2 : 1;
  t.row_warps = 4;
  while (t.row_warps > 1 && t.rows() >= 2 * p.rows) t.row_warps /= 2;
  // A block that is alone on its SM takes longer tiles, and fewer of them.
  const bool alone = ceil_div(p.rows, t.rows()) * p.batches <= p.gpu.sms;
  t.keys = alone ? 128 : 64;
  while (t.keys > kAttentionUnit && t.keys >= 2 * p.keys) t.keys /= 2;
  const auto fits = [&] { return attention_registers(p, t) <= good; };
  while (alone && t.keys > 64 && !fits()) t.keys /= 2;
  t.resident = attention_registers(p, t) <= kGoodRegisters;
  while (t.keys > 2 * kAttentionUnit && !fits()) t.keys /= 2;
  if (t.row_tiles > 1 && !fits()) t.row_tiles = 1;
  t.stages = t.keys <= 2 * kAttentionUnit ? 3 : 2;
  while (t.stages > 2 && attention_bytes(p, t) > p.gpu.smem_per_block) --t.stages;
  while (t.keys > kAttentionUnit && attention_bytes(p, t) > p.gpu.smem_per_block) t.keys /= 2;
  Choice c;
  c.set("row_tiles", t.row_tiles,
        wide ? "each fragment of keys and values is used twice" : "more blocks for the SMs");
  c.set("row_warps", t.row_warps, "warps of a block, each with its rows");
  c.set("keys", t.keys, "keys of a tile: their scores are in registers");
  c.set("stages", t.stages, "tiles of keys and values are loaded meanwhile");
  c.set(
      "resident", t.resident ? 1 : 0,
      t.resident ? "queries stay in registers" : "registers are short: queries from shared memory");
  return c;
}

}  // namespace heddle::meta
