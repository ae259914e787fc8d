// A node of a fleet. It serves requests about candidates with workers of its own, as the tuner does
// on one machine. The tuner needs to watch the node only, and not the candidates.
#pragma once

#include "measure/process/channel.h"
#include "measure/process/protocol.h"

namespace heddle::measuring {

/// Serves requests until the channel ends. The hello is answered with {started, machine, build,
/// problem?}; `problem` says why it cannot measure for the target. Tasks are told as to all
/// workers, without places (task_message_for_elsewhere). Then:
///
///   {do: compile, task, steps, no_spills}  ->  {seconds, code} or {error, message}
///   {do: measure, task, seconds, best?, base_code?, candidates: [{trial, steps, code?}]}
///                                          ->  {trial, and a result} for each that was reached,
///                                              {done, failed?, problem?, took, static_choice,
///                                              old_base}
///   {do: race, task, seconds, candidates: [{trial, steps, code?}]}
///                                          ->  {trial, and a result} for each, {done, failed?}
///
/// Results are those of worker_answers.h, `base` the time of the static choice on this machine.
/// `took` and `static_choice` are the seconds of the request, and of timing the static choice in
/// it. `old_base` says that the static choice was timed in an earlier round. `seconds` limits the
/// time of a request. `failed` says why nothing more can be measured here. All answers to a request
/// have its "id". An invalid request throws an Error.
void serve_node(Channel& channel, const WorkerHello& hello);

}  // namespace heddle::measuring
