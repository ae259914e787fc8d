// Tuning of tasks that are not parts of one call, such as one declaration at several sizes.
#pragma once

#include <vector>

#include "heddle/search/tune.h"

namespace heddle::search {

/// tune_tasks(), but rounds go where a task gains the largest share of its own time, times its
/// weight. `options` have no choices of the caller's.
TuneReport tune_apart(std::vector<TuneTask> tasks, const TuneOptions& options);

}  // namespace heddle::search
