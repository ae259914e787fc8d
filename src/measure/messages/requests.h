// The messages between a tuner and its workers (codec.h says how they are written).
//
// A worker of a tuner for CPUs compiles, keeps what it compiled by candidate, and forks a runner that
// runs it. For a GPU, code travels: some workers compile, and one, the runner, uses the device.
//
//   Hello                       ->  Started
//   TaskMessage                 ->  Started
//   Compile                     ->  Compiled
//   Reference                   ->  Done
//   Run                         ->  Timed
//   Enter, then any Turns       ->  Timed         a race
//   Rest, Forget                    no answer
//   CompileNaive                ->  Compiled      GPUs only
//   RunReference, Open          ->  Done          GPUs only
//
// Failed may come in place of any answer, and Died where the runner ended. A refused hello or task is
// a Started with a message. A request that is none, or not for this worker, ends it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "measure/messages/codec.h"

namespace heddle::measuring {

/// The version of this library.
const char* heddle_version();
/// The version of frames and messages, which both sides must share. It is part of every frame.
inline constexpr int kWorkerProtocol = 2;

/// The candidate number of the static choice, which is timed beside others. Its results are not
/// checked again.
inline constexpr int kBaseCandidate = -1;

enum class WorkerKind : uint8_t { Cpu, Cuda };
const char* to_string(WorkerKind kind);
void from_name(const std::string& name, WorkerKind& kind);

/// The schedule that computes a reference, in decreasing order of trust.
enum class ReferenceBy : uint8_t { Naive, Vector, Default };
const char* to_string(ReferenceBy by);
void from_name(const std::string& name, ReferenceBy& by);

/// What a bridge to a fleet needs beside its hello (messages/fleet.h).
struct FleetSettings {
  std::string address, resource;
  std::vector<std::string> worker;  ///< the command of a worker
  Json compiler, device;            ///< hellos for nodes
  static void fields(auto& m, auto& field) {
    field("address", m.address, "resource", m.resource, "worker", m.worker, "compiler", m.compiler,
          "device", m.device);
  }
};

struct ProtocolFields : MeasureProtocol {
  ProtocolFields(const MeasureProtocol& p = {}) : MeasureProtocol(p) {}  // NOLINT
  static void fields(auto& m, auto& field) {
    field("min_repeats", m.min_repeats, "max_repeats", m.max_repeats, "min_seconds", m.min_seconds,
          "max_seconds", m.max_seconds, "relative_ci", m.relative_ci, "cutoff", m.cutoff, "cold",
          m.cold, "timeout_seconds", m.timeout_seconds, "memory_limit_bytes", m.memory_limit_bytes,
          "check_output", m.check_output);
  }
};

/// The first message to a worker, with its purpose. Read it by hello_from.
struct Hello {
  static constexpr Verb kKind = Verb::Hello;
  int protocol = kWorkerProtocol;
  std::string version = heddle_version();
  WorkerKind kind = WorkerKind::Cpu;
  ProtocolFields measure = {};
  int64_t memory_limit_bytes = 0;  ///< limit above its memory at the start; 0: no limit
  /// For a node (node_server.h): the target that it measures for; an empty text for one that only
  /// compiles. No value for a worker of a tuner or of a node.
  std::optional<std::string> node = {};
  std::optional<FleetSettings> fleet = {};
  static void fields(auto& m, auto& field) {
    field("protocol", m.protocol, "version", m.version, "kind", m.kind, "measure", m.measure);
    field.maybe("memory_limit", m.memory_limit_bytes);
    field("node", m.node, "fleet", m.fleet);
  }
};
/// Throws a User error for an invalid hello, or for one of another version of Heddle.
Hello hello_from(const Json& json);

/// A task. A declaration is written as dag/declaration/declaration.h says, schedules as
/// Schedule::to_json does.
struct TaskMessage {
  static constexpr Verb kKind = Verb::Task;
  int64_t task = 0;  ///< its number in requests
  std::string name = {}, target = {};
  Json declaration = {};
  std::vector<Json> alternatives = {};
  Json static_choice = {};
  Json options = {};
  std::vector<std::optional<std::array<double, 2>>> ranges = {};
  int64_t network_bytes = 0;
  std::optional<double> from_memory = {};  ///< share of the network's weights
  bool only_compiles = false;              ///< the worker needs neither inputs nor reference
  /// Places in the memory that tuner and worker share, by argument; null for an output. A worker
  /// without shared memory draws the same inputs itself, and keeps its own reference.
  std::optional<std::vector<Json>> inputs = {};
  std::optional<Json> reference = {};
  std::optional<bool> own = {};  ///< the worker copies the inputs while it measures with them
  /// {argument: hexadecimal digits} of inputs that another machine would not draw in the same way.
  std::optional<Json> values = {};
  static void fields(auto& m, auto& field) {
    field("task", m.task, "name", m.name, "target", m.target, "declaration", m.declaration,
          "alternatives", m.alternatives, "default", m.static_choice, "options", m.options,
          "ranges", m.ranges);
    field.maybe("network_bytes", m.network_bytes);
    field("from_memory", m.from_memory);
    field.maybe("only_compiles", m.only_compiles);
    field("inputs", m.inputs, "reference", m.reference, "own", m.own, "values", m.values);
  }
};

struct Compile {
  static constexpr Verb kKind = Verb::Compile;
  int64_t task = 0;
  int candidate = 0;
  Json steps;
  std::optional<Json> code = {};  ///< it is loaded in place of compiling the steps
  bool no_spills = false;         ///< kernels that spill registers are Rejected
  bool for_elsewhere = false;     ///< the code is sent, and not kept
  static void fields(auto& m, auto& field) {
    field("task", m.task);
    field.maybe("candidate", m.candidate);
    field("steps", m.steps, "code", m.code);
    field.maybe("no_spills", m.no_spills, "for_elsewhere", m.for_elsewhere);
  }
};

struct CompileNaive {
  static constexpr Verb kKind = Verb::CompileNaive;
  int64_t task = 0;
  static void fields(auto& m, auto& field) { field("task", m.task); }
};

/// Computes the reference on the CPU.
struct MakeReference {
  static constexpr Verb kKind = Verb::Reference;
  int64_t task = 0;
  ReferenceBy by = ReferenceBy::Vector;
  static void fields(auto& m, auto& field) { field("task", m.task, "by", m.by); }
};

/// Computes the reference on the GPU.
struct RunReference {
  static constexpr Verb kKind = Verb::RunReference;
  int64_t task = 0;
  Json code;
  std::string turns = {};
  static void fields(auto& m, auto& field) {
    field("task", m.task, "code", m.code);
    field.maybe("turns", m.turns);
  }
};

/// Copies the arguments of a task to the GPU.
struct Open {
  static constexpr Verb kKind = Verb::Open;
  int64_t task = 0;
  std::string turns = {};
  static void fields(auto& m, auto& field) {
    field("task", m.task);
    field.maybe("turns", m.turns);
  }
};

/// Code that was compiled elsewhere, with the steps of its schedule.
struct CodeOf {
  Json steps, code;
  static void fields(auto& m, auto& field) { field("steps", m.steps, "code", m.code); }
};

/// Checks and times a candidate.
struct Run {
  static constexpr Verb kKind = Verb::Run;
  int64_t task = 0;
  int candidate = 0;
  std::optional<CodeOf> code = {};  ///< none: what this worker compiled
  std::optional<double> best = {};
  bool unchecked = false;
  std::vector<int> cpus = {};  ///< those that the runner is bound to; none: it is not bound
  /// GPUs: the file that is locked while the device is used. The wait for it does not count.
  std::string turns = {};
  static void fields(auto& m, auto& field) {
    field("task", m.task, "candidate", m.candidate, "code", m.code, "best", m.best);
    field.maybe("unchecked", m.unchecked, "cpus", m.cpus, "turns", m.turns);
  }
};

/// Prepares a candidate for a race: runs it once, and checks all its results.
struct Enter {
  static constexpr Verb kKind = Verb::Enter;
  int64_t task = 0;
  int candidate = 0;
  std::optional<CodeOf> code = {};
  std::string turns = {};  ///< locked until another request than those of a race
  static void fields(auto& m, auto& field) {
    field("task", m.task, "candidate", m.candidate, "code", m.code);
    field.maybe("turns", m.turns);
  }
};
/// Takes one sample of a candidate that has entered.
struct Turn {
  static constexpr Verb kKind = Verb::Turn;
  int candidate = 0;
  static void fields(auto& m, auto& field) { field("candidate", m.candidate); }
};

/// Ends the runner of a worker for CPUs, and a race on a GPU.
struct Rest {
  static constexpr Verb kKind = Verb::Rest;
  static void fields(auto&, auto&) {}
};
/// Drops all kernels.
struct Forget {
  static constexpr Verb kKind = Verb::Forget;
  static void fields(auto&, auto&) {}
};

}  // namespace heddle::measuring
