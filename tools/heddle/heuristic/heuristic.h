// What the parts of `heddle heuristic` share.
#pragma once

#include <string>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heddle/records/record.h"
#include "heddle/target/target.h"

namespace heddle::cli {

/// Logs of tuning and of picks, read once for all heuristics.
struct TuningLogs {
  std::vector<Record> records;
  std::vector<std::string> problems;  ///< "log.jsonl:7: ..." for each line that does not count
};
TuningLogs read_tuning_logs(const std::vector<std::string>& files);

/// The data that logs of tuning contain for a heuristic: a problem for each declaration with a
/// known subject and a measured static choice, with the choices of the portfolio that tuning tried.
HeuristicData data_from_records(const TuningLogs& logs, const std::string& name,
                                const std::string& chip = {});

/// The target of that text. Throws a User error where its kernels do not run on this machine.
Target target_to_learn(const std::string& text, int threads);

/// The date in UTC, such as 2026-11-27.
std::string today();

/// Restricts this process, and those that it starts, to cores such as "0,1" or "4-7". Call it
/// before any query of the machine. A core that does not exist is a User error.
void pin_to_cores(const std::string& cores);

}  // namespace heddle::cli
