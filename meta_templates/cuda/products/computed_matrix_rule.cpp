#include <algorithm>
#include <string>

#include "cuda/products/computed_matrix_group.h"

namespace heddle::meta {
namespace {

// kPad: elements after each row of a tile in shared memory, which put the rows of a matrix into
// different banks. kBytes: bytes of an element.
constexpr int64_t kPad = 8, kBytes = 2;
// Registers besides fragments, and those that a thread may use before its fragments spill.
constexpr int64_t kOtherRegisters = 48, kGoodRegisters = 195;
// Blocks of wide warps for each multiprocessor from which on they pay: of 64 heads of 4,096 tokens on an
// H200 they take 0.84 of the time of others.
constexpr int64_t kWavesOfWide = 2;
// Partial results of each row that are added up in shared memory, in f32.
constexpr int64_t kPartialBytes = 8 * 4;

int64_t round_up(int64_t n) { return ceil_div(n, kMatrixUnit) * kMatrixUnit; }

// The bytes of `lines` lines of an operand, whichever of its dimensions is contiguous.
int64_t tile_of(int64_t lines, int64_t depth) {
  return std::max(lines * (depth + kPad), (lines + kPad) * depth) * kBytes;
}

}  // namespace

NamedFeatures ComputedMatrixProblem::features() const {
  const auto number = [](auto x) { return static_cast<double>(x); };
  int64_t depth = 0;
  for (const int64_t d : depths) depth += d;
  return {{"rows", number(rows)},
          {"keys", number(keys)},
          {"cols", number(cols)},
          {"batches", number(batches)},
          {"products", number(depths.size())},
          {"depth", number(depth)},
          {"warp_groups", number(warp_groups ? 1 : 0)},
          {"sms", number(gpu.sms)},
          {"smem_per_block_bytes", number(gpu.smem_per_block)},
          {"block_threads", number(most_block_threads(gpu))}};
}

int64_t computed_matrix_registers(const ComputedMatrixProblem& p, const ComputedMatrixTile& t) {
  // Four lanes share a row, in tiles of 8 columns. A 16-bit element takes half a register.
  int64_t of_rows = (p.cols > 0 ? round_up(p.cols) : 8) / 2 + t.keys() / (p.cols > 0 ? 4 : 2);
  for (const int64_t depth : p.depths)
    of_rows += t.keys() / 2 + (t.resident ? round_up(depth) / 4 : 4);
  return t.row_tiles * of_rows + kOtherRegisters;
}

int64_t computed_matrix_bytes(const ComputedMatrixProblem& p, const ComputedMatrixTile& t) {
  int64_t bytes =
      p.cols > 0 ? t.stages * tile_of(t.keys(), round_up(p.cols)) : t.rows() * kPartialBytes;
  for (const int64_t depth : p.depths)
    bytes += tile_of(t.rows(), round_up(depth)) + t.stages * tile_of(t.keys(), round_up(depth));
  return bytes;
}

Choice computed_matrix_rule(const ComputedMatrixProblem& p) {
  ComputedMatrixTile t;
  while (t.row_warps > 1 && t.rows() >= 2 * p.rows) t.row_warps /= 2;
  const auto fits = [&] { return computed_matrix_registers(p, t) <= kGoodRegisters; };
  const auto in_memory = [&] { return computed_matrix_bytes(p, t) <= p.gpu.smem_per_block; };
  while (t.key_units > 1 && t.keys() >= 2 * p.keys) t.key_units /= 2;
  t.resident = fits();
  while (t.key_units > 1 && !fits()) t.key_units /= 2;
  // A warp of 32 rows uses each fragment of keys twice. It has fewer keys, and spills a little.
  const bool wide = 2 * t.rows() <= p.rows &&
                    ceil_div(p.rows, 2 * t.rows()) * p.batches >= kWavesOfWide * p.gpu.sms;
  if (wide) {
    t.row_tiles = 2;
    t.key_units = std::min<int64_t>(t.key_units, 2);
  }
  while (t.key_units > 1 && !in_memory()) t.key_units /= 2;
  while (t.row_warps > 1 && !in_memory()) t.row_warps /= 2;
  Choice c;
  c.set("row_tiles", t.row_tiles,
        wide ? "each fragment of keys is used twice" : "more blocks for the SMs");
  c.set("row_warps", t.row_warps, "warps of a block, each with its rows");
  c.set("key_units", t.key_units, "units of 16 keys of a tile: the matrix is in registers");
  c.set("stages", t.stages, "tiles of keys are loaded meanwhile");
  c.set("resident", t.resident ? 1 : 0,
        t.resident ? "operands of rows stay in registers"
                   : "registers are short: operands of rows from shared memory");
  const ComputedMatrixGroupTile group = computed_matrix_group_tile(p);
  const bool groups = p.warp_groups && group.keys > 0;
  c.set("unit", groups ? 1 : 0,
        groups ? "TMA and wgmma" : "operands that TMA cannot load, or no tile divides the matrix");
  c.set("groups", group.groups, "warp groups of a block, each with 64 rows");
  c.set("group_key_units", std::max<int64_t>(group.keys / kMatrixUnit, 4),
        "units of 16 keys of a tile of warp groups");
  c.set("group_stages", group.stages, "tiles of keys and values that TMA loads ahead");
  return c;
}

}  // namespace heddle::meta
