// Which options leave the choice of a schedule to records.
#pragma once

#include "heddle/schedule/template.h"

namespace heddle {

/// Whether the options allow records. Only options that are compared with the target of a record
/// may differ from their defaults.
bool records_may_answer(const AutoSchedulerOptions& options);

}  // namespace heddle
