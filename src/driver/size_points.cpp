#include "driver/size_points.h"

#include <algorithm>
#include <cmath>

#include "heddle/support/error.h"

namespace heddle::family {
namespace {

constexpr int64_t kOfTwo = 2;   // points of each of two dimensions
constexpr double kOnly = 0.75;  // where the only point of a dimension lies, in logarithms

std::vector<int64_t> points_of(const Var& size, size_t dims, const PointSpacing& spacing) {
  const auto lo = static_cast<double>(size->size->lo), hi = static_cast<double>(size->size->hi);
  const double steps = std::ceil(std::log(hi / lo) / std::log(spacing.ratio));
  const auto alone = static_cast<int64_t>(std::clamp(steps + 1, 1.0, spacing.most));
  const int64_t count = dims == 1 ? alone : dims == 2 ? kOfTwo : 1;
  std::vector<int64_t> points;
  for (int64_t i = 0; i < count; ++i) {
    const double share =
        count == 1 ? kOnly : static_cast<double>(i) / static_cast<double>(count - 1);
    points.push_back(std::llround(lo * std::pow(hi / lo, share)));
  }
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

class PointTree {
 public:
  PointTree(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
            const PointSpacing& spacing)
      : own_(sizes_of(outputs)), sizes_(sizes), spacing_(spacing) {}

  SizePoints run() {
    add(0);
    return std::move(made_);
  }

 private:
  /// Adds the tree for the own sizes from number `d` on, and returns its root.
  int add(size_t d) {
    if (d == own_.size()) {
      SizeTreeNode leaf;
      leaf.variant = static_cast<int>(made_.points.size());
      made_.points.push_back(at_);
      made_.tree.push_back(leaf);
      return static_cast<int>(made_.tree.size()) - 1;
    }
    return add(d, points_of(own_[d], own_.size(), spacing_), 0);
  }

  /// The same, where only the points from number `first` on are left.
  int add(size_t d, const std::vector<int64_t>& points, size_t first) {
    const auto at_point = [&] {
      at_.emplace_back(own_[d], points[first]);
      const int root = add(d + 1);
      at_.pop_back();
      return root;
    };
    if (first + 1 == points.size()) return at_point();
    const auto node = made_.tree.size();
    made_.tree.push_back({.size = position(own_[d]), .at_most = points[first]});
    const int yes = at_point(), no = add(d, points, first + 1);
    made_.tree[node].yes = yes;
    made_.tree[node].no = no;
    return static_cast<int>(node);
  }

  int position(const Var& v) const {
    const auto at =
        std::find_if(sizes_.begin(), sizes_.end(), [&](const Var& s) { return s.same_as(v); });
    HEDDLE_ICHECK(at != sizes_.end(), "a task has sizes of its network");
    return static_cast<int>(at - sizes_.begin());
  }

  const std::vector<Var> own_;
  const std::vector<Var>& sizes_;
  const PointSpacing spacing_;
  std::vector<SizeValue> at_;
  SizePoints made_;
};

}  // namespace

PointSpacing usual_spacing(const Target& target) {
  return target.is_cuda() ? PointSpacing{4, 6} : PointSpacing{8, 4};
}

SizePoints size_points(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                       const PointSpacing& spacing) {
  return PointTree(outputs, sizes, spacing).run();
}

}  // namespace heddle::family
