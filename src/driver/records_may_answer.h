// Which options leave the choice of a schedule, or of its graph, to records.
#pragma once

#include <string>

#include "heddle/schedule/template.h"

namespace heddle::driver {

/// Whether the options allow records. Only options that are compared with the target of a record
/// may differ from their defaults.
bool records_may_answer(const AutoSchedulerOptions& options);

/// Why the options do not allow the alternative (dag/alternatives.h) of a recorded schedule; empty
/// where they do.
std::string why_alternative_forbidden(const std::string& alternative, const ComputeDag& dag,
                                      const AutoSchedulerOptions& options);

}  // namespace heddle::driver
