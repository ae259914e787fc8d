#include "cuda/products/tensor_core_rule.h"

#include <cmath>

namespace heddle::meta {
namespace {

// ---- The model of an SM. The defaults of its constants (GpuConstants) were fitted by hand to tiles
// of bf16 products that were timed on an H200 (mma.sync, sm_90). An SM with one warp takes 1 + mma_wait
// times as long, and further warps hide the latency of each mma. ----

// Steps of the depth in flight during the latency of memory: three tiles of 64.
constexpr double kStepsUnderWay = 3 * 64;
// Bytes of a cache line. A line of which a block reads half costs the whole line in about half of
// the cases.
constexpr double kLineBytes = 128;
constexpr double kSharedBytesPerCycle = 128;
// Where the depth has one tile, nothing is multiplied while a thread waits for single elements. Warps
// of all blocks of an SM wait together. (3x3 of 3 channels, 112 x 112 x 32 results on an H200: 98
// blocks of 4 warps 3.8 us, 196 of 4 warps 2.8, 392 of 2 warps 2.4.)
constexpr int64_t kStepsOfOneTile = 64;
constexpr double kWarpsOfSm = 64;
// Bytes of a partial result (f32) of a cut reduction, which is written and read.
constexpr double kSumBytes = 8;
// Products of bytes: about 13 instructions make a byte of a sum, and a multiprocessor runs 128 in a cycle.
constexpr int64_t kBytesOfWord = 4;
constexpr double kCyclesOfResult = 0.1;
// With more rounds of blocks than this, all SMs finish at about the same time.
constexpr double kEvenRounds = 8;

// ---- The configs that are considered. ----

// The most warps of a block that the rule chooses. Knobs offer up to 16.
constexpr int64_t kMostWarps = 8;
// The most tiles of a warp. Each has 4 accumulators per lane.
constexpr int64_t kMostTilesOfWarp = 32;
// Another tile is chosen only if its cost is below this share, so near equals keep the first tile.
constexpr double kWorthwhile = 0.999;
// Steps of the shortest part that is offered, and the least depth that may be cut.
constexpr int64_t kLeastPart = 64, kLeastSplitDepth = 512;
// The least tiles in rotation.
constexpr int64_t kLeastStages = 2, kLeastStagesOfLongTile = 3;
// The least steps of mma_k of a reduction that is worth two tiles.
constexpr int64_t kLeastStepsOfTwoTiles = 3;
// Rows or columns from which on an operand that is loaded by single elements is read often enough
// for a copy to pay.
constexpr int64_t kReusedLines = 8;

int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

// The number of tiles of `tile_k` times mma_k steps that fit the shared memory of a block.
int64_t most_stages(const TensorCoreProblem& p, const TensorCoreTile& t, int64_t tile_k) {
  return p.gpu.smem_per_block / tile_bytes(t.rows(), t.cols(), p.mma_k() * tile_k, p.pack);
}

// The length of the shortest part. Elements that are loaded singly take long, so that fewer of them pay for a block. (H200, f16,
// us with parts of 128 steps and more, and of 64: 16x5x2112 takes 5.41 and 3.59, 8x16x2049 6.07 and 4.18, 138x136x2687 9.72 and 6.15.)
int64_t shortest_part(const TensorCoreProblem& p) {
  constexpr int64_t kLeast = 64;
  const bool singly = p.operands[0].by_elements || p.operands[1].by_elements;
  return singly ? std::max(kLeast, p.constants.mma_part / 2) : p.constants.mma_part;
}

// The tile with the fewest cycles; among equals the first.
TensorCoreTile choose_tile(const TensorCoreProblem& p) {
  const int64_t most_warps = std::min<int64_t>(kMostWarps, most_block_threads(p.gpu) / kWarp);
  TensorCoreTile best;
  double least = -1;
  const auto consider = [&](TensorCoreTile t) {
    if (t.rows() >= 2 * p.rows && t.rows() > mma::kRows) return;
    if (t.cols() >= 2 * p.cols && t.cols() > mma::kCols) return;
    if (t.warps() > most_warps || t.row_tiles * t.col_tiles > kMostTilesOfWarp ||
        most_stages(p, t, 1) < 2)
      return;
    for (int64_t parts : {1, 2, 4, 8, 16, 32, 64, 128}) {
      if (parts > 1 && p.depth / parts < shortest_part(p)) break;
      t.parts = parts;
      const double cycles = tensor_core_cycles(p, t);
      if (least >= 0 && cycles >= least * kWorthwhile) continue;
      least = cycles;
      best = t;
    }
  };
  for (int64_t row_tiles : {1, 2, 4}) {
    for (int64_t row_warps : {1, 2, 4}) {
      for (int64_t col_tiles : {1, 2, 4, 8}) {
        for (int64_t col_warps : {1, 2, 4})
          consider({row_tiles, row_warps, col_tiles, col_warps, 1});
      }
    }
  }
  return best;
}

// Steps of the depth in each of `parts` parts. They are a multiple of mma_k, and of several mma_k
// where that lengthens the reduction little.
int64_t part_length(const TensorCoreProblem& p, int64_t parts) {
  const int64_t n = ceil_div(p.depth, parts), mma_k = p.mma_k();
  int64_t unit = mma_k;
  while (unit < 8 * mma_k && n >= 16 * unit) unit *= 2;
  return round_up(n, n % unit == 0 || n < 8 * mma_k ? mma_k : unit);
}

// The longest tile, in units of mma_k and at most mma_tile_steps, that lengthens a reduction of
// `steps` units little. With `split` a part must have whole tiles.
int64_t choose_tile_k(const TensorCoreProblem& p, const TensorCoreTile& tile, int64_t steps,
                      bool split) {
  // Where an SM has one block, the reduction has two tiles: one is loaded while the other is
  // multiplied.
  const int64_t blocks = ceil_div(p.rows, tile.rows()) * ceil_div(p.cols, tile.cols()) * p.batch;
  const bool two_tiles = !split && blocks <= p.gpu.sms && steps >= kLeastStepsOfTwoTiles;
  // A thread has an address for each short vector, of which a long tile of bytes has more than registers.
  const bool short_bytes = p.pack == kBytesOfWord && p.operands[0].short_vectors;
  const int64_t most = p.constants.mma_tile_steps / (short_bytes ? 2 : 1);
  int64_t chosen = 1;
  for (int64_t k : useful(steps, {1, 2, 4, 8})) {
    const bool fits = k == 1 || most_stages(p, tile, k) >= kLeastStagesOfLongTile;
    // The reduction may become longer by a quarter at most.
    const bool adds_little = split ? steps % k == 0 : round_up(steps, k) * 4 <= steps * 5;
    if (k <= most && fits && adds_little && (!two_tiles || steps > k)) chosen = k;
  }
  return chosen;
}

// The tiles in rotation, no more than there are. Where results are few, an SM has one block, which hides less: another tile gains 0.93
// to 0.98 of the time (H200, 65 problems; where they are more it loses up to 1.2). Copies by vectors of less than 16 bytes take so many instructions that a
// block of few warps waits for them. Where the rotation turns, two blocks share the SM then. (7x7 of
// 3 channels, 401408 x 64 results on an H100: 109 us with four tiles of 46 KiB, 94 with two. Whole
// vectors lose: 1x1 of 96 channels, 100352 x 24 results take 13.2 us with four and 17.5 with two.)
int64_t choose_stages(const TensorCoreProblem& p, const TensorCoreTile& tile, int64_t tile_k,
                      int64_t steps) {
  const int64_t tiles = ceil_div(steps, tile_k), results = p.rows * p.cols * p.batch;
  const int64_t wanted_tiles =
      p.constants.mma_stages + (results < p.constants.mma_few_results * p.gpu.sms ? 1 : 0);
  const int64_t most =
      std::min({wanted_tiles, most_stages(p, tile, tile_k), std::max(kLeastStages, tiles)});
  const int64_t blocks = ceil_div(p.rows, tile.rows()) * ceil_div(p.cols, tile.cols()) * p.batch;
  const int64_t of_two = (p.gpu.smem_per_sm / 2 - p.gpu.smem_reserved) /
                         tile_bytes(tile.rows(), tile.cols(), p.mma_k() * tile_k, p.pack);
  const bool two_fit = of_two >= kLeastStages &&
                       2 * registers_of(tile) * tile.warps() * kWarp <= p.gpu.registers_per_sm;
  const bool wanted = p.operands[0].short_vectors && blocks > p.gpu.sms && tiles > kLeastStages;
  return wanted && two_fit ? std::min(most, of_two) : most;
}

// Whether operands that are not contiguous along the depth are copied so that they are. A constant
// is copied once, at no cost. An image is copied if each element is read many times and its tiles
// would be loaded by single elements, and no more of it is copied than is read. (H200, time without the copy over time with it: 0.5
// for 1x1 windows of stride 2, 0.55 to 0.93 for odd numbers of channels, 1.1 to 4.5 for others.)
bool choose_copies(const TensorCoreProblem& p) {
  bool wanted = false, reused = true;
  for (size_t o = 0; o < 2; ++o) {
    const TensorCoreProblem::Operand& x = p.operands[o];
    if (!x.copied) continue;
    // Other bytes that are not contiguous along the depth are transposed on their way to shared
    // memory.
    wanted |= x.by_elements || (x.constant && p.pack == 4 && !x.along_depth);
    reused &= x.constant || !x.by_elements || (o == 0 ? p.cols : p.rows) >= kReusedLines;
    reused &= x.copy_helps || !x.by_elements;
  }
  return wanted && reused;
}

}  // namespace

NamedFeatures TensorCoreProblem::features() const {
  const auto number = [](auto x) { return static_cast<double>(x); };
  return {{"rows", number(rows)},
          {"cols", number(cols)},
          {"depth", number(depth)},
          {"batch", number(batch)},
          {"operand_bytes", 4.0 / number(pack)},
          {"row_operand_copied", number(operands[0].copied)},
          {"row_operand_constant", number(operands[0].constant)},
          {"row_operand_by_elements", number(operands[0].by_elements)},
          {"row_operand_along_depth", number(operands[0].along_depth)},
          {"col_operand_copied", number(operands[1].copied)},
          {"col_operand_constant", number(operands[1].constant)},
          {"col_operand_by_elements", number(operands[1].by_elements)},
          {"col_operand_along_depth", number(operands[1].along_depth)},
          {"sms", number(gpu.sms)},
          {"smem_per_block_bytes", number(gpu.smem_per_block)},
          {"block_threads", number(most_block_threads(gpu))}};
}

int64_t tile_bytes(int64_t rows, int64_t cols, int64_t k, int64_t pack) {
  const int64_t pad = std::max<int64_t>(8, 4 * pack);  // elements behind each row: see the recipe
  return (std::max(rows * (k + pad), k * (rows + pad)) +
          std::max(cols * (k + pad), k * (cols + pad))) *
         4 / pack;
}

int64_t registers_of(const TensorCoreTile& t) {
  constexpr int64_t kOtherRegisters = 40;  // addresses, counters
  return t.row_tiles * t.col_tiles * 4 + t.row_tiles * 8 + t.col_tiles * 4 + kOtherRegisters;
}

// The rounds of the busiest SM. Each takes as long as the slowest of mma.sync, L2 and shared memory
// needs for its part of the reduction.
double tensor_core_cycles(const TensorCoreProblem& p, const TensorCoreTile& t) {
  const GpuConstants& by = p.constants;
  const double blocks = static_cast<double>(ceil_div(p.rows, t.rows()) *
                                            ceil_div(p.cols, t.cols()) * p.batch * t.parts);
  const double per_sm = blocks / static_cast<double>(p.gpu.sms);
  const double rounds = per_sm > kEvenRounds ? per_sm : std::ceil(per_sm);
  // Two blocks of an SM run concurrently, if there are two.
  const double resident = std::clamp(rounds, 1.0, 2.0);
  const double r = static_cast<double>(t.rows()), c = static_cast<double>(t.cols());
  const double bytes = 4 / static_cast<double>(p.pack);
  const double warps = static_cast<double>(t.warps()) * resident;
  const double mma = r * c * bytes / by.mma_bytes * (1 + by.mma_wait / warps);
  const double under_way = kStepsUnderWay * (r + c) * bytes * resident;
  const double half_lines = c * bytes < kLineBytes ? by.mma_half_line : 1;
  const double l2 =
      (r + c) * bytes * half_lines / std::min(by.mma_l2_bytes, under_way / by.mma_memory_cycles);
  const double warp_r = static_cast<double>(mma::kRows * t.row_tiles),
               warp_c = static_cast<double>(mma::kCols * t.col_tiles);
  const double shared =
      (warp_r + warp_c) * bytes * static_cast<double>(t.warps()) / kSharedBytesPerCycle;
  const double most = std::max({mma, l2, shared});
  const double singly = (p.operands[0].by_elements ? r : 0.) + (p.operands[1].by_elements ? c : 0.);
  const double depth = static_cast<double>(p.depth / t.parts);
  const double busy =
      most + by.mma_not_hidden * (mma + l2 + shared - most) + singly * by.mma_element_cycles;
  if (singly > 0 && p.depth <= kStepsOfOneTile) {
    const auto threads = static_cast<double>(t.warps() * kWarp);
    const double waits = std::ceil(rounds * static_cast<double>(t.warps()) / kWarpsOfSm);
    return rounds * busy * depth +
           waits * (by.mma_block_cycles + by.mma_element_wait * depth * singly / threads);
  }
  const double step = busy + (singly > 0 ? by.mma_element_latency / resident : 0);
  const double sum =
      t.parts > 1 ? by.mma_sum_cycles + static_cast<double>(p.rows * p.cols * p.batch * t.parts) *
                                            kSumBytes / (by.mma_l2_bytes * p.gpu.sms)
                  : 0;
  // What sums of bytes are scaled, rounded and bounded to, also of columns that are not there.
  const double results = p.pack == kBytesOfWord ? r * c * kCyclesOfResult : 0;
  return rounds * (step * depth + by.mma_block_cycles + results) + sum;
}

bool may_split_depth(const TensorCoreProblem& p) { return p.depth >= kLeastSplitDepth; }

std::vector<int64_t> part_lengths(const TensorCoreProblem& p) {
  std::vector<int64_t> out;
  for (int64_t parts : {2, 4, 8, 16, 32, 64, 128}) {
    if (p.depth / parts >= kLeastPart) out.push_back(part_length(p, parts));
  }
  return out;
}

int64_t mma_steps(const TensorCoreProblem& p, int64_t k_part) {
  return ceil_div(k_part > 0 ? k_part : p.depth, p.mma_k());
}

std::vector<int64_t> useful(int64_t extent, std::vector<int64_t> values) {
  std::erase_if(values, [&](int64_t v) { return v > 1 && v >= 2 * extent; });
  return values;
}

Choice tensor_core_rule(const TensorCoreProblem& problem) {
  const bool copies = problem.may_copy() && choose_copies(problem);
  TensorCoreProblem p = problem;
  for (TensorCoreProblem::Operand& o : p.operands) o.by_elements &= !(copies && o.copied);
  const TensorCoreTile tile = choose_tile(p);
  Choice c;
  c.set("row_tiles", tile.row_tiles, "16-row tiles of a warp");
  c.set("row_warps", tile.row_warps, "warps down the block's tile");
  c.set("col_tiles", tile.col_tiles, "8-column tiles of a warp");
  c.set("col_warps", tile.col_warps, "warps across the block's tile");
  const bool split = may_split_depth(p) && tile.parts > 1;
  c.set_kind("reduction", {"whole", "split_k"}, split ? 1 : 0,
             split ? "too few tiles for the SMs: parts of the reduction side by side"
                   : "the whole reduction in one block");
  int64_t k_part = 0;
  if (may_split_depth(p)) {
    const std::vector<int64_t> lengths = part_lengths(p);
    k_part = std::clamp(part_length(p, tile.parts), lengths.back(), lengths.front());
    c.set("k_part", k_part, "steps of the reduction in a part");
  }
  const int64_t steps = mma_steps(p, split ? k_part : 0);
  const int64_t tile_k = choose_tile_k(p, tile, steps, split);
  c.set("tile_k", tile_k, "steps of the reduction in shared memory");
  const int64_t stages = choose_stages(p, tile, tile_k, steps);
  c.set("stages", stages, "loads " + std::to_string(stages - 1) + " tiles ahead");
  if (p.may_copy()) {
    c.set("channels_last", copies, "operands whose elements along the depth lie side by side");
  }
  return c;
}

}  // namespace heddle::meta
