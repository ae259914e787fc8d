// The reference result of a task for a GPU. The CPU computes it where that is quick, otherwise a
// naive kernel on the GPU.
#include "measure/cuda/measurer.h"

namespace heddle::measuring {
namespace {

// The largest number of operations of a reference that the CPU computes. Larger ones are computed
// by naive kernels on the GPU.
constexpr double kReferenceFlops = 2e10;

}  // namespace

/// A worker that compiles, an idle one if there is one.
size_t CudaMeasurer::any_compiler() const {
  for (size_t w = 1; w < workers_.size(); ++w) {
    if (!workers_.busy(w)) return w;
  }
  return 1;
}

/// Sends a request to a worker once it is idle, and waits for the answer. The other workers go on
/// compiling. Returns nothing when the clock expired.
template <class Request>
std::optional<WorkerEvent> CudaMeasurer::ask_beside(size_t worker, const Request& request,
                                                    const TuneClock& clock) {
  ready_workers();
  while (workers_.busy(worker)) {
    const std::optional<WorkerEvent> event = workers_.next_event(clock);
    if (!event) return event;
    compiling_.hear(*event);
  }
  if (!workers_.alive(worker)) workers_.restart(worker, epoch_);
  workers_.ask(worker, request, kReferenceTimeout);
  for (;;) {
    compiling_.feed(compilers(), epoch_);
    std::optional<WorkerEvent> event = workers_.next_event(clock);
    if (!event) return event;
    if (event->worker != worker) {
      compiling_.hear(*event);
      continue;
    }
    if (event->answer && event->answer->envelope.device_lost) workers_.kill(worker);
    return event;
  }
}

bool CudaMeasurer::reference_on_gpu(int task, const TuneClock& clock) {
  std::optional<WorkerEvent> event = ask_beside(any_compiler(), CompileNaive{task}, clock);
  if (!event || !hear_of_reference(task, *event)) return event.has_value();
  const RunReference request{task, *event->answer->as<Compiled>().code, options_.turns};
  event = ask_beside(kRunner, request, clock);
  if (event) hear_of_reference(task, *event);
  return event.has_value();
}

bool CudaMeasurer::compute_reference(int task, const TuneClock& clock) {
  const MeasuredTask& of = tasks_[task];
  const bool small = of.task.flops() <= kReferenceFlops;
  if (!small && !reference_on_gpu(task, clock)) return false;
  if (!of.reference->ready()) {
    const size_t worker = any_compiler();
    const std::optional<WorkerEvent> event = ask_beside(worker, MakeReference{task}, clock);
    if (!event) return false;
    hear_of_reference(task, *event);
    // The process has threads of the pool now, but this worker must only compile, so it is ended.
    workers_.kill(worker);
  }
  return of.reference->ready() || !small || reference_on_gpu(task, clock);
}

}  // namespace heddle::measuring
