// Prints the progress of tuning and its report.
//
//   TuneResult best = tune({y}, {.budget = 60s, .progress = print_progress()});
//   std::cout << best;
#pragma once

#include <functional>
#include <iosfwd>

#include "heddle/search/tune.h"

namespace heddle {

/// A function for TuneOptions::progress. It prints the current phase, the best time so far and the
/// time left to the standard error stream. On a terminal it is one line that is overwritten and
/// removed at the end. Elsewhere it is a line for each new best and every ten seconds.
std::function<void(const TuneProgress&)> print_progress();
/// The same on another stream, line by line; it must outlive the run.
std::function<void(const TuneProgress&)> print_progress(std::ostream& out);

/// A table of tasks with the times of the static and of the best schedule, and the problems.
std::ostream& operator<<(std::ostream& out, const TuneReport& report);
/// Prints the report of the result.
std::ostream& operator<<(std::ostream& out, const TuneResult& result);

}  // namespace heddle
