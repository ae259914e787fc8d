// Record: one measurement as it is stored on disk, in one line of JSON (schema in docs/reference/records.md).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/schedule/template.h"
#include "heddle/support/json.h"
#include "heddle/target/target.h"

namespace heddle {

/// The outcome of a candidate. The names on disk are those of `to_string`.
enum class MeasureError : uint8_t {
  None,
  Invalid,      ///< the template's requirements refuse the config, or a step does not apply
  Compile,      ///< lowering or code generation threw
  Crash,        ///< the worker died of a signal (its name is in the message)
  Timeout,      ///< compiling or running took longer than allowed
  OutOfMemory,  ///< an allocation failed, or the worker's memory limit was hit
  WrongAnswer,  ///< it ran, and its output differs from the reference
  Rejected,     ///< compiled for a GPU and not run, because it spills registers or exceeds a limit
  Cancelled,    ///< the budget ended or someone pressed Ctrl-C before it was measured; not recorded
};
/// The name of an error, as records hold it.
const char* to_string(MeasureError e);
/// The inverse of to_string. Throws a User error for an unknown name.
MeasureError measure_error_from_string(std::string_view name);

/// What a record says of its schedule, in ascending order of precedence. The names on disk are
/// those of `to_string`.
enum class Verdict : uint8_t {
  Screened,  ///< timed alone
  Raced,     ///< timed beside other leaders, and not the winner
  Chosen,    ///< not a measurement: the result of tuning without a race
  Won,       ///< the winner of a race
};
/// The name of a verdict: "screened", "raced", "chosen" or "won".
const char* to_string(Verdict v);

/// One measurement of one schedule (docs/reference/records.md describes each field).
struct Record {
  static constexpr int kVersion = 2;

  uint64_t structural_hash = 0;  ///< of the declaration (ComputeDag::structural_hash)
  std::string subject;           ///< readable: "matmul:512x512x512", or the caller's name
  std::string shape_class;       ///< equal for declarations that differ in extents only; see tophub
  std::vector<int64_t> extents;  ///< of all stages in order; they give distances of shapes
  Target target;                 ///< as given to the template (cores = threads of the kernel)
  /// The alternative of the declaration (dag/alternatives.h) that template, config and steps belong
  /// to; empty for the declaration itself.
  std::string alternative;
  std::string template_name;
  uint64_t template_version = 0;  ///< Template::fingerprint
  Json config;                    ///< knob name -> value (Template::config_to_json)
  Json steps;                     ///< steps_of: replays without the template
  std::vector<double> seconds;    ///< samples of one call each; empty when there was an error
  double base_seconds = 0;  ///< time of the static choice, measured beside it; 0: not measured
  MeasureError error = MeasureError::None;
  std::string message;  ///< message of the error
  Verdict verdict = Verdict::Screened;
  std::string protocol;        ///< how it was timed: "warm repeats=5", "cold repeats=3"
  double compile_seconds = 0;  ///< lower + codegen, in the worker
  double measure_seconds = 0;  ///< time of the whole measurement, repeats included
  double flops = 0;            ///< operations of one call, as the DAG counts them
  double calls = 1;            ///< number of calls in one run of the network that was tuned
  double bytes = 0;            ///< bytes that one call must move (compulsory_bytes); 0: not known
  /// The prediction of the cost model before the measurement (higher is better, comparable within a
  /// task). NaN: there was none.
  double predicted = std::numeric_limits<double>::quiet_NaN();
  std::string machine;    ///< fingerprint: CPU model, cores, caches
  std::string build;      ///< fingerprint of Heddle: version and commit
  uint64_t seed = 0;      ///< seed of the search
  int64_t unix_time = 0;  ///< seconds
  std::string origin;     ///< "dense.jsonl:17", where it was read from; not written
  /// The declaration (declaration_to_json), from which features of the problem are computed where its
  /// subject names none, as those of a network's nodes. Tuning writes it to the first record of a
  /// task in a log. Null: it is not there.
  Json declaration = {};

  bool ok() const { return error == MeasureError::None && !seconds.empty(); }
  /// Whether it was timed in a race, beside other leaders.
  bool raced() const { return verdict == Verdict::Raced || verdict == Verdict::Won; }
  /// Median of `seconds`; infinity when not ok().
  double median() const;

  Json to_json() const;
  /// Reads a record of any version up to kVersion. Throws a User error that names what is missing
  /// or wrong. Unknown keys are ignored.
  static Record from_json(const Json& json);
};

/// A record without its measurement: declaration, template, config, steps, machine, build and time.
/// If the template refuses the config, the steps are an empty object.
Record make_record(const std::string& subject, const Template& t, const Config& config);

/// The form of a schedule in a record: Schedule::to_json without the target, which the record
/// holds.
Json steps_of(const Schedule& schedule);

namespace internal {

/// The CPU, its cores and caches: "AMD EPYC (2 cores, L2 512K, L3 32M)".
const std::string& machine_fingerprint();
/// The version, and the commit where Heddle was configured in a git tree: "0.1.0+0123abc456".
const std::string& build_fingerprint();

/// ComputeDag::shape_class in hexadecimal: equal for matrix products of all sizes.
std::string shape_class_of(const ComputeDag& dag);

}  // namespace internal

}  // namespace heddle
