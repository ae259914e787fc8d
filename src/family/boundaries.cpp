#include "family/boundaries.h"

#include <algorithm>

namespace heddle::family {
namespace {

constexpr int64_t kParts = 32;  // a boundary is exact to this part of the size

}  // namespace

void find_boundaries(SizeTree& tree, const std::vector<int64_t>& raced,
                     FunctionRef<bool(int below, int above, int64_t size)> holds) {
  for (TreeNode& node : tree) {
    if (node.feature < 0) continue;
    const auto next =
        std::upper_bound(raced.begin(), raced.end(), static_cast<int64_t>(node.at_most));
    if (next == raced.begin() || next == raced.end()) continue;
    int64_t lo = *(next - 1), hi = *next;
    const int below = variant_at(tree, {&lo, 1}), above = variant_at(tree, {&hi, 1});
    if (below == above) continue;
    while (hi - lo > std::max<int64_t>(1, lo / kParts)) {
      const int64_t middle = lo + (hi - lo) / 2;
      (holds(below, above, middle) ? lo : hi) = middle;
    }
    node.at_most = static_cast<double>(lo);
  }
}

}  // namespace heddle::family
