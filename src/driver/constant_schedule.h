#pragma once
// The static choice for declarations of constant extents.

#include <optional>
#include <string>
#include <vector>

#include "heddle/records/record.h"
#include "heddle/schedule/options.h"
#include "heddle/schedule/schedule.h"

namespace heddle::driver {

/// What create_schedule answers where no extent is a dimension: the best record that applies, the
/// record of a near case that is proven to win (near_schedule.h), or the choice of trees and rules.
Schedule constant_schedule(const std::vector<Tensor>& outputs, const Target& target,
                           const AutoSchedulerOptions& options);

/// What one source of schedules says of a declaration.
struct SourceAnswer {
  std::string source;  ///< "record", "near record", "tree" or "rule"
  bool answers = false;
  std::string text;  ///< the provenance of its answer, or why it has none
};
/// The answers of all sources in the order in which constant_schedule asks them. It takes the first
/// one.
std::vector<SourceAnswer> source_answers(const ComputeDag& dag, const Target& target,
                                         const AutoSchedulerOptions& options);
/// A record that answers for a declaration.
struct RecordChoice {
  Schedule schedule;
  Record record;
};

/// The best record that applies; empty where there is none or the options turn records off.
std::optional<RecordChoice> record_choice(const std::vector<Tensor>& outputs, const Target& target,
                                          const AutoSchedulerOptions& options);

}  // namespace heddle::driver
