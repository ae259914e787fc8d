// The config of a record as another template can have it.
#pragma once

#include "heddle/records/record.h"

namespace heddle::records {

/// The legal config nearest to `config` (knob name -> value, of any template). Unknown knobs are
/// left out, and values are clamped to the nearest allowed ones. Missing knobs, and those that
/// violate a requirement, get their defaults.
Config nearest_config(const Template& t, const Json& config);

/// The nearest config to that of a record of another task. It is the default where the record's
/// alternative is not offered.
Config nearest_config(const Template& t, const Record& record);

}  // namespace heddle::records
