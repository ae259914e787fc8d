#include "measure/messages/answers.h"

namespace heddle::measuring {

WorkerAnswer answer_from(const Json& json) {
  return {envelope_of(json), decode_any<WorkerSays>(json)};
}

MeasureResult failed(MeasureError error, const std::string& message) {
  MeasureResult r;
  r.error = error;
  r.message = message;
  return r;
}

MeasureResult out_of_time() {
  return failed(MeasureError::Cancelled, "the time was up before it was measured");
}

MeasureResult timed(const Timed& answer, const std::string& remark) {
  MeasureResult r;
  r.seconds = answer.samples;
  r.cut_off = answer.cut_off;
  r.run_seconds = answer.run;
  r.check_seconds = answer.check;
  r.message = remark;
  return r;
}

}  // namespace heddle::measuring
