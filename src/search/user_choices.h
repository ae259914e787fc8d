// Graphs of the caller's among the alternatives of a task.
#pragma once

#include <span>

#include "heddle/search/tune.h"

namespace heddle {

/// `task` with a branch for each choice. Throws a User error for a choice whose signature differs,
/// that the task's options exclude, or whose results are not those of the declaration.
TuneTask with_choices(TuneTask task, std::span<const UserChoice> choices);

}  // namespace heddle
