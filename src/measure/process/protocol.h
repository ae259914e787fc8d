// The messages between a tuner and its workers, beyond the requests that the servers describe
// (worker_main.h, cuda_server.h, node_server.h).
//
//   {do: hello, protocol, version, kind, memory_limit, measure, node?}  ->  {started}
//   {do: task, task, name, declaration, alternatives, target, options, default, ranges,
//    network_bytes, from_memory, inputs, own, reference}            ->  {started}
//   {do: drop, task}                                                    no answer
//
// A refusal is answered by {started, message}.
//
// A declaration is written as dag/declaration/declaration.h says, schedules as Schedule::to_json does.
// Inputs and reference are places in the memory that tuner and worker share. A worker without
// shared memory draws the same inputs itself, and keeps its own reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heddle/measure/measure.h"
#include "heddle/support/json.h"

namespace heddle::measuring {

enum class WorkerKind : uint8_t { Cpu, Cuda };

/// The first message to a worker, with its purpose.
struct WorkerHello {
  WorkerKind kind = WorkerKind::Cpu;
  MeasureProtocol measure = {};
  int64_t memory_limit_bytes = 0;  ///< limit above its memory at the start; 0: no limit
  /// For a node (node_server.h): the target that it measures for; an empty text for one that only
  /// compiles. No value for a worker of a tuner or of a node.
  std::optional<std::string> node = {};
};
Json to_json(const WorkerHello& hello);
/// Throws a User error for an invalid hello, or for one of another version of Heddle.
WorkerHello hello_from_json(const Json& json);

/// The answer of a worker to a hello.
Json hello_answer();

}  // namespace heddle::measuring
