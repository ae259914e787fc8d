#include "network/cut/sizes/family_tasks.h"

#include <algorithm>
#include <optional>

#include "driver/program_args.h"
#include "family/blocks.h"
#include "heddle/family/schedule.h"
#include "heddle/support/error.h"
#include "network/cut/task_schedules.h"

namespace heddle::network {
namespace {

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
    const TreeNode& node = tree_[static_cast<size_t>(at)];
    if (node.feature < 0) {
      const auto leaf = static_cast<size_t>(node.yes);
      texts_.resize(std::max(texts_.size(), leaf + 1));
      texts_[leaf] += (texts_[leaf].empty() ? "" : "; ") + text();
      return;
    }
    auto& range = ranges_[static_cast<size_t>(node.feature)];
    const auto whole = range;
    const auto at_most = static_cast<int64_t>(node.at_most);
    range.second = std::min(whole.second, at_most);
    visit(node.yes);
    range = {std::max(whole.first, at_most + 1), whole.second};
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

/// Whether the schedule can be declared for all sizes, and lowered where the target is a GPU: the
/// lanes of a warp may have no shares that hold for all sizes.
bool holds(const Schedule& at_point, const TaskFamily& family, std::string& why) {
  const bool on_gpu = at_point.target().is_cuda();
  try {
    const Schedule made = for_all_sizes(at_point, family.outputs);
    if (on_gpu) (void)driver::lower_for_gpu(made, task_args(made), {.name = "node"});
    return true;
  } catch (const Error& e) {
    if (e.kind != ErrorKind::User && !on_gpu) throw;
    if (why.empty()) why = e.message;
    return false;
  }
}

Schedule for_all_sizes_or_naive(const SoundSchedule& sound, const TaskFamily& task,
                                const Target& target) {
  if (sound.at_point) return family::shared_at_all_sizes(*sound.at_point, task.outputs);
  Schedule made = naive_schedule(task.outputs, target);
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

TaskVariants variants_for_all_sizes(const TaskFamily& family, std::span<const Schedule> at_points,
                                    std::span<const TuneTask> tasks) {
  TaskVariants made{{}, family.tree};
  std::vector<std::string> steps;
  std::vector<int> variant_of;
  for (size_t i = 0; i < at_points.size(); ++i) {
    Schedule schedule = for_all_sizes_or_naive(sound_schedule(at_points[i], family, tasks, i),
                                               family, at_points[i].target());
    std::string text = family::identity(schedule);
    const auto known = std::find(steps.begin(), steps.end(), text);
    variant_of.push_back(static_cast<int>(known - steps.begin()));
    if (known != steps.end()) continue;
    steps.push_back(std::move(text));
    made.schedules.push_back(std::move(schedule));
  }
  for (TreeNode& node : made.tree) {
    if (node.feature < 0) node.yes = variant_of[static_cast<size_t>(node.yes)];
  }
  return made;
}

}  // namespace heddle::network
