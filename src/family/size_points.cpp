#include "family/size_points.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "heddle/dag/compute_dag.h"
#include "heddle/support/error.h"

namespace heddle::family {
namespace {

constexpr int64_t kOfTwo = 2;  // points of each of two dimensions
// Where points between their ends lie, in logarithms: few rows, and short and long sums.
constexpr double kFewRows = 0.4, kShortSum = 0.5, kLongSum = 0.75;
constexpr double kOnly = 0.75;  // where the only point of a dimension lies, in logarithms
constexpr int64_t kFinerFrom = 32;
constexpr double kMostFiner = 20;

int64_t at(const Var& size, double share) {
  const auto lo = static_cast<double>(size->size->lo), hi = static_cast<double>(size->size->hi);
  return std::llround(lo * std::pow(hi / lo, share));
}

/// Of a range; both ends are among them where there are several.
std::vector<int64_t> evenly(const Var& size, int64_t count) {
  std::vector<int64_t> points;
  for (int64_t i = 0; i < count; ++i) {
    const double share =
        count == 1 ? kOnly : static_cast<double>(i) / static_cast<double>(count - 1);
    points.push_back(at(size, share));
  }
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

/// Those of the only dimension.
std::vector<int64_t> alone(const Var& size, double ratio, double most) {
  const auto lo = static_cast<double>(size->size->lo), hi = static_cast<double>(size->size->hi);
  const double steps = std::ceil(std::log(hi / lo) / std::log(ratio));
  return evenly(size, static_cast<int64_t>(std::clamp(steps + 1, 1.0, most)));
}

/// Those of one of two dimensions with points between the ends.
std::vector<int64_t> inner(const Var& size, bool summed) {
  std::vector<int64_t> points;
  for (const double share :
       summed ? std::array{kShortSum, kLongSum, 1.0} : std::array{0.0, kFewRows, 1.0})
    points.push_back(at(size, share));
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

enum class Summed : uint8_t {
  Nothing,
  Others,
  ThisToo
};  ///< along which sizes something is summed

std::vector<int64_t> points_of(const Var& size, size_t dims, const PointSpacing& spacing,
                               Summed summed) {
  if (dims == 2 && spacing.inner && summed != Summed::Nothing)
    return inner(size, summed == Summed::ThisToo);
  if (dims > 1) return evenly(size, dims == 2 ? kOfTwo : 1);
  std::vector<int64_t> points = alone(size, spacing.ratio, spacing.most);
  if (spacing.finer == 0) return points;
  const auto beyond = [](int64_t p) { return p >= kFinerFrom; };
  points.erase(std::find_if(points.begin(), points.end(), beyond), points.end());
  for (const int64_t p : alone(size, spacing.finer, kMostFiner)) {
    if (beyond(p) || p == size->size->hi) points.push_back(p);
  }
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

class PointTree {
 public:
  PointTree(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
            const PointSpacing& spacing)
      : own_(sizes_of(outputs)), sizes_(sizes), spacing_(spacing) {
    if (!spacing.inner || own_.size() != 2) return;
    const ComputeDag dag(outputs);
    for (int s = 0; s < dag.size(); ++s) {
      for (const Axis& a : dag.stage(s).reduce_axes()) {
        visit(a->extent, [&](const Expr& e) {
          for (const Var& v : own_)
            if (e.get() == v.get()) summed_.insert(v.get());
        });
      }
    }
  }

  SizePoints run() {
    add(0);
    return std::move(made_);
  }

 private:
  /// Adds the tree for the own sizes from number `d` on, and returns its root.
  int add(size_t d) {
    if (d == own_.size()) {
      made_.tree.push_back({.yes = static_cast<int>(made_.points.size())});
      made_.points.push_back(at_);
      return static_cast<int>(made_.tree.size()) - 1;
    }
    const Summed summed = summed_.contains(own_[d].get()) ? Summed::ThisToo
                          : summed_.empty()               ? Summed::Nothing
                                                          : Summed::Others;
    return add(d, points_of(own_[d], own_.size(), spacing_, summed), 0);
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
    made_.tree.push_back(
        {.feature = position(own_[d]), .at_most = static_cast<double>(points[first])});
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
  std::set<const VarNode*> summed_;
  std::vector<SizeValue> at_;
  SizePoints made_;
};

/// Copies a tree without one of its leaves. The question before that leaf gives way to its other
/// answer.
class WithoutLeaf {
 public:
  WithoutLeaf(const SizeTree& from, int variant) : from_(from), variant_(variant) {}

  bool answers(const TreeNode& node) const {
    if (node.feature < 0) return false;
    const TreeNode& yes = from_[static_cast<size_t>(node.yes)];
    return yes.feature < 0 && yes.yes == variant_;
  }
  /// Adds the tree below `at`, and returns its root.
  int add(int at) {
    TreeNode node = from_[static_cast<size_t>(at)];
    if (answers(node)) return add(node.no);
    const size_t root = made.size();
    made.push_back(node);
    if (node.feature < 0) {
      made[root].yes -= node.yes > variant_ ? 1 : 0;
    } else {
      const int yes = add(node.yes), no = add(node.no);
      made[root].yes = yes;
      made[root].no = no;
    }
    return static_cast<int>(root);
  }

  SizeTree made;

 private:
  const SizeTree& from_;
  const int variant_;
};

}  // namespace

PointSpacing usual_spacing(const Target& target) {
  return target.is_cuda() ? PointSpacing{.ratio = 4, .most = 6, .inner = true}
                          : PointSpacing{.ratio = 8, .most = 4};
}

SizePoints size_points(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                       const PointSpacing& spacing) {
  return PointTree(outputs, sizes, spacing).run();
}

bool drop_point(SizePoints& points, size_t point) {
  WithoutLeaf tree(points.tree, static_cast<int>(point));
  if (std::none_of(points.tree.begin(), points.tree.end(),
                   [&](const TreeNode& node) { return tree.answers(node); }))
    return false;
  tree.add(0);
  points.tree = std::move(tree.made);
  points.points.erase(points.points.begin() + static_cast<std::ptrdiff_t>(point));
  return true;
}

}  // namespace heddle::family
