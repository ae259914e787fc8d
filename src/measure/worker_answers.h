// The answers of workers as results.
#pragma once

#include <string>

#include "heddle/measure/measure.h"
#include "heddle/support/json.h"

namespace heddle::measuring {

inline constexpr const char* kNotChecked = "not checked: the reference could not be computed";

MeasureResult failed(MeasureError error, const std::string& message);
/// Of {error, message}.
MeasureResult failed(const Json& answer);
/// Of a candidate that nobody came to.
MeasureResult out_of_time();
/// Of {samples, cut_off, run, check}. `remark`: its message.
MeasureResult timed(const Json& answer, const std::string& remark);

}  // namespace heddle::measuring
