// What people see of tuning: its progress while it runs, and its report.
//
//   TuneResult best = tune({y}, {.budget = 60s, .progress = print_progress()});
//   std::cout << best;
#pragma once

#include <functional>
#include <iosfwd>

#include "heddle/search/tune.h"

namespace heddle {

/// What to pass as TuneOptions::progress: says on the standard error stream what is going on, the
/// best so far and the time left. On a terminal it is one line that is written over and gone at the
/// end; elsewhere a line at a new best, and every ten seconds.
std::function<void(const TuneProgress&)> print_progress();
/// The same on another stream, line by line; it must outlive the run.
std::function<void(const TuneProgress&)> print_progress(std::ostream& out);

/// A table of tasks with the times of the static and of the best schedule, and what went wrong.
std::ostream& operator<<(std::ostream& out, const TuneReport& report);
std::ostream& operator<<(std::ostream& out, const TuneResult& result);

}  // namespace heddle
