// The contents of a log, task by task, for the report.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heddle/dag/alternatives.h"
#include "heddle/heuristics/certificate.h"
#include "heddle/records/record.h"
#include "heddle/runtime/pick_row.h"
#include "heddle/support/json.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// Properties that are known from the declaration only.
struct Declared {
  Json static_config;  ///< what the static choice is; null: not known
  double bytes = 0;    ///< each input read once, each output written once; 0: not known
  std::string static_alternative = {};         ///< of the static choice: Record::alternative
  std::vector<Alternative> alternatives = {};  ///< that rules offer, legal or not
  /// Converts a config to the current names of knobs, which may have been renamed since the log
  /// began. Where it is empty, configs are compared unchanged.
  std::function<Json(const Json&)> in_todays_names = {};
};
/// Finds the declaration of a record; nullopt where it cannot be found.
using FindDeclared = std::function<std::optional<Declared>(const Record&)>;
/// Finds subjects in the list of the command line.
std::optional<Declared> declared_subject(const Record& record);

struct LogTrial {
  const Record* record = nullptr;
  double at = 0;  ///< seconds of tuning, breaks left out
  bool race = false;
};

/// A point where the best time so far improved.
struct CurvePoint {
  double at = 0;       ///< seconds of tuning
  size_t trials = 0;   ///< of the task, this one included
  double seconds = 0;  ///< of one call
};

struct TaskLog {
  std::string name;
  double calls = 1;
  std::vector<LogTrial> trials;  ///< in the order of the log
  int failures = 0;
  const Record* first = nullptr;   ///< of the static choice; nullptr: not measured
  const Record* best = nullptr;    ///< nullptr: all failed
  const Record* chosen = nullptr;  ///< what tuning returned without a race; nullptr: it raced
  const Record* won = nullptr;     ///< of the last race; nullptr: there was none
  /// The best time of screening so far, and the times by which each race, or each choice without a
  /// race, replaced it. The curve ends at best_seconds().
  std::vector<CurvePoint> curve;
  bool static_known = false;              ///< false: taken to be the first that ran
  std::vector<Alternative> alternatives;  ///< Declared::alternatives
  double bytes = 0;

  double static_seconds() const { return first != nullptr ? first->median() : 0; }
  double best_seconds() const { return best != nullptr ? best->median() : 0; }
  double speedup() const;
  /// Whether the best time is from screening alone, because tuning was interrupted before the race.
  bool screened() const;
  double flops() const { return trials.empty() ? 0 : trials[0].record->flops; }
};

struct LogData {
  std::vector<PickRow> picks;                ///< of multi-kernels
  std::vector<Json> families;                ///< as read_families reads them
  std::vector<Json> audits;                  ///< as read_audit reads them
  CertificateCalibration certificates = {};  ///< of a machine
  std::vector<std::string> files;
  std::vector<Record> records;  ///< what the tasks point to: a LogData must not be copied
  std::vector<TaskLog> tasks;
  std::vector<std::string> problems;        ///< what could not be read
  std::vector<double> resumed;              ///< where a break was left out, in seconds of tuning
  double seconds = 0;                       ///< of tuning
  double static_total = 0, best_total = 0;  ///< calls x time; 0 unless all are known

  LogData() = default;
  LogData(LogData&&) = default;
  LogData& operator=(LogData&&) = default;
  LogData(const LogData&) = delete;
  LogData& operator=(const LogData&) = delete;
};

/// `calls` has the number of calls of a task in a network, by its name. For other tasks the number
/// of the records is used.
LogData log_data(std::vector<Record> records,
                 const std::vector<std::pair<std::string, double>>& calls = {},
                 const FindDeclared& find = declared_subject);

/// The rate of an OK record, in flops per second.
double flops_per_second(const Record& record);

/// The name of task `i` after its number.
std::string numbered(const LogData& data, size_t i);

}  // namespace heddle::cli
