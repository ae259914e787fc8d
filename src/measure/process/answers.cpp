#include "measure/process/answers.h"

#include "heddle/support/error.h"

namespace heddle::measuring {

MeasureResult failed(MeasureError error, const std::string& message) {
  MeasureResult r;
  r.error = error;
  r.message = message;
  return r;
}

MeasureResult failed(const Json& answer) {
  return failed(static_cast<MeasureError>(answer.at("error").as_int()),
                answer.at("message").as_string());
}

MeasureResult out_of_time() {
  return failed(MeasureError::Cancelled, "the time was up before it was measured");
}

MeasureResult timed(const Json& answer, const std::string& remark) {
  MeasureResult r;
  for (const Json& s : answer.at("samples").elements()) r.seconds.push_back(s.as_double());
  r.cut_off = answer.at("cut_off").as_bool();
  r.run_seconds = answer.at("run").as_double();
  r.check_seconds = answer.at("check").as_double();
  r.message = remark;
  return r;
}

Json result_to_json(const MeasureResult& r) {
  Json out = Json::object({{"compile", r.compile_seconds},
                           {"run", r.run_seconds},
                           {"check", r.check_seconds},
                           {"base", r.base_seconds},
                           {"cut_off", r.cut_off}});
  if (r.error != MeasureError::None) out["error"] = Json(to_string(r.error));
  if (!r.message.empty()) out["message"] = Json(r.message);
  out["seconds"] = Json::array_of(r.seconds);
  return out;
}

MeasureResult result_from_json(const Json& json) {
  MeasureResult r;
  if (const Json* error = json.find("error"))
    r.error = measure_error_from_string(error->as_string());
  r.message = json.get_string("message", "");
  for (const Json& s : json.at("seconds").elements()) {
    r.seconds.push_back(s.as_double());
    if (!(r.seconds.back() > 0)) throw_user_error("a time that is not above 0");
  }
  r.cut_off = json.at("cut_off").as_bool();
  r.base_seconds = json.at("base").as_double();
  r.compile_seconds = json.at("compile").as_double();
  r.run_seconds = json.at("run").as_double();
  r.check_seconds = json.at("check").as_double();
  if (r.error == MeasureError::None && r.seconds.empty())
    throw_user_error("a result without times and without an error");
  return r;
}

}  // namespace heddle::measuring
