#include "measure/cuda/measurer.h"

#include <algorithm>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "measure/task/steps_hash.h"
#include "support/hashing/hash.h"

namespace heddle::measuring {
namespace {

// Seconds for the first use of CUDA in a process and for copying arguments to the device.
constexpr double kOpenTimeout = 60;

}  // namespace

/// The compilations of a batch, and what the runner does.
struct CudaMeasurer::Jobs {
  Batch& batch;
  std::vector<uint64_t> keys = {};  ///< of compilations
  std::vector<bool> ready = std::vector<bool>(batch.schedules.size());
  std::deque<size_t> to_run = {};  ///< compiled candidates
  /// The candidate that runs; none while the runner opens the task.
  std::optional<size_t> running = {};
  Timer since = {};  ///< since the runner was asked
};

CudaMeasurer::CudaMeasurer(const WorkerOptions& options)
    : LocalMeasurer(
          options, {.kind = WorkerKind::Cuda, .measure = options.protocol},
          1 + (options.workers > 0 ? options.workers : std::max(1, default_num_threads() - 1)),
          Runs::InTheRunner) {}

std::string CudaMeasurer::protocol() const {
  MeasureProtocol p = options_.protocol;
  p.cold = p.cold.value_or(true);
  std::string text = to_string(p);
  return text.insert(text.find(' '), " graph");
}

std::vector<std::pair<std::string, double>> CudaMeasurer::time_spent() const {
  std::vector<std::pair<std::string, double>> out = LocalMeasurer::time_spent();
  out.emplace_back("compile (all cores)", compiling_.seconds());
  out.emplace_back("nvrtc (all cores)", compiling_.nvrtc());
  return out;
}

// ---- tasks and workers -------------------------------------------------------------------------

int CudaMeasurer::register_task(const TuneTask& task) {
  if (!tasks_.find(task)) settle();  // workers learn of tasks when they start
  return LocalMeasurer::register_task(task);
}

/// Starts all workers and tells them every task.
void CudaMeasurer::ready_workers() {
  const Lap lap(spent_, "start");
  if (epoch_ != tasks_.count()) {
    compiling_.stop();
    workers_.start(workers_.size(), tasks_.count());
    epoch_ = tasks_.count();
    opened_ = -1;
  }
  for (size_t w = 0; w < workers_.size(); ++w) {
    if (workers_.alive(w)) continue;
    if (w == kRunner) opened_ = -1;
    workers_.restart(w, epoch_);
  }
}

uint64_t CudaMeasurer::job_key(int task, size_t, const Schedule& schedule) const {
  const uint64_t key = hash_combine(tasks_.key(task), steps_hash(schedule));
  return key + (key == 0);
}

bool CudaMeasurer::prefetch(const TuneTask& task, std::span<const Schedule> schedules) {
  if (schedules.empty()) return true;
  const std::optional<int> known = tasks_.find(task);
  if (!known) {
    // Workers learn of tasks when they start. They are not stopped for one that comes later.
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (workers_.busy(w)) return true;
    }
  }
  const int id = known ? *known : LocalMeasurer::register_task(task);
  // The first candidate of a new task is measured even if it spills registers.
  for (size_t i = 0; i < schedules.size(); ++i) add_job(id, i, schedules[i], known.has_value());
  return true;
}

// ---- a batch -----------------------------------------------------------------------------------

void CudaMeasurer::report(Jobs& jobs, size_t index, MeasureResult result) {
  result.compile_seconds = compiling_.at(jobs.keys[index]).seconds();
  if (result.ok()) compiling_.keep(jobs.keys[index]);
  finish(jobs.batch, index, result);
}

