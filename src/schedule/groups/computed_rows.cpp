#include "schedule/groups/computed_rows.h"

#include <algorithm>

#include "target/grid_limits.h"

namespace heddle {
namespace {

// The longest lines that a warp keeps in registers, as operands or sums; the products of a tile.
constexpr int64_t kLongestLine = 128;
constexpr size_t kMostProducts = 2;
// Rows of a block, and the share of the multiprocessors that blocks should keep busy.
constexpr int64_t kRowsOfBlock = 64, kShareOfProcessors = 4;
// Elements of the matrix for each of its operands. Those of the matrix are written and read in f32, and those of
// the operands, which are narrower, are read in any case.
constexpr double kLeastElements = 0.25;

// The same on a CPU, where vectors are rows. A matrix that fits the second cache is as well stored.
constexpr int64_t kLongestLineOfCpu = 256;
constexpr double kLeastElementsOfCpu = 0.5;

bool fits_cpu(const ComputedMatrix& m, const Target& target) {
  return m.type == f32 && m.cols <= kLongestLineOfCpu && m.products.size() <= kMostProducts &&
         std::all_of(
             m.products.begin(), m.products.end(),
             [](const ComputedMatrix::Product& p) { return p.depth <= kLongestLineOfCpu; }) &&
         m.rows >= target.vector_lanes(4) && m.elements_per_operand() >= kLeastElementsOfCpu &&
         m.bytes() > static_cast<double>(target.l2_bytes);
}

}  // namespace

bool reduces_where_computed(const ComputedMatrix& m, const Target& target) {
  if (target.kind == "llvm") return fits_cpu(m, target);
  if (!target.is_cuda() || target.gpu.sm() < 80 || m.type == f32) return false;
  const bool fits =
      m.cols <= kLongestLine && m.products.size() <= kMostProducts && m.batches <= kMostBlocks[2] &&
      std::all_of(m.products.begin(), m.products.end(),
                  [](const ComputedMatrix::Product& p) { return p.depth <= kLongestLine; });
  const int64_t blocks = m.batches * ((m.rows + kRowsOfBlock - 1) / kRowsOfBlock);
  return fits && m.elements_per_operand() >= kLeastElements &&
         kShareOfProcessors * blocks >= target.gpu.sms;
}

}  // namespace heddle
