#include "network/cut/input_ranges.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace heddle::network {
namespace {

// The largest absolute value of useful ranges. Larger values overflow 16-bit floats.
constexpr double kLargest = 1e4;

}  // namespace

std::optional<InputRange> drawn_range(const dag::ValueRange& range, DataType t) {
  if (!t.is_float()) return std::nullopt;
  const double lo = std::max(range.lo, -1.0), hi = std::min(range.hi, 1.0);
  if (lo == -1 && hi == 1) return std::nullopt;
  if (lo < hi) return InputRange{lo, hi};
  // The range lies outside of [-1, 1], or is a single value.
  if (!(std::abs(lo) < kLargest && std::abs(hi) < kLargest)) return std::nullopt;
  if (range.lo >= 1) return InputRange{range.lo, std::min(range.hi, 2 * range.lo)};
  if (range.hi <= -1) return InputRange{std::max(range.lo, 2 * range.hi), range.hi};
  return InputRange{range.lo, range.hi};
}

void set_input_ranges(const ComputeDag& network,
                      const std::vector<std::pair<Tensor, Tensor>>& again,
                      const std::vector<NetworkNode>& nodes, std::vector<TuneTask>& tasks) {
  const dag::ValueRanges ranges(network);
  std::unordered_map<const Operation*, Tensor> equal_to;
  for (const auto& [t, first] : again) equal_to.emplace(t.op(), first);
  std::vector<std::vector<dag::ValueRange>> of_task(tasks.size());
  for (const NetworkNode& node : nodes) {
    std::vector<dag::ValueRange>& known = of_task[static_cast<size_t>(node.task)];
    const bool is_first = known.empty();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto first = equal_to.find(node.inputs[i].op());
      const dag::ValueRange r = ranges.of(first == equal_to.end() ? node.inputs[i] : first->second);
      if (is_first) {
        known.push_back(r);
      } else {
        known[i] = dag::hull(known[i], r);
      }
    }
  }
  for (size_t t = 0; t < tasks.size(); ++t) {
    tasks[t].input_ranges.clear();
    for (size_t i = 0; i < of_task[t].size(); ++i) {
      tasks[t].input_ranges.push_back(drawn_range(of_task[t][i], tasks[t].args[i].dtype()));
    }
  }
}

}  // namespace heddle::network