// Takes what the compilers finished since the last call.
void CudaMeasurer::take_compiled(Jobs& jobs) {
  for (size_t i = 0; i < jobs.keys.size(); ++i) {
    if (jobs.batch.finished[i] || jobs.ready[i]) continue;
    const CompileQueue::Job& job = compiling_.at(jobs.keys[i]);
    if (!job.answer) continue;
    if (job.failed()) {
      report(jobs, i, failed(*job.failed()));
    } else {
      jobs.ready[i] = true;
      jobs.to_run.push_back(i);
    }
  }
}

void CudaMeasurer::feed_runner(Jobs& jobs) {
  const int task = jobs.batch.task;
  if (workers_.busy(kRunner)) return;
  if (!workers_.alive(kRunner)) opened_ = -1;
  if (jobs.to_run.empty() && opened_ == task) return;
  if (!workers_.alive(kRunner)) workers_.restart(kRunner, epoch_);
  jobs.running.reset();
  jobs.since = Timer();
  if (opened_ != task)  // the task is opened while the first candidates compile
    return workers_.ask(kRunner, Open{task, options_.turns}, kOpenTimeout);
  jobs.running = jobs.to_run.front();
  jobs.to_run.pop_front();
  workers_.ask(kRunner,
               Run{.task = task,
                   .candidate = static_cast<int>(*jobs.running),
                   .code = compiling_.at(jobs.keys[*jobs.running]).code(),
                   .best = jobs.batch.known_best(),
                   .unchecked = !checks(),
                   .turns = options_.turns},
               options_.protocol.timeout_seconds);
}

void CudaMeasurer::runner_said(Jobs& jobs, const WorkerEvent& event) {
  const double seconds = jobs.since.elapsed_s();
  if (!jobs.running) {
    spent_["open"] += seconds;
    if (!event.answer) return workers_.forgive(event.death);
    if (const Failed* why = event.answer->failed())
      throw_runtime_error("nothing can be measured: " + why->message);
    opened_ = jobs.batch.task;
    return;
  }
  const size_t index = *jobs.running;
  jobs.running.reset();
  const std::optional<MeasureResult> result = result_of(jobs.batch, index, event, seconds);
  result ? report(jobs, index, *result) : jobs.to_run.push_front(index);
}

void CudaMeasurer::run(Batch& batch) {
  if (std::exchange(kept_task_, batch.task) != batch.task) compiling_.forget_kept();
  Jobs jobs{batch};
  ready_workers();
  // As long as no candidate works, candidates that spill registers are measured too.
  const bool no_spills = batch.known_best().has_value();
  for (size_t i = 0; i < batch.schedules.size(); ++i)
    jobs.keys.push_back(add_job(batch.task, i, batch.schedules[i], no_spills));
  compiling_.put_first(jobs.keys);  // prefetched jobs come after these
  for (;;) {
    take_compiled(jobs);
    if (batch.over()) break;
    compiling_.feed(compilers(), epoch_);
    feed_runner(jobs);
    const Timer waited;
    const bool idle = !workers_.busy(kRunner);
    const std::optional<WorkerEvent> event = workers_.next_event(batch.clock);
    if (idle) spent_["gpu idle"] += waited.elapsed_s();
    if (!event) return;
    event->worker == kRunner ? runner_said(jobs, *event) : compiling_.hear(*event);
  }
  // The runner may be opening a task of which no candidate compiled.
  if (workers_.busy(kRunner)) workers_.kill(kRunner);
  // Two candidates of a batch may be the same schedule and share a job.
  for (const uint64_t key : jobs.keys) compiling_.erase(key);
}

}  // namespace heddle::measuring

namespace heddle {

std::unique_ptr<Measurer> measuring::make_cuda_measurer_unchecked(const WorkerOptions& options) {
  return std::make_unique<CudaMeasurer>(options);
}

std::unique_ptr<Measurer> make_cuda_measurer(const WorkerOptions& options) {
  if (!cuda::available()) {
    throw_runtime_error("measuring kernels for CUDA needs a GPU: " + cuda::unavailable_reason());
  }
  return measuring::make_cuda_measurer_unchecked(options);
}

}  // namespace heddle
