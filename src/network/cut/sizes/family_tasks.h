// The tasks of a node over dimensions (dsl/dim.h): the same node at a few sizes. A schedule for one
// of them holds at all sizes, and a tree on the sizes of a call names the one that runs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/runtime/family_kernel.h"
#include "heddle/schedule/schedule.h"
#include "heddle/search/tune.h"

namespace heddle::network {

/// The kernels of a task.
struct TaskVariants {
  std::vector<Schedule> schedules;  ///< for all sizes
  SizeTree tree;                    ///< on the sizes of the network; its leaves name schedules
};

/// A task over dimensions.
struct TaskFamily {
  std::string name = {};             ///< that of its tasks without their sizes
  std::vector<Tensor> outputs = {};  ///< over the dimensions; empty for a task of constant extents
  /// The number of tasks that it has in Network::tasks(): one for each point. 0 for all but the
  /// first of them.
  size_t count = 1;
  SizeTree tree = {};                               ///< its leaves count these tasks
  std::vector<std::string> chosen_at = {};          ///< the sizes of each of these tasks in words
  std::vector<std::vector<SizeValue>> points = {};  ///< these sizes
  /// The kernels of a plan, in place of the usual choice; of a task of constant extents, too.
  std::optional<TaskVariants> planned = {};
};

/// The sizes of a call for which each leaf is the answer, in words: "seq 3 to 22". One text for
/// each variant, in order.
std::vector<std::string> sizes_of_leaves(const SizeTree& tree, const std::vector<Var>& sizes);

/// A schedule at one size whose steps hold for all sizes.
struct SoundSchedule {
  std::optional<Schedule> at_point;  ///< nullopt where there is none
  std::string why;                   ///< why the given one does not hold; else empty
};

/// `at_point`, a schedule for number `task` of `tasks`, those of the family. Where it does not hold
/// for all sizes, the first that does of the static choice of its task and of those of the others.
/// Its provenance then says so.
SoundSchedule sound_schedule(const Schedule& at_point, const TaskFamily& family,
                             std::span<const TuneTask> tasks, size_t task);

/// `at_points` are schedules for the tasks of `family`. A schedule that does not hold for all sizes
/// is replaced by the static choice of its task or of one at other sizes, or by the naive schedule
/// where none of them holds either, and the provenance says so.
TaskVariants variants_for_all_sizes(const TaskFamily& family, std::span<const Schedule> at_points,
                                    std::span<const TuneTask> tasks);

}  // namespace heddle::network
