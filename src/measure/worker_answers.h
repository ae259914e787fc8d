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

/// Results between machines: {seconds, cut_off, base, compile, run, check} or {error, message,
/// ...}.
Json result_to_json(const MeasureResult& result);
/// Throws a User error for what is none.
MeasureResult result_from_json(const Json& json);

}  // namespace heddle::measuring
