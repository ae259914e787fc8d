// The information of earlier records about a task.
#pragma once

#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/records/database.h"
#include "heddle/search/search_policy.h"

namespace heddle::search {

struct History {
  struct Measured {
    Config config;
    double seconds = 0;       ///< infinity for a failure
    double base_seconds = 0;  ///< Record::base_seconds
    MeasureError error = MeasureError::None;
  };
  /// Trials of this declaration, target and template in the order of the log, timed by a protocol
  /// of the same kind. They count as measured.
  std::vector<Measured> trials;
  /// Promising configs, best or nearest first: those of this declaration by another protocol, and
  /// those of near cases (RecordDatabase::neighbours) with the knobs clamped.
  std::vector<Config> seeds;
  /// The best schedules of this declaration by another version of the template: steps without a
  /// config.
  std::vector<Schedule> replayed;
};

/// `protocol` is that of the current measurer. `shipped` (tophub) may be null.
History history_of(const TuneTask& task, const std::vector<Record>& log,
                   const std::string& protocol, const RecordDatabase* shipped);

/// Whether times under these two protocols can be compared: warm ones with warm ones, cold ones
/// with cold ones. Times of a race can be compared with all others.
bool protocols_compare(const std::string& a, const std::string& b);

}  // namespace heddle::search
