#include "cuda/reductions/columns_rule.h"

namespace heddle::meta {
namespace {

// The limits of neighbouring threads with one vector each. A warp then reads 512 bytes of a row.
constexpr int64_t kMostAcross = 32, kLeastAcross = 4;
// The most rows of threads.
constexpr int64_t kMostDown = 32;
// Rows of a thread whose loads are in flight at once.
constexpr int64_t kRowsUnderWay = 4;

}  // namespace

bool ColumnProblem::fits(int64_t threads) const {
  return threads <= most_block_threads(gpu) &&
         threads * vector() * value_bytes <= gpu.smem_per_block;
}

NamedFeatures ColumnProblem::features() const {
  const auto number = [](auto x) { return static_cast<double>(x); };
  return {{"columns", number(columns)},
          {"length", number(length)},
          {"lanes", number(lanes)},
          {"value_bytes", number(value_bytes)},
          {"most_down", number(most_down)},
          {"smem_per_block_bytes", number(gpu.smem_per_block)},
          {"block_threads", number(most_block_threads(gpu))}};
}

Choice reduce_columns_rule(const ColumnProblem& p) {
  const int64_t vectors = p.columns / p.vector();
  const int64_t across = std::min(kMostAcross, std::max(kLeastAcross, vectors));
  // If all rows of a thread are in flight at once, memory latency is paid once. Narrow strips have
  // more rows of threads, so that a block has as many threads.
  const int64_t most =
      std::max(p.most_down, std::min(kMostDown, p.most_down * kMostAcross / across));
  int64_t down = 1;
  while (2 * kRowsUnderWay * down <= p.length && down < most && p.fits(2 * across * down))
    down *= 2;
  Choice c;
  c.set("threads_across", across, "a warp reads 512 bytes of a row at a time");
  c.set("threads_down", down, "rows side by side, a few each");
  c.set("unroll", kRowsUnderWay, "rows a thread has under way");
  return c;
}

}  // namespace heddle::meta
