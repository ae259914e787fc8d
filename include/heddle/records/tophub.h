// tophub: records of the best schedules, by target, which are shipped with Heddle and found
// automatically.
//
// What this machine has learned (`heddle learn`) is in the user's folder, which is searched for trees
// before the shipped one.
//
// Three places are searched, and later ones override earlier ones: the folder installed with the
// library (in a build folder, the one of the source tree), the colon-separated files and folders of
// HEDDLE_TOPHUB, and the user's log (HEDDLE_LOG_FILE, or the one that AutoSchedulerOptions names).
// HEDDLE_TOPHUB=off turns shipped records off. In a folder, files are <kind>-<mcpu>.jsonl (any
// *.jsonl is read), <kind>-<mcpu>.model, a cost model, <kind>-<mcpu>.transfers, which says where
// records answer for cases near theirs, and <kind>-<mcpu>.<heuristic>.tree. Files
// that cannot be read are skipped and logged (HEDDLE_LOG=records). For the user's log that is a
// User error. So is a log of HEDDLE_LOG_FILE that does not exist; the one of the options may come
// later.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/records/database.h"

namespace heddle {

/// The existing files that are searched, in order. `own_log` is the user's log; empty: the one of
/// HEDDLE_LOG_FILE.
std::vector<std::string> tophub_files(
    const std::string& own_log = current_auto_scheduler_options().record_log);

/// The database of those files. It is read once, and again after `reload_tophub()` or a change of
/// the variables or the option. Earlier results stay valid.
std::shared_ptr<const RecordDatabase> tophub(
    const std::string& own_log = current_auto_scheduler_options().record_log);
/// Reads the files of tophub again. Schedules that exist stay as they are.
void reload_tophub();

/// The shipped cost model for a target's kind and CPU, if there is one: a path for CostModel::load.
std::optional<std::string> tophub_model(const Target& target);
/// The same, or the shipped cost model for the nearest CPU or GPU of the kind (chip_distance).
std::optional<std::string> tophub_nearest_model(const Target& target);
/// The file KIND-CHIPENDING of a target, or of the nearest CPU or GPU of the kind that has one.
std::optional<std::string> tophub_nearest_file(const Target& target, const std::string& ending);
/// The file KIND-CHIPENDING of the last folder that has it. The ending of a cost model is
/// ".model".
std::optional<std::string> tophub_file(const Target& target, const std::string& ending);
/// The folder of what this machine has learned: HEDDLE_LEARNED, else heddle below XDG_DATA_HOME or
/// ~/.local/share. Empty where there is none: with HEDDLE_LEARNED=off, without a home, and where
/// shipped records are turned off and the variable names no folder.
std::string learned_folder();
/// The folders where files of other kinds than records are found, in the order in which they are
/// searched: those that HEDDLE_TOPHUB names, the last one first, learned_folder() and the shipped
/// one.
std::vector<std::string> tophub_folders();
/// Whether shipped records and models are turned off.
bool tophub_is_off();
/// A text that changes with the variables and with reload_tophub().
std::string tophub_version();

}  // namespace heddle
