#include "measure/worker_answers.h"

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

}  // namespace heddle::measuring
