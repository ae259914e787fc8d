// The answers of workers as results.
#pragma once

#include <string>

#include "heddle/measure/measure.h"
#include "heddle/support/json.h"

namespace heddle::measuring {

inline constexpr const char* kNotChecked = "not checked: the reference could not be computed";

MeasureResult failed(MeasureError error, const std::string& message);
/// The result of {error, message}.
MeasureResult failed(const Json& answer);
/// The result of a candidate that was not measured in time.
MeasureResult out_of_time();
/// The result of {samples, cut_off, run, check}, with `remark` as its message.
MeasureResult timed(const Json& answer, const std::string& remark);

/// Results as messages between machines: {seconds, cut_off, base, compile, run, check} or {error,
/// message, ...}.
Json result_to_json(const MeasureResult& result);
/// Throws a User error for JSON that is no result.
MeasureResult result_from_json(const Json& json);

}  // namespace heddle::measuring
