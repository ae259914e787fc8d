// The table of tuning: a row for each task, limited to the available width and height.
#pragma once

#include <climits>
#include <span>
#include <string>
#include <vector>

#include "heddle/search/tune.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// The unit and the ceiling of a task's speed, which do not change while tuning.
struct TaskScale {
  Bound bound = Bound::Compute;
  double work = 0;  ///< flops of one call, or bytes, by `bound`
  double peak = 0;  ///< flops or bytes per second; 0: not known
};

struct TaskRow {
  std::string name;
  double calls = 1;
  int trials = 0, failures = 0;
  double static_seconds = 0, best_seconds = 0;  ///< 0 until measured
  bool active = false, converged = false;
  TaskScale scale;
  double near = 0;        ///< probability that the best is near (TaskResult::near); 0: not known
  bool screened = false;  ///< not raced yet: the best is of screening, and likely a lucky time

  double speedup() const;     ///< 0 until both are measured
  double rate() const;        ///< flops or bytes per second at best; 0 until measured
  double peak_share() const;  ///< 0 where it is not known
  double total_seconds() const { return calls * best_seconds; }
};

std::vector<TaskRow> task_rows(const TuneProgress& progress, std::span<const TaskScale> scales);
std::vector<TaskRow> task_rows(const TuneReport& report, std::span<const double> calls,
                               std::span<const TaskScale> scales);

/// Weighted sums over the tasks; 0 unless every task was measured.
struct Overall {
  double static_seconds = 0, best_seconds = 0;
  bool screened = false;  ///< of some task the best was not raced yet
  double speedup() const { return best_seconds > 0 ? static_seconds / best_seconds : 0; }
};
Overall overall_of(std::span<const TaskRow> rows);

struct TableSize {
  int columns = INT_MAX;
  int lines = INT_MAX;  ///< header and remainder included
};
/// No line is longer than size.columns: the least important columns are removed, then names are
/// shortened. Where there are more rows than lines, the most important rows remain, and the last
/// line counts the others.
std::vector<std::string> table_lines(std::span<const TaskRow> rows, TableSize size = {});

}  // namespace heddle::cli
