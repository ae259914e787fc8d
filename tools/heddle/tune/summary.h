// The summary at the end of tuning, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/network/size_kernels.h"
#include "heddle/search/tune.h"
#include "heddle/support/json.h"
#include "tune/task_rows.h"

namespace heddle::cli {

/// The data of the summary that the report of `tune_tasks` does not contain.
struct TuneOutcome {
  TuneReport report;
  PassChoice choices = {};                ///< about a network; without trials for other subjects
  std::vector<TaskRow> rows;              ///< one a task of the report
  std::vector<TaskKernels> kernels = {};  ///< of a network over ranges of sizes, after their race
  double budget_seconds = 0;
  std::string target;                 ///< as text
  std::vector<std::string> subjects;  ///< as typed
};

/// The table, the refused and failed candidates, the time by activity, and the model. `columns` is
/// the width of the terminal, or INT_MAX where there is none.
std::string summary_text(const TuneOutcome& outcome, int columns);
Json to_json(const TuneOutcome& outcome);

}  // namespace heddle::cli
