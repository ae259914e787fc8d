// What workers answer (requests.h), and the results that tuners make of it.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "heddle/measure/measure.h"
#include "measure/messages/codec.h"

namespace heddle::measuring {

struct Started {
  static constexpr Word kKind = Word::Started;
  std::optional<std::string> message = {}, help = {};   ///< of a refusal
  std::optional<std::string> machine = {}, build = {};  ///< fingerprints of a node
  std::optional<std::string> problem = {};              ///< why a node cannot measure
  static void fields(auto& m, auto& field) {
    field("message", m.message, "help", m.help, "machine", m.machine, "build", m.build, "problem",
          m.problem);
  }
};

struct Failed {
  static constexpr Word kKind = Word::Failed;
  MeasureError error = MeasureError::Crash;
  std::string message;
  double seconds = 0, nvrtc = 0;  ///< of a compilation that was Rejected
  static void fields(auto& m, auto& field) {
    field("error", m.error, "message", m.message);
    field.maybe("seconds", m.seconds, "nvrtc", m.nvrtc);
  }
};

struct Compiled {
  static constexpr Word kKind = Word::Compiled;
  double seconds = 0;
  double nvrtc = 0;  ///< of these, seconds of the compiler for GPUs
  std::optional<Json> code = {};
  static void fields(auto& m, auto& field) {
    field("seconds", m.seconds);
    field.maybe("nvrtc", m.nvrtc);
    field("code", m.code);
  }
};

struct Timed {
  static constexpr Word kKind = Word::Timed;
  std::vector<double> samples;
  bool cut_off = false;
  double prepare = 0, run = 0, check = 0;  ///< seconds that were spent
  static void fields(auto& m, auto& field) {
    field("samples", m.samples);
    field.maybe("cut_off", m.cut_off, "prepare", m.prepare, "run", m.run, "check", m.check);
  }
};

struct Done {
  static constexpr Word kKind = Word::Done;
  std::optional<std::string> problem = {};  ///< doubts about a reference
  static void fields(auto& m, auto& field) { field("problem", m.problem); }
};

/// The runner of a worker ended.
struct Died {
  static constexpr Word kKind = Word::Died;
  int status = 0;  ///< of waitpid
  static void fields(auto& m, auto& field) { field("status", m.status); }
};

/// The answer to a request.
using Said = std::variant<Done, Failed, Compiled, Timed>;
/// All that a worker says.
using WorkerSays = std::variant<Done, Failed, Compiled, Timed, Died, Started>;

/// An answer with its envelope.
struct WorkerAnswer {
  Envelope envelope;
  WorkerSays says;

  const Failed* failed() const { return std::get_if<Failed>(&says); }
  /// Throws a User error for another answer.
  template <class A>
  const A& as() const {
    const A* out = std::get_if<A>(&says);
    if (out == nullptr)
      throw_user_error(std::string("a worker does not answer '") + to_string(A::kKind) + "'");
    return *out;
  }
};
/// Throws a User error for JSON that no worker says.
WorkerAnswer answer_from(const Json& json);

inline constexpr const char* kNotChecked = "not checked: the reference could not be computed";

MeasureResult failed(MeasureError error, const std::string& message);
inline MeasureResult failed(const Failed& f) { return failed(f.error, f.message); }
/// The result of a candidate that was not measured in time.
MeasureResult out_of_time();
/// The result of a run, with `remark` as its message.
MeasureResult timed(const Timed& answer, const std::string& remark);

}  // namespace heddle::measuring
