#include "cuda/products/complex_reduction_rule.h"

#include <cmath>

namespace heddle::meta {
namespace {

// ---- The model of an SM. The defaults of its constants (GpuConstants) were fitted by hand to a few
// tiles timed on an H200 (docs/internals/decisions/measured-choices.md, "SIMT tiles"). An SM with one
// warp takes 1 + simt_wait times as long, and further warps hide the latency of each other. ----

// Bytes per cycle that an SM gets from shared memory.
constexpr double kSharedBytesPerCycle = 128;
// Bytes of a thread's read from shared memory, and of an f32.
constexpr double kReadBytes = 16, kFloatBytes = 4;
// Registers of a thread besides its accumulators.
constexpr int64_t kOtherRegisters = 48;
// The most blocks that an SM holds. With more rounds than that, all SMs finish at about the same
// time.
constexpr int64_t kMostResident = 16;

// ---- The configs that are considered. ----

constexpr int64_t kMostThreads = 512, kMostAccumulators = 64, kLeastAccumulators = 2;
// Another tile is chosen only if its cost is below this share, so near equals keep the first tile.
constexpr double kWorthwhile = 0.999;
// Steps of the shortest part that is offered, of which all parts are multiples. The least depth that
// may be cut.
constexpr int64_t kPartUnit = 32, kLeastSplitDepth = 128;
// Steps in shared memory. With many accumulators each step takes long, so fewer steps suffice.
constexpr int64_t kStepsOfLargeTile = 16, kStepsOfSmallTile = 32, kLargeTileAccumulators = 32;
// Zeros may lengthen a reduction by one in so many steps.
constexpr int64_t kLeastOfZeros = 3;
// With so many blocks on an SM, they hide each other's latency, and tiles of fewer steps leave room
// for more of them.
constexpr int64_t kManyBlocks = 2, kStepsOfManyBlocks = 16;
// The tile of results that are too few for every other one.
constexpr SimtTile kSmallestTile{1, 1, 8, 4, 1};
// Tiles in rotation. (H200, f32, 28 problems, time with four over that with three: 0.96, from 0.77 to 1.12.)
constexpr int64_t kWantedStages = 4;
// Elements after each row of a tile.
constexpr int64_t kPad = 4;

bool considered(const SimtTile& t, const SimtProblem& p) {
  const int64_t most = std::min<int64_t>(kMostThreads, most_block_threads(p.gpu));
  const bool whole_warps = t.threads() >= kWarp && t.threads() % kWarp == 0;
  if (!whole_warps || t.threads() > most) return false;
  if (t.accumulators() > kMostAccumulators || t.accumulators() < kLeastAccumulators) return false;
  // Rows are in groups only where a group fills 16 bytes.
  if (t.row_groups > 1 && t.group_rows < 4) return false;
  // More than half of the tile must be used.
  if (t.rows() >= 2 * p.rows && t.rows() > 1) return false;
  return t.cols() < 2 * p.cols || t.col_threads * t.col_groups <= 4;
}

struct Best {
  SimtTile tile;
  int64_t parts = 1;
};

// The tile and the number of parts with the fewest cycles; among equals the first.
Best choose_tile(const SimtProblem& p) {
  Best best;
  double least = -1;
  const auto try_parts = [&](const SimtTile& t) {
    for (int64_t parts : {1, 2, 4, 8, 16, 32, 64, 128}) {
      if (parts > 1 && p.depth / parts < p.constants.simt_part) break;
      const double cycles = simt_cycles(p, t, parts);
      if (least >= 0 && cycles >= least * kWorthwhile) continue;
      least = cycles;
      best = {t, parts};
    }
  };
  const auto consider = [&](const SimtTile& t) {
    if (considered(t, p)) try_parts(t);
  };
  for (int64_t group_rows : {4, 2, 1}) {
    for (int64_t row_groups : {1, 2, 4}) {
      for (int64_t row_threads : {1, 2, 4, 8, 16, 32}) {
        for (int64_t col_threads : {4, 8, 16, 32}) {
          for (int64_t col_groups : {1, 2})
            consider({group_rows, row_groups, row_threads, col_threads, col_groups});
        }
      }
    }
  }
  if (least < 0) try_parts(kSmallestTile);
  return best;
}

// The longest of the wanted steps for a reduction of `depth`: it divides the depth, if one does, or
// lengthens it little where zeros fill it up.
int64_t wanted_step(const SimtProblem& p, const SimtTile& t, int64_t depth) {
  const int64_t blocks = ceil_div(p.rows, t.rows()) * ceil_div(p.cols, t.cols()) * p.others;
  const bool whole = depth == p.step_depth;
  const int64_t want = t.accumulators() >= kLargeTileAccumulators   ? kStepsOfLargeTile
                       : whole && blocks >= kManyBlocks * p.gpu.sms ? kStepsOfManyBlocks
                                                                    : kStepsOfSmallTile;
  const std::vector<int64_t> steps = simt_steps(p);
  int64_t step = steps.front();
  for (int64_t k : steps) {
    const int64_t zeros = ceil_div(depth, k) * k - depth;
    const bool suits =
        p.pads ? zeros * kLeastOfZeros <= depth : depth % k == 0 || depth % step != 0;
    if (k <= want && suits) step = k;
  }
  return step;
}

int64_t part_of(int64_t depth, int64_t parts) {
  return ceil_div(ceil_div(depth, parts), kPartUnit) * kPartUnit;
}

}  // namespace

NamedFeatures SimtProblem::features() const {
  const auto number = [](auto x) { return static_cast<double>(x); };
  return {{"rows", number(rows)},
          {"cols", number(cols)},
          {"depth", number(depth)},
          {"others", number(others)},
          {"step_depth", number(step_depth)},
          {"operand_bytes", number(operand_bytes)},
          {"commutative", number(commutative)},
          {"sms", number(gpu.sms)},
          {"f32_lanes", number(gpu.f32_lanes)},
          {"threads_per_sm", number(gpu.threads_per_sm)},
          {"registers_per_sm", number(gpu.registers_per_sm)},
          {"smem_per_block_bytes", number(gpu.smem_per_block)},
          {"block_threads", number(most_block_threads(gpu))}};
}

// Multiply-adds, reads of shared memory, instructions and traffic from L2 mostly overlap.
double simt_step_cycles(const SimtProblem& p, const SimtTile& t) {
  const GpuConstants& by = p.constants;
  const double rows = static_cast<double>(t.rows()), cols = static_cast<double>(t.cols());
  const double warps = static_cast<double>(t.threads()) / kWarp;
  const double across = static_cast<double>(std::min<int64_t>(kWarp, t.col_threads));
  // A read of 16 bytes per lane takes one pass when all lanes read the same, otherwise two or more.
  auto passes = [](double lanes) {
    return lanes <= 1 ? 1.0 : std::max(2.0, lanes * kReadBytes / kSharedBytesPerCycle);
  };
  const double row_reads = static_cast<double>(t.row_groups * t.group_rows) / 4,
               col_reads = static_cast<double>(t.col_groups);
  const double fma = rows * cols / p.gpu.f32_lanes;
  const double shared = warps * (row_reads * passes(kWarp / across) + col_reads * passes(across));
  const double copies = by.simt_copies * (rows + cols / kColumnLanes) / kWarp;
  const double issue =
      (rows * cols / kWarp + warps * (row_reads + col_reads) + copies) / by.simt_issues;
  const double l2 = (rows + cols) * kFloatBytes / by.simt_l2_bytes;
  const double most = std::max({fma, shared, issue, l2});
  return most + by.simt_not_hidden * (fma + shared + issue + l2 - most);
}

double simt_cycles(const SimtProblem& p, const SimtTile& t, int64_t parts) {
  const Gpu& gpu = p.gpu;
  const GpuConstants& by = p.constants;
  const int64_t tiles = ceil_div(p.rows, t.rows()) * ceil_div(p.cols, t.cols()) * p.others;
  const double blocks = static_cast<double>(tiles * parts);
  const int64_t registers = t.threads() * (t.accumulators() + kOtherRegisters);
  const int64_t fit = std::clamp<int64_t>(
      std::min<int64_t>(gpu.threads_per_sm / t.threads(), gpu.registers_per_sm / registers), 1,
      kMostResident);
  const double per_sm = blocks / static_cast<double>(gpu.sms);
  const double rounds = per_sm > kMostResident ? per_sm : std::ceil(per_sm);
  const int64_t resident = std::min<int64_t>(fit, static_cast<int64_t>(std::ceil(per_sm)));
  const double warps = static_cast<double>(t.threads() * resident) / kWarp;
  const double steps =
      static_cast<double>(p.depth) / static_cast<double>(parts) + by.simt_block_steps;
  const double block = simt_step_cycles(p, t) * (1 + by.simt_wait / warps) * steps;
  // The second kernel of a cut reduction reads the parts.
  const double sum =
      parts > 1 ? by.simt_sum_cycles + static_cast<double>(p.rows * p.cols * p.others * parts) *
                                           kFloatBytes / (by.simt_l2_bytes * gpu.sms)
                : 0;
  return rounds * block + sum;
}

bool simt_tiles_fit(const SimtProblem& p, int64_t rows, int64_t cols, int64_t k, int64_t stages) {
  // A quarter is added for padding and alignment.
  const int64_t bytes = (rows + kPad + cols + kPad) * k * stages * p.operand_bytes;
  return bytes * 5 / 4 <= p.gpu.smem_per_block;
}

std::vector<int64_t> simt_steps(const SimtProblem& p) {
  std::vector<int64_t> steps{4, 8, 16, 32};
  std::erase_if(steps, [&](int64_t k) { return k > p.step_depth; });
  if (steps.empty()) steps.push_back(p.step_depth);
  return steps;
}

bool may_split_depth(const SimtProblem& p) {
  return p.commutative && p.step_depth >= kLeastSplitDepth;
}

std::vector<int64_t> part_lengths(const SimtProblem& p) {
  std::vector<int64_t> out;
  for (int64_t parts : {2, 4, 8, 16, 32, 64, 128}) {
    if (ceil_div(p.step_depth, parts) >= kPartUnit) out.push_back(part_of(p.step_depth, parts));
  }
  return out;
}

Choice simt_rule(const SimtProblem& p) {
  const Best best = choose_tile(p);
  const SimtTile& t = best.tile;
  Choice c;
  c.set("group_rows", t.group_rows, "rows side by side in a thread");
  c.set("row_groups", t.row_groups, "groups of rows of a thread");
  c.set("row_threads", t.row_threads, "threads down");
  c.set("col_threads", t.col_threads, "threads across");
  c.set("col_groups", t.col_groups, "groups of 4 columns of a thread");
  const std::vector<int64_t> steps = simt_steps(p);
  int64_t stages = kWantedStages;
  while (stages > 1 && !simt_tiles_fit(p, t.rows(), t.cols(), steps.front(), stages)) --stages;
  const bool split = may_split_depth(p) && best.parts > 1;
  int64_t k_part = 0;
  if (may_split_depth(p)) {
    const std::vector<int64_t> lengths = part_lengths(p);
    k_part = std::clamp(part_of(p.step_depth, best.parts), lengths.back(), lengths.front());
  }
  int64_t tile_k = wanted_step(p, t, split ? k_part : p.step_depth);
  while (tile_k > steps.front() && !simt_tiles_fit(p, t.rows(), t.cols(), tile_k, stages)) {
    tile_k = *std::prev(std::find(steps.begin(), steps.end(), tile_k));
  }
  c.set("tile_k", tile_k, "one step of the reduction in shared memory");
  c.set("stages", stages, "loads ahead of the step at hand");
  c.set_kind("reduction", {"whole", "split_k"}, split ? 1 : 0,
             split ? "too few tiles for the SMs: parts of the reduction side by side"
                   : "the whole reduction in one block");
  if (may_split_depth(p)) c.set("k_part", k_part, "steps of the reduction in a part");
  return c;
}

}  // namespace heddle::meta
