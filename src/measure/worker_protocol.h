// What a tuner and its workers say to each other, beyond the requests that the servers describe
// (worker_main.h, cuda_server.h, node_server.h).
//
//   {do: hello, protocol, version, kind, memory_limit, measure, node?}  ->  {started}
//   {do: task, task, name, declaration, alternatives, target, options, default, ranges,
//    network_bytes, inputs, own, reference}                         ->  {started}
//   {do: drop, task}                                                    no answer
//
// What is refused is {started, message}.
//
// A declaration is written as heddle/dag/declaration.h says, schedules as Schedule::to_json does.
// Inputs and reference are places in the memory that tuner and worker share; a worker that shares
// none draws the inputs itself, the same ones, and keeps its own reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heddle/measure/measure.h"
#include "heddle/support/json.h"

namespace heddle::measuring {

enum class WorkerKind : uint8_t { Cpu, Cuda };

/// The first message to a worker: what it is for.
struct WorkerHello {
  WorkerKind kind = WorkerKind::Cpu;
  MeasureProtocol measure = {};
  int64_t memory_limit_bytes = 0;  ///< above what it starts with; 0: no limit
  /// Of a node (node_server.h): the target that it is to measure for; empty: it only compiles. None
  /// where this is a worker that somebody else watches.
  std::optional<std::string> node = {};
};
Json to_json(const WorkerHello& hello);
/// Throws a User error for what is no hello, or one of another version of Heddle.
WorkerHello hello_from_json(const Json& json);

/// What a worker answers a hello with.
Json hello_answer();

}  // namespace heddle::measuring
