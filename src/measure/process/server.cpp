#include "measure/process/server.h"

#include <optional>

#include "heddle/runtime/workspace.h"
#include "heddle/support/error.h"
#include "measure/process/output_bound.h"
#include "support/out_of_memory.h"

namespace heddle::measuring {

TaskArrays make_arrays(const MeasuredTask& of) {
  TaskArrays out;
  out.args = of.inputs;
  for (size_t i = 0; i < out.args.size(); ++i) {
    const Tensor& t = of.task.args[i];
    if (is_output(t)) out.args[i] = NDArray::empty(t.extents(), t.dtype());
  }
  for (const Tensor& t : of.task.tmpl.dag().outputs()) {
    for (size_t i = 0; i < out.args.size(); ++i) {
      if (of.task.args[i].same_as(t)) out.outputs.push_back(out.args[i]);
    }
  }
  return out;
}

Failed WorkerServer::failure_of(const std::exception& e) const {
  const auto* error = dynamic_cast<const Error*>(&e);
  const std::string text = error ? error->message : e.what();
  if (dynamic_cast<const internal::OutOfMemory*>(&e) != nullptr) {
    release_workspaces();
    return {MeasureError::OutOfMemory, text};
  }
  const bool compiles = status_.phase.load() == WorkerPhase::Compile;
  return {compiles ? MeasureError::Compile : MeasureError::Crash, text};
}

void WorkerServer::forget_noise() {
  if (::ftruncate(1, 0) == 0) ::lseek(1, 0, SEEK_SET);
}

void WorkerServer::fault(const char* phase, int candidate, std::span<const NDArray> args) {
  if (hooks_.fault) hooks_.fault(phase, static_cast<size_t>(candidate), args);
}

Said WorkerServer::with_schedule(const Compile& request,
                                 const std::function<Said(const ReplayedSchedule&)>& use) {
  const int candidate = request.candidate;
  status_.set(WorkerPhase::Compile, candidate);
  if (candidate >= 0)
    fault("compile", candidate);  // faults are not injected into the static choice
  std::optional<ReplayedSchedule> replayed;
  try {
    replayed = replay_schedule(tasks_.at(request.task), request.steps);
  } catch (const Error& e) {
    return Failed{MeasureError::Invalid, e.what()};
  }
  return use(*replayed);
}

Done WorkerServer::store_reference(const MeasuredTask& of, const TaskArrays& arrays,
                                   const Kernel& kernel) {
  kernel.call(arrays.args);
  const OutputBounds bounds = bound_outputs(of.task, arrays.args, arrays.outputs);
  of.reference->store(arrays.outputs, bounds.allowed);
  Done out;
  if (!bounds.problem.empty()) out.problem = bounds.problem;
  return out;
}

std::string WorkerServer::difference(const MeasuredTask& of, const std::vector<NDArray>& outputs,
                                     bool all, int candidate) const {
  if (!protocol_.check_output || !of.reference->ready()) return "";
  return of.reference->difference(outputs, all, static_cast<uint64_t>(candidate));
}

}  // namespace heddle::measuring
