// One message of each kind, with all of its fields.
#pragma once

#include <vector>

#include "measure/messages/fleet.h"

namespace heddle::testing {

inline std::vector<Json> sample_messages() {
  using namespace measuring;
  const Json steps = Json::object({{"v", 1}, {"steps", Json::array()}});
  const Json code = Json::object({{"object", "7f45"}});
  MeasureResult result;
  result.seconds = {1e-3, 2e-3};
  result.cut_off = true;
  result.base_seconds = 3e-3;
  result.compile_seconds = 0.1;
  result.run_seconds = 0.2;
  result.check_seconds = 0.3;
  MeasureResult wrong;
  wrong.error = MeasureError::WrongAnswer;
  wrong.message = "1 of 6 elements are wrong";
  RoundEnd end;
  end.failed = "no worker";
  end.problem = "the check of 'x'";
  end.took = 0.5;
  end.static_choice = 0.25;
  end.old_base = true;
  RoundReport report;
  report.round = 6;
  report.device = "n0#1";
  report.took = 0.5;
  report.results = std::vector<Json>{encode(TrialResult{9, result})};
  RoundReport lost;
  lost.round = 7;
  lost.device = "n0#1";
  lost.lost = "";
  return {
      // to workers
      encode(MakeReference{1, ReferenceBy::Naive}, {.id = 1}),
      encode(Compile{1, 2, steps, code, true, true}, {.id = 2}),
      encode(CompileNaive{1}),
      encode(RunReference{1, code, "/tmp/turns"}),
      encode(Open{1, "/tmp/turns"}),
      encode(Run{1, kBaseCandidate, CodeOf{steps, code}, 1e-3, true, {0, 4}, "/tmp/turns"}),
      encode(Enter{1, 3, CodeOf{steps, code}, "/tmp/turns"}),
      encode(Turn{3}),
      encode(Rest{}),
      encode(Forget{}),
      // of workers
      encode(Started{"no", "ask", "a machine", "a build", "a problem"}),
      encode(Failed{MeasureError::Rejected, "spills", 0.5, 0.25}, {.id = 3, .device_lost = true}),
      encode(Compiled{0.5, 0.25, code}),
      encode(Timed{{1e-3, 2e-3}, true, 0.1, 0.2, 0.3}),
      encode(Done{"the check of 'x'"}),
      encode(Died{9}),
      // of nodes and to them
      encode(MeasureTrials{1, true, 0.5, 1e-3, {{9, steps, code}, {10, steps}}, code}),
      encode(Unable{"no worker"}),
      encode(TrialResult{9, result}),
      encode(TrialResult{10, wrong}),
      encode(end),
      // to the bridge
      encode(CompileJob{4, 1, steps, true, true}),
      encode(MeasureTrials{1, false, 0.5, {}, {{9, steps, {}, 5}}, {}, 4, 6, "n0#1"}),
      encode(Drop{{4, 5}}),
      encode(End{}),
      // of the bridge
      encode(DeviceThere{"n0#1", "a machine", "a problem"}),
      encode(DeviceGone{"n0#1", "it was killed"}),
      encode(Compilers{3}),
      encode(JobReport{4, 0.5, MeasureError::Compile, "it cannot", "its node died"}),
      encode(report),
      encode(lost),
  };
}

/// All messages but the hello and tasks, which need more than their fields.
using AnyMessage = std::variant<
    measuring::Compile, measuring::CompileNaive, measuring::MakeReference, measuring::RunReference,
    measuring::Open, measuring::Run, measuring::Enter, measuring::Turn, measuring::Rest,
    measuring::Forget, measuring::MeasureTrials, measuring::Drop, measuring::End,
    measuring::Started, measuring::Failed, measuring::Compiled, measuring::Timed, measuring::Done,
    measuring::Died, measuring::TrialResult, measuring::Unable, measuring::DeviceThere,
    measuring::DeviceGone, measuring::Compilers, measuring::JobReport, measuring::RoundReport>;

}  // namespace heddle::testing
