// The messages between a tuner, its bridge to a fleet, and the nodes of the fleet. The bridge
// (tools/fleet) relays them and writes some of its own.
//
// To a node, after a hello with `node` and tasks, both answered as by a worker:
//
//   Compile                 ->  Compiled or Failed, or Unable
//   MeasureTrials           ->  TrialResult for each candidate that was reached, then RoundEnd
//
// To the bridge, after a hello with `fleet`: TaskMessage, CompileJob, MeasureTrials, Drop, End. The
// bridge says, in any order: Started, DeviceThere, DeviceGone, Compilers, JobReport, RoundReport.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "heddle/measure/measure.h"
#include "measure/messages/answers.h"
#include "measure/messages/requests.h"

namespace heddle::measuring {

// ---- nodes -------------------------------------------------------------------------------------

struct TrialRequest {
  int64_t trial = 0;
  Json steps;
  std::optional<Json> code = {};    ///< to a node
  std::optional<int64_t> job = {};  ///< to the bridge: the job that compiled it
  static void fields(auto& m, auto& field) {
    field("trial", m.trial, "steps", m.steps, "code", m.code, "job", m.job);
  }
};

/// Measures candidates, or races them. The bridge replaces jobs by their code.
struct MeasureTrials {
  static constexpr Verb kKind = Verb::Measure;
  int64_t task = 0;
  bool race = false;
  double seconds = 0;  ///< the limit of the time
  std::optional<double> best = {};
  std::vector<TrialRequest> trials = {};
  std::optional<Json> base_code = {};    ///< to a node: of the static choice
  std::optional<int64_t> base_job = {};  ///< to the bridge
  std::optional<int64_t> round = {};     ///< to the bridge
  std::optional<std::string> device = {};
  static void fields(auto& m, auto& field) {
    field("task", m.task, "seconds", m.seconds, "best", m.best, "candidates", m.trials, "base_code",
          m.base_code, "base_job", m.base_job, "round", m.round, "device", m.device);
    field.maybe("race", m.race);
  }
  void check() const;
};

/// A node cannot start a worker.
struct Unable {
  static constexpr Word kKind = Word::Unable;
  std::string message;
  static void fields(auto& m, auto& field) { field("message", m.message); }
};

/// A result; its `base_seconds` are those of the machine that measured.
struct TrialResult {
  static constexpr Word kKind = Word::Result;
  int64_t trial = 0;
  MeasureResult result;
  static void fields(auto& m, auto& field) {
    field("trial", m.trial);
    field.maybe("error", m.result.error, "message", m.result.message);
    field("seconds", m.result.seconds);
    field.maybe("cut_off", m.result.cut_off, "base", m.result.base_seconds, "compile",
                m.result.compile_seconds, "run", m.result.run_seconds, "check",
                m.result.check_seconds);
  }
  void check() const;
};

/// What a node says at the end of a request, beside its results.
struct RoundNotes {
  std::optional<std::string> failed = {};  ///< why nothing more can be measured here
  std::optional<std::string> problem = {};
  double took = 0;           ///< seconds of the request
  double static_choice = 0;  ///< of these, seconds of timing the static choice
  bool old_base = false;     ///< the static choice was timed in an earlier round
  static void fields(auto& m, auto& field) {
    field("failed", m.failed, "problem", m.problem);
    field.maybe("took", m.took, "static_choice", m.static_choice, "old_base", m.old_base);
  }
};
struct RoundEnd : RoundNotes {
  static constexpr Word kKind = Word::Done;
};

// ---- the bridge --------------------------------------------------------------------------------

/// A compilation by some node.
struct CompileJob {
  static constexpr Verb kKind = Verb::Compile;
  int64_t job = 0, task = 0;
  Json steps;
  bool no_spills = false;
  bool urgent = false;  ///< it comes before all that is not
  static void fields(auto& m, auto& field) {
    field("job", m.job, "task", m.task, "steps", m.steps, "no_spills", m.no_spills, "urgent",
          m.urgent);
  }
};

/// The code of these jobs is not needed any more.
struct Drop {
  static constexpr Verb kKind = Verb::Drop;
  std::vector<int64_t> jobs;
  static void fields(auto& m, auto& field) { field("jobs", m.jobs); }
};
struct End {
  static constexpr Verb kKind = Verb::End;
  static void fields(auto&, auto&) {}
};

struct DeviceThere {
  static constexpr Word kKind = Word::Device;
  std::string device, machine;
  std::optional<std::string> problem = {};  ///< why it cannot measure
  static void fields(auto& m, auto& field) {
    field("device", m.device);
    field.maybe("machine", m.machine);
    field("problem", m.problem);
  }
};
struct DeviceGone {
  static constexpr Word kKind = Word::Gone;
  std::string device, why;
  static void fields(auto& m, auto& field) { field("device", m.device, "why", m.why); }
};
struct Compilers {
  static constexpr Word kKind = Word::Compilers;
  int count = 0;
  static void fields(auto& m, auto& field) { field("count", m.count); }
};

/// The end of a compilation: it took `seconds`, it failed, or its node was lost.
struct JobReport {
  static constexpr Word kKind = Word::Job;
  int64_t job = 0;
  double seconds = 0;
  MeasureError error = MeasureError::None;
  std::string message = {};
  std::optional<std::string> lost = {};
  static void fields(auto& m, auto& field) {
    field("job", m.job);
    field.maybe("seconds", m.seconds, "error", m.error, "message", m.message);
    field("lost", m.lost);
  }
};

/// The end of a round. `lost`: why there are no results; "" where nobody is to blame.
struct RoundReport : RoundNotes {
  static constexpr Word kKind = Word::Round;
  int64_t round = 0;
  std::string device;
  std::optional<std::string> lost = {};
  std::optional<std::vector<Json>> results = {};  ///< a TrialResult each
  static void fields(auto& m, auto& field) {
    field("round", m.round, "device", m.device, "lost", m.lost, "results", m.results);
    RoundNotes::fields(m, field);
  }
};

using BridgeSays =
    std::variant<Started, DeviceThere, DeviceGone, Compilers, JobReport, RoundReport>;

}  // namespace heddle::measuring
