#pragma once
// The static choice for declarations of constant extents.

#include <optional>
#include <vector>

#include "heddle/records/record.h"
#include "heddle/schedule/options.h"
#include "heddle/schedule/schedule.h"

namespace heddle {

/// What create_schedule answers where no extent is a dimension: the best record that applies, or
/// the choice of the rules.
Schedule constant_schedule(const std::vector<Tensor>& outputs, const Target& target,
                           const AutoSchedulerOptions& options);

/// A record that answers for a declaration.
struct RecordChoice {
  Schedule schedule;
  Record record;
};

/// The best record that applies; empty where there is none or the options turn records off.
std::optional<RecordChoice> record_choice(const std::vector<Tensor>& outputs, const Target& target,
                                          const AutoSchedulerOptions& options);

}  // namespace heddle
