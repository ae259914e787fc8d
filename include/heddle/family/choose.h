// Several kernels for a shape family, each fast in a part of the range, behind one callable.
//
//   const Dim n = dim("n", 1, 2048);
//   ...                                                  // C over n, from A and B
//   FamilyResult f = choose_family({n}, {A, B, C});
//   f.kernel(a, b, c);                                   // at any size
//   std::cout << to_text(f);                             // size -> kernel, expected slowdown
//
// A schedule is chosen at each of some sizes and applied to all sizes (family/schedule.h),
// unchanged with longer blocks, and shared out evenly. All of these schedules race at these sizes
// and at sizes between them. At most `max_kernels` are kept, chosen for the least expected slowdown
// over the histogram of sizes. A tree on the sizes says which of them runs.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/family/schedule.h"
#include "heddle/runtime/family_kernel.h"
#include "heddle/support/json.h"

namespace heddle {

/// The sizes of a call, in elements and in the order of the dimensions, and how often they are
/// expected.
struct FamilyPoint {
  std::vector<int64_t> sizes;
  double weight = 1;
};

/// Options of choose_family().
struct FamilyOptions {
  int max_kernels = 6;  ///< how many the family keeps at most
  /// Sizes of each dimension at which schedules are chosen: both ends of the range, and sizes
  /// between them, spaced geometrically. With more than one dimension, all
  /// combinations of them. 0: twelve for one dimension, four each for two, three each for more.
  /// Two more sizes between two of them are raced, one for two dimensions.
  int points = 0;
  /// The sizes that are expected. Empty: those of `points`, each as often. A long histogram is
  /// thinned out: the sizes are its quantiles, or for several dimensions the most frequent ones.
  std::vector<FamilyPoint> histogram = {};
  /// Seconds of the race at all sizes. The sizes at which kernels hand over are then found by
  /// bisection, in a quarter of it more.
  double race_seconds = 4;
  std::optional<Target> target = {};  ///< default: this machine
  AutoSchedulerOptions scheduler = current_auto_scheduler_options();
  BuildOptions build = {};  ///< of each kernel
  /// Other schedules, one for each of `at`, beside those of create_schedule; may be empty. `at` is
  /// the declaration at each point, or at a size near it, where the choice of create_schedule holds
  /// for all sizes. A User error that it throws leaves the schedules of create_schedule.
  std::function<std::vector<Schedule>(std::span<const Instance> at)> choose = {};
  std::function<void(const std::string&)> progress =
      {};  ///< called with a line of text for each step
};

/// A kernel of a family.
struct FamilyVariant {
  std::string name;                ///< the sizes at which it was chosen: "n=64"
  std::vector<int64_t> chosen_at;  ///< in elements
  Schedule schedule;               ///< for all sizes
};

/// The results of the race at one point.
struct FamilyRow {
  FamilyPoint point;
  int variant = 0;  ///< the variant that the tree picks at the point
  /// Seconds of one call, for each variant. For a GPU the geometric mean of those at the point and
  /// at the odd size before it: a size may be a multiple of the vectors of one variant.
  std::vector<double> seconds;
  /// The time of that variant over the time of the fastest of all raced schedules.
  double slowdown = 1;
};

/// The kernels of a family, and the results of the race that chose them.
struct FamilyResult {
  std::vector<Dim> dims;
  FamilyKernel kernel;
  std::vector<FamilyVariant> variants;
  SizeTree tree;  ///< on the variables of `dims`, in their order; its leaves name variants
  std::vector<FamilyRow> rows;
  int candidates = 0;  ///< number of different schedules in the race
  /// The geometric mean of the slowdowns, weighted by the histogram.
  double expected_slowdown = 1;
  /// What went wrong with FamilyOptions::choose, which stopped nothing: a User error of it, or
  /// records of tune_family that could not be written.
  std::vector<std::string> problems = {};
  int unwritten = 0;  ///< the number of those records
};

/// Chooses the kernels. `args` are the arguments of the kernel, inputs and outputs over `dims`, in
/// call order. Throws a User error where a dimension does not occur in them, or where no schedule
/// is valid for all sizes.
FamilyResult choose_family(const std::vector<Dim>& dims, const std::vector<Tensor>& args,
                           const FamilyOptions& options = {});

/// The points at which choose_family chooses schedules.
std::vector<FamilyPoint> family_points(const std::vector<Dim>& dims, const FamilyOptions& options);

/// A table: sizes -> kernel, with times and the expected slowdown.
std::string to_text(const FamilyResult& result);
/// The same as JSON. Times are in seconds.
Json to_json(const FamilyResult& result);

}  // namespace heddle
