// tophub: shipped records of the best schedules, by target, found automatically.
//
// Searched, later ones overriding earlier ones: the folder installed with the library (or the
// source tree's, when it runs from a build folder), then the colon-separated files and folders of
// HEDDLE_TOPHUB, then the user's log (HEDDLE_LOG_FILE, or what AutoSchedulerOptions names).
// HEDDLE_TOPHUB=off turns shipped records off. In a folder, files are <kind>-<mcpu>.jsonl (any
// *.jsonl is read) and <kind>-<mcpu>.model, a cost model. What cannot be read is skipped and logged
// (HEDDLE_LOG=records).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/records/database.h"

namespace heddle {

/// The files that are consulted now, in order; those that exist. `own_log`: the user's log; empty:
/// that of HEDDLE_LOG_FILE.
std::vector<std::string> tophub_files(
    const std::string& own_log = current_auto_scheduler_options().record_log);

/// The database of those files; read once, and again after `reload_tophub()` or a change of the
/// variables or option. What it returned stays valid.
std::shared_ptr<const RecordDatabase> tophub(
    const std::string& own_log = current_auto_scheduler_options().record_log);
void reload_tophub();

/// The shipped cost model for a target's kind and CPU, if there is one: a path for CostModel::load.
std::optional<std::string> tophub_model(const Target& target);

}  // namespace heddle
