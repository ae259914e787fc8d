// Graphs of the caller as alternatives of a task.
#pragma once

#include <span>

#include "heddle/search/tune.h"

namespace heddle::search {

/// `task` with a branch for each choice. Throws a User error for a choice with another signature,
/// one that the task's options exclude, or one with other results than the declaration.
TuneTask with_choices(TuneTask task, std::span<const UserChoice> choices);

}  // namespace heddle::search
