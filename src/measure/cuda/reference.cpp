// The reference result of a task for a GPU. The CPU computes it where that is quick, otherwise a
// naive kernel on the GPU.
#include "measure/cuda/measurer.h"
#include "support/log.h"

namespace heddle::measuring {
namespace {

// The largest number of operations of a reference that the CPU computes. Larger ones are computed
// by naive kernels on the GPU.
constexpr double kReferenceFlops = 2e10;
constexpr double kReferenceTimeout = 60;

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
std::optional<WorkerEvent> CudaMeasurer::ask_beside(size_t worker, const Json& request,
                                                    double allowed, const TuneClock& clock) {
  ready_workers();
  while (workers_.busy(worker)) {
    const std::optional<WorkerEvent> event = workers_.next_event(clock);
    if (!event) return event;
    compiler_said(*event);
  }
  if (!workers_.alive(worker)) workers_.restart(worker, epoch_);
  worker == kRunner ? ask_runner(request, allowed) : workers_.ask(worker, request, allowed);
  for (;;) {
    feed_compilers();
    std::optional<WorkerEvent> event = workers_.next_event(clock);
    if (!event) return event;
    if (event->worker != worker) {
      compiler_said(*event);
      continue;
    }
    if (worker == kRunner && event->answer && event->answer->contains("lost")) lose_runner();
    if (!event->answer) {
      event->answer = Json::object(
          {{"error", static_cast<int64_t>(event->death.error)}, {"message", event->death.message}});
    }
    return event;
  }
}

bool CudaMeasurer::reference_on_gpu(int task, const TuneClock& clock) {
  Json request = Json::object({{"do", "compile_naive"}, {"task", task}});
  std::optional<WorkerEvent> event = ask_beside(any_compiler(), request, kReferenceTimeout, clock);
  if (!event) return false;
  if (const Json* code = event->answer->find("code")) {
    request = Json::object({{"do", "run_reference"}, {"task", task}, {"code", *code}});
    event = ask_beside(kRunner, request, kReferenceTimeout, clock);
    if (!event) return false;
  }
  if (event->answer->contains("error")) {
    HEDDLE_LOG_AT("search", 1,
                  "no reference from the GPU: " + event->answer->at("message").as_string());
  }
  return true;
}

/// Makes the reference if it does not exist yet. Returns false when the clock expired. A task
/// without a reference is measured unchecked, and its results say so.
bool CudaMeasurer::make_reference(int task, const TuneClock& clock) {
  MeasuredTask& of = tasks_[task];
  if (!options_.protocol.check_output || of.reference->ready() || of.no_reference) return true;
  const Lap lap(spent_, "reference");
  const bool small = of.task.flops() <= kReferenceFlops;
  if (!small && !reference_on_gpu(task, clock)) return false;
  if (!of.reference->ready()) {
    const Json request = Json::object({{"do", "reference"}, {"task", task}});
    const size_t worker = any_compiler();
    const std::optional<WorkerEvent> event = ask_beside(worker, request, kReferenceTimeout, clock);
    if (!event) return false;
    if (event->answer->contains("problem")) {
      problems_.push_back(event->answer->at("problem").as_string());
    }
    if (event->answer->contains("error")) {
      HEDDLE_LOG_AT("search", 1,
                    "no reference from the CPU: " + event->answer->at("message").as_string());
    }
    // The process has threads of the pool now, but this worker must only compile, so it is ended.
    workers_.kill(worker);
  }
  if (!of.reference->ready() && small && !reference_on_gpu(task, clock)) return false;
  of.no_reference =
      !of.reference->ready();  // not tried again, because it would fail in every round
  return true;
}

}  // namespace heddle::measuring
