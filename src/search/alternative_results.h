// The results for each graph of a task, for reports.
#pragma once

#include <span>

#include "search/task_run.h"

namespace heddle::search {

/// The table of `run`, whose result is `result`.
std::vector<AlternativeResult> alternative_results(const TaskRun& run, const TaskResult& result,
                                                   std::span<const UserChoice> choices);

}  // namespace heddle::search
