#include "network/family_tasks.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "driver/family_blocks.h"
#include "driver/program_args.h"
#include "heddle/driver/family.h"
#include "heddle/support/error.h"
#include "network/task_schedules.h"

namespace heddle::network {
namespace {

/// Points of one dimension: as many as make the ratio of neighbours at most `ratio`, up to `most`.
struct Spacing {
  double ratio, most;
};
constexpr Spacing kOnCpu{8, 4};  // each kernel packs the weights for itself
constexpr Spacing kOnGpu{4, 6};  // too few blocks leave multiprocessors idle; nothing is packed
constexpr int64_t kOfTwo = 2;    // points of each of two dimensions
constexpr double kOnly = 0.75;   // where the only point of a dimension lies, in logarithms

std::vector<int64_t> points_of(const Var& size, size_t dims, const Spacing& spacing) {
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
  PointTree(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes, const Target& target)
      : own_(sizes_of(outputs)), sizes_(sizes), spacing_(target.is_cuda() ? kOnGpu : kOnCpu) {}

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
  const Spacing spacing_;
  std::vector<SizeValue> at_;
  SizePoints made_;
};

/// Walks a tree with the range of each size that leads to a node.
class Leaves {
 public:
  Leaves(const SizeTree& tree, const std::vector<Var>& sizes) : tree_(tree), sizes_(sizes) {
    for (const Var& v : sizes) ranges_.emplace_back(v->size->lo, v->size->hi);
    visit(0);
  }
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  void visit(int at) {
    const SizeTreeNode& node = tree_[static_cast<size_t>(at)];
    if (node.size < 0) {
      const auto leaf = static_cast<size_t>(node.variant);
      texts_.resize(std::max(texts_.size(), leaf + 1));
      texts_[leaf] += (texts_[leaf].empty() ? "" : "; ") + text();
      return;
    }
    auto& range = ranges_[static_cast<size_t>(node.size)];
    const auto whole = range;
    range.second = std::min(whole.second, node.at_most);
    visit(node.yes);
    range = {std::max(whole.first, node.at_most + 1), whole.second};
    visit(node.no);
    range = whole;
  }

  std::string text() const {
    std::string all;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const auto& [lo, hi] = ranges_[i];
      if (lo == sizes_[i]->size->lo && hi == sizes_[i]->size->hi) continue;
      all += (all.empty() ? "" : ", ") + sizes_[i]->name + " " + std::to_string(lo) +
             (lo == hi ? "" : " to " + std::to_string(hi));
    }
    return all.empty() ? "all" : all;
  }

  const SizeTree& tree_;
  const std::vector<Var>& sizes_;
  std::vector<std::pair<int64_t, int64_t>> ranges_;
  std::vector<std::string> texts_;
};

/// Where several threads share the work, short blocks, so that smaller sizes have blocks for all of
/// them.
Schedule shared_at_all_sizes(const Schedule& at_point, const TaskFamily& family) {
  std::optional<Schedule> shorter;
  if (!at_point.target().is_cuda() && at_point.target().cores > 1)
    shorter = family::with_blocks(at_point, ComputeDag(family.outputs), family::BlockForm::Shorter);
  return shorter ? *std::move(shorter) : for_all_sizes(at_point, family.outputs);
}

/// Whether the schedule can be declared for all sizes, and lowered where the target is a GPU: the
/// lanes of a warp may have no shares that hold for all sizes.
bool holds(const Schedule& at_point, const TaskFamily& family, std::string& why) {
  const bool on_gpu = at_point.target().is_cuda();
  try {
    const Schedule made = for_all_sizes(at_point, family.outputs);
    if (on_gpu) (void)lower_for_gpu(made, task_args(made), {.name = "node"});
    return true;
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User && !on_gpu) throw;
    if (why.empty()) why = e.message;
    return false;
  }
}

Schedule for_all_sizes_or_naive(const SoundSchedule& sound, const TaskFamily& family,
                                const Target& target) {
  if (sound.at_point) return shared_at_all_sizes(*sound.at_point, family);
  Schedule made = naive_schedule(family.outputs, target);
  made.provenance += "; another was given, but " + sound.why;
  return made;
}

}  // namespace

SoundSchedule sound_schedule(const Schedule& at_point, const TaskFamily& family,
                             std::span<const TuneTask> tasks, size_t task) {
  SoundSchedule sound;
  if (holds(at_point, family, sound.why)) return {at_point, ""};
  std::vector<size_t> others = {task};
  for (size_t t = 0; t < tasks.size(); ++t) others.push_back(t);
  for (const size_t t : others) {
    Schedule other = tasks[t].tmpl.static_schedule();
    if (!holds(other, family, sound.why)) continue;
    other.provenance += "; another was given, but " + sound.why;
    sound.at_point = std::move(other);
    break;
  }
  return sound;
}

std::vector<std::string> sizes_of_leaves(const SizeTree& tree, const std::vector<Var>& sizes) {
  return Leaves(tree, sizes).take();
}

SizePoints size_points(const std::vector<Tensor>& outputs, const std::vector<Var>& sizes,
                       const Target& target) {
  return PointTree(outputs, sizes, target).run();
}

TaskVariants variants_for_all_sizes(const TaskFamily& family, std::span<const Schedule> at_points,
                                    std::span<const TuneTask> tasks) {
  TaskVariants made{{}, family.tree};
  std::vector<std::string> steps;
  std::vector<int> variant_of;
  for (size_t i = 0; i < at_points.size(); ++i) {
    Schedule schedule = for_all_sizes_or_naive(sound_schedule(at_points[i], family, tasks, i),
                                               family, at_points[i].target());
    std::string text = schedule.to_json().at("steps").dump();
    const auto known = std::find(steps.begin(), steps.end(), text);
    variant_of.push_back(static_cast<int>(known - steps.begin()));
    if (known != steps.end()) continue;
    steps.push_back(std::move(text));
    made.schedules.push_back(std::move(schedule));
  }
  for (SizeTreeNode& node : made.tree) {
    if (node.size < 0) node.variant = variant_of[static_cast<size_t>(node.variant)];
  }
  return made;
}

}  // namespace heddle::network
