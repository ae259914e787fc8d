// The end of tuning: what came out, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "heddle/search/tune.h"
#include "heddle/support/json.h"
#include "tune/task_rows.h"

namespace heddle::cli {

/// What the report of `tune_tasks` does not say itself.
struct TuneOutcome {
  TuneReport report;
  std::vector<TaskRow> rows;  ///< one a task of the report
  double budget_seconds = 0;
  std::string target;                 ///< as text
  std::vector<std::string> subjects;  ///< as typed
};

/// The table, what was refused and what failed, where the time went, and the model; `columns`: of
/// the terminal, INT_MAX where there is none.
std::string summary_text(const TuneOutcome& outcome, int columns);
Json to_json(const TuneOutcome& outcome);

}  // namespace heddle::cli
