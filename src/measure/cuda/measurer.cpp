#include "measure/cuda/measurer.h"

#include <algorithm>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "measure/process/answers.h"
#include "measure/process/program.h"
#include "measure/process/protocol.h"
#include "measure/task/steps_hash.h"
#include "support/hash.h"

namespace heddle::measuring {
namespace {

// Seconds for the first use of CUDA in a process and for copying arguments to the device.
constexpr double kOpenTimeout = 60;
// The most candidates whose code is kept. The code of one has some ten thousand bytes.
constexpr size_t kMostKept = 256;

}  // namespace

/// The candidates of one call of measure().
struct CudaMeasurer::Batch {
  int task = 0;
  std::span<const Schedule> schedules;
  const TuneClock& clock;
  const Done& done;
  double best = 0;
  std::vector<uint64_t> keys = {};  ///< keys of the jobs of the candidates
  std::vector<bool> finished = {}, ready = {};
  std::vector<int> forgiven = {};  ///< number of deaths after which each candidate was run again
  std::deque<size_t> to_run = {};  ///< compiled candidates
  std::optional<size_t> running =
      {};                   ///< the candidate that runs; none while the runner opens the task
  Timer since = {};         ///< since the runner was asked
  std::string remark = {};  ///< put on every result: "not checked: ..."
  bool over() const { return std::find(finished.begin(), finished.end(), false) == finished.end(); }
};

CudaMeasurer::CudaMeasurer(const WorkerOptions& options)
    : options_(options),
      workers_(
          1 + (options.workers > 0 ? options.workers : std::max(1, default_num_threads() - 1)),
          {.command = worker_command(options.command),
           .shared_fd = tasks_.memory().fd(),
           .hello = to_json(WorkerHello{.kind = WorkerKind::Cuda, .measure = options.protocol})},
          [this](size_t task) { return tasks_.message(task, workers_.size()); }) {
  at_work_.resize(workers_.size());
}

std::string CudaMeasurer::protocol() const {
  MeasureProtocol p = options_.protocol;
  p.cold = p.cold.value_or(true);
  std::string text = to_string(p);
  return text.insert(text.find(' '), " graph");
}

std::vector<std::pair<std::string, double>> CudaMeasurer::time_spent() const {
  return {spent_.begin(), spent_.end()};
}

// ---- tasks and workers -------------------------------------------------------------------------

/// Makes the inputs of a new task. No worker may be busy.
int CudaMeasurer::add_task(const TuneTask& task) {
  const Lap lap(spent_, "inputs");
  return tasks_.add(task);
}

int CudaMeasurer::register_task(const TuneTask& task) {
  if (const std::optional<int> known = tasks_.find(task)) return *known;
  settle();
  return add_task(task);
}

/// Starts all workers and tells them every task.
void CudaMeasurer::ready_workers() {
  const Lap lap(spent_, "start");
  if (epoch_ != tasks_.count()) {
    stop_workers();
    workers_.start(workers_.size(), tasks_.count());
    epoch_ = tasks_.count();
    opened_ = -1;
  }
  for (size_t w = 0; w < workers_.size(); ++w) {
    if (workers_.alive(w)) continue;
    workers_.restart(w, epoch_);
    if (w == kRunner) opened_ = -1;
  }
}

/// Ends the workers that are busy. What they compiled waits for the next ones.
void CudaMeasurer::stop_workers() {
  for (size_t w = 0; w < workers_.size(); ++w) {
    if (workers_.busy(w)) workers_.kill(w);
    if (const uint64_t key = std::exchange(at_work_[w], 0); key != 0) queue_.push_front(key);
  }
  if (!workers_.alive(kRunner)) opened_ = -1;
}

/// Ends the workers that are busy. Nothing is left to be compiled.
void CudaMeasurer::settle() {
  stop_workers();
  jobs_.clear();
  queue_.clear();
}

void CudaMeasurer::lose_runner() {
  workers_.kill(kRunner);
  opened_ = -1;
}

// ---- compilers ---------------------------------------------------------------------------------

uint64_t CudaMeasurer::add_job(int task, size_t index, const Schedule& schedule, bool no_spills) {
  uint64_t key = hash_combine(tasks_.key(task), steps_hash(schedule));
  key += key == 0;
  const auto [at, is_new] = jobs_.try_emplace(key);
  Job& job = at->second;
  job.index = index;
  if (!is_new) return key;
  job.task = task;
  job.steps = schedule.to_json();
  job.no_spills = no_spills;
  if (const auto kept = kept_.find(key); kept != kept_.end()) {
    job.compiled = true;
    job.answer = kept->second;
    return key;
  }
  if (const Json* code = given_code(index)) {
    job.compiled = true;
    job.answer = Json::object({{"seconds", 0.0}, {"code", *code}});
    return key;
  }
  queue_.push_back(key);
  return key;
}

/// Sends a request of which the runner does a part on the GPU.
void CudaMeasurer::ask_runner(Json request, double allowed) {
  if (!options_.turns.empty()) request["turns"] = Json(options_.turns);
  workers_.ask(kRunner, request, allowed);
}

void CudaMeasurer::feed_compilers() {
  for (size_t w = 1; w < workers_.size() && !queue_.empty(); ++w) {
    if (workers_.busy(w)) continue;
    if (!workers_.alive(w)) workers_.restart(w, epoch_);
    const uint64_t key = queue_.front();
    queue_.pop_front();
    const auto waiting = jobs_.find(key);
    if (waiting == jobs_.end()) continue;
    const Job& job = waiting->second;
    at_work_[w] = key;
    workers_.ask(w,
                 Json::object({{"do", "compile"},
                               {"task", job.task},
                               {"candidate", job.index},
                               {"steps", job.steps},
                               {"no_spills", job.no_spills}}),
                 options_.protocol.timeout_seconds);
  }
}

void CudaMeasurer::compiler_said(const WorkerEvent& event) {
  const uint64_t key = std::exchange(at_work_[event.worker], 0);
  const auto at = jobs_.find(key);
  if (at == jobs_.end()) return;
  Job& job = at->second;
  if (!event.answer && event.death.phase == WorkerPhase::Idle && job.deaths++ == 0) {
    workers_.forgive(event.death);
    queue_.push_front(key);
    return;
  }
  job.compiled = true;
  job.answer = event.answer ? *event.answer
                            : Json::object({{"error", static_cast<int64_t>(event.death.error)},
                                            {"message", event.death.message}});
  spent_["compile (all cores)"] += job.answer.get_double("seconds", 0);
  spent_["nvrtc (all cores)"] += job.answer.get_double("nvrtc", 0);
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
  const int id = known ? *known : add_task(task);
  // The first candidate of a new task is measured even if it spills registers.
  for (size_t i = 0; i < schedules.size(); ++i) add_job(id, i, schedules[i], known.has_value());
  return true;
}

// ---- a batch -----------------------------------------------------------------------------------

void CudaMeasurer::finish(Batch& batch, size_t index, MeasureResult result) {
  if (const auto job = jobs_.find(batch.keys[index]); job != jobs_.end()) {
    result.compile_seconds = job->second.answer.get_double("seconds", 0);
    if (result.ok()) {
      if (kept_.size() >= kMostKept) kept_.clear();
      kept_[batch.keys[index]] = job->second.answer;
    }
  }
  batch.finished[index] = true;
  batch.done(index, result);
}

// Takes what the compilers finished since the last call.
void CudaMeasurer::take_compiled(Batch& batch) {
  for (size_t i = 0; i < batch.keys.size(); ++i) {
    if (batch.finished[i] || batch.ready[i]) continue;
    const Job& job = jobs_.at(batch.keys[i]);
    if (!job.compiled) continue;
    if (job.answer.contains("error")) {
      finish(batch, i, failed(job.answer));
    } else {
      batch.ready[i] = true;
      batch.to_run.push_back(i);
    }
  }
}

void CudaMeasurer::feed_runner(Batch& batch) {
  if (workers_.busy(kRunner)) return;
  if (batch.to_run.empty() && opened_ == batch.task) return;
  if (!workers_.alive(kRunner)) {
    workers_.restart(kRunner, epoch_);
    opened_ = -1;
  }
  batch.running.reset();
  batch.since = Timer();
  if (opened_ != batch.task) {  // the task is opened while the first candidates compile
    return ask_runner(Json::object({{"do", "open"}, {"task", batch.task}}), kOpenTimeout);
  }
  batch.running = batch.to_run.front();
  batch.to_run.pop_front();
  const Job& job = jobs_.at(batch.keys[*batch.running]);
  Json request = Json::object({{"do", "run"},
                               {"task", batch.task},
                               {"candidate", *batch.running},
                               {"steps", job.steps},
                               {"code", job.answer.at("code")}});
  if (!checks()) request["check"] = Json(false);
  if (batch.best < std::numeric_limits<double>::infinity()) request["best"] = Json(batch.best);
  ask_runner(std::move(request), options_.protocol.timeout_seconds);
}

void CudaMeasurer::runner_said(Batch& batch, const WorkerEvent& event) {
  const double seconds = batch.since.elapsed_s();
  if (!event.answer || event.answer->contains("lost")) lose_runner();
  if (!batch.running) {
    spent_["open"] += seconds;
    if (!event.answer) return workers_.forgive(event.death);
    if (event.answer->contains("error")) {
      throw_runtime_error("nothing can be measured: " + event.answer->at("message").as_string());
    }
    opened_ = batch.task;
    return;
  }
  const size_t index = *batch.running;
  batch.running.reset();
  // A death that no candidate caused for certain is forgiven once. If the runner dies with this
  // candidate again, the candidate is blamed.
  if (!event.answer && event.death.candidate != static_cast<int>(index) &&
      batch.forgiven[index]++ == 0) {
    workers_.forgive(event.death);
    batch.to_run.push_front(index);
    return;
  }
  MeasureResult result;
  if (!event.answer) {
    result = failed(event.death.error, event.death.message);
  } else if (event.answer->contains("error")) {
    result = failed(*event.answer);
  } else {
    result = timed(*event.answer, batch.remark);
    if (!result.cut_off) batch.best = std::min(batch.best, result.median());
  }
  // A failed candidate took time too, and the scheduler must know that.
  if (!result.ok()) result.run_seconds = seconds;
  spent_["run"] += result.run_seconds;
  spent_["check"] += result.check_seconds;
  finish(batch, index, std::move(result));
}

void CudaMeasurer::queue_jobs(Batch& batch, bool refuse_spills) {
  std::deque<uint64_t> later = std::move(queue_);  // prefetched jobs come after these
  queue_.clear();
  for (size_t i = 0; i < batch.schedules.size(); ++i) {
    batch.keys[i] = add_job(batch.task, i, batch.schedules[i], refuse_spills);
    std::erase(later, batch.keys[i]);
    const bool waiting =
        !jobs_.at(batch.keys[i]).compiled &&
        std::find(at_work_.begin(), at_work_.end(), batch.keys[i]) == at_work_.end();
    if (waiting && std::find(queue_.begin(), queue_.end(), batch.keys[i]) == queue_.end())
      queue_.push_back(batch.keys[i]);
  }
  queue_.insert(queue_.end(), later.begin(), later.end());
}

void CudaMeasurer::measure(const TuneTask& task, std::span<const Schedule> schedules,
                           double best_seconds, const TuneClock& clock, const Done& done) {
  const bool nothing_known =
      !(best_seconds > 0 && best_seconds < std::numeric_limits<double>::infinity());
  Batch batch{.task = -1,
              .schedules = schedules,
              .clock = clock,
              .done = done,
              .best = nothing_known ? std::numeric_limits<double>::infinity() : best_seconds};
  batch.keys.resize(schedules.size());
  batch.finished.resize(schedules.size());
  batch.ready.resize(schedules.size());
  batch.forgiven.resize(schedules.size());
  if (!clock.expired() && !schedules.empty()) {
    batch.task = register_task(task);
    if (std::exchange(kept_task_, batch.task) != batch.task) kept_.clear();
    bool in_time = make_reference(batch.task, clock);
    const MeasuredTask& of = tasks_[batch.task];
    if (options_.protocol.check_output && !of.reference->ready()) {
      batch.remark = kNotChecked;
    }
    ready_workers();
    // As long as no candidate works, candidates that spill registers are measured too.
    queue_jobs(batch, !nothing_known);
    while (in_time) {
      take_compiled(batch);
      if (batch.over()) break;
      feed_compilers();
      feed_runner(batch);
      const Timer waited;
      const bool idle = !workers_.busy(kRunner);
      const std::optional<WorkerEvent> event = workers_.next_event(clock);
      if (idle) spent_["gpu idle"] += waited.elapsed_s();
      in_time = event.has_value();
      if (!event) break;
      event->worker == kRunner ? runner_said(batch, *event) : compiler_said(*event);
    }
  }
  if (!batch.over()) {
    settle();
    for (size_t i = 0; i < schedules.size(); ++i) {
      if (batch.finished[i]) continue;
      finish(batch, i, out_of_time());
    }
  } else if (workers_.busy(kRunner)) {
    lose_runner();  // the runner was opening a task of which no candidate compiled
  }
  // Two candidates of a batch may be the same schedule and share a job.
  for (const uint64_t key : batch.keys) jobs_.erase(key);
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
