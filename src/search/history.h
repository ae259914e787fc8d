// What earlier records say about a task.
#pragma once

#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/records/database.h"
#include "heddle/search/search_policy.h"

namespace heddle {

struct History {
  struct Measured {
    Config config;
    double seconds = 0;       ///< infinity for a failure
    double base_seconds = 0;  ///< Record::base_seconds
    MeasureError error = MeasureError::None;
  };
  /// Trials of this declaration, target and template, in the order of the log, timed by a protocol
  /// of the same kind: they count as measured.
  std::vector<Measured> trials;
  /// Configs worth trying: this declaration's by another protocol, other shapes' of the same
  /// structure with the knobs clamped. Best or nearest first.
  std::vector<Config> seeds;
  /// The best of this declaration by another version of the template: steps, no config.
  std::vector<Schedule> replayed;
};

/// `protocol`: of the measurer at hand. `shipped` (tophub) may be null.
History history_of(const TuneTask& task, const std::vector<Record>& log,
                   const std::string& protocol, const RecordDatabase* shipped);

/// The config nearest to `config` (knob name -> value, of whatever template) that is legal here:
/// unknown knobs are left out, values are clamped to the nearest there is, missing knobs and what
/// breaks a requirement get their defaults.
Config nearest_config(const Template& t, const Json& config);

/// The config of a record of another task, as near as this one can have it: the default where the
/// record's alternative is not offered.
Config nearest_config(const Template& t, const Record& record);

/// Do times under these two protocols compare? Warm ones with warm ones, cold with cold; of a race
/// is always of interest.
bool protocols_compare(const std::string& a, const std::string& b);

}  // namespace heddle
