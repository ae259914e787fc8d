// A schedule of a task with its config, so that two of them can be compared knob by knob.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/network/audit.h"
#include "heddle/support/json.h"

namespace heddle::network {

struct TaskSchedule {
  Schedule schedule;
  Json config;  ///< as Template::config_to_json writes it
  std::string template_name, alternative;
  AuditBound from = AuditBound::Rules;
  std::string source;
};

/// The choice of the rules.
TaskSchedule schedule_of_rules(const TuneTask& task);

/// The best record that applies; empty where there is none.
std::optional<TaskSchedule> schedule_of_records(const TuneTask& task);

/// The schedule of a config of the task's template.
TaskSchedule schedule_of_config(const TuneTask& task, const Config& config, AuditBound from,
                                const std::string& source);

/// The knobs whose values differ, those of `to` first: "tile_rows 2 -> 6, unroll 1 -> 4". A knob
/// that one side does not have is "-" there.
std::string config_difference(const Json& from, const Json& to);

/// The names of these knobs.
std::vector<std::string> knobs_that_differ(const Json& from, const Json& to);

/// The reasons of the knobs in `names`, then of all others that have one, then what the template
/// notes.
std::vector<std::string> reasons_of(const Template& branch, const std::vector<std::string>& names);

}  // namespace heddle::network
