#include "measure/cpu/batch.h"

#include <algorithm>
#include <cstdio>

#include "heddle/support/error.h"
#include "measure/cpu/server.h"
#include "measure/process/answers.h"
#include "measure/process/program.h"
#include "measure/process/protocol.h"
#include "support/log.h"

namespace heddle::measuring {
namespace {

// Seconds that a group compiles. Switching between compiling and running is then rare, and little
// is lost when the clock expires in between.
constexpr double kGroupSeconds = 0.3;
constexpr size_t kLargestGroup = 64;
// The speed of a naive kernel that reads memory with large strides.
constexpr double kNaiveFlopsPerSecond = 0.5e9;
constexpr double kNaiveSeconds = 0.1;
constexpr double kReferenceTimeout = 60;

}  // namespace

// ---- tasks and workers -------------------------------------------------------------------------

int WorkerMeasurer::register_task(const TuneTask& task) {
  if (const std::optional<int> known = tasks_.find(task)) return *known;
  const Lap lap(spent_, "inputs");
  return tasks_.add(task);
}

WorkerProcess::Start WorkerMeasurer::start_options() const {
  const int64_t limit = options_.protocol.memory_limit_bytes;
  // In a container the file cache counts as used memory. The least limit keeps measuring possible
  // there.
  constexpr int64_t kLeastMemory = int64_t{512} << 20;
  const int64_t free = free_memory_bytes();
  const WorkerHello hello{.measure = options_.protocol,
                          .memory_limit_bytes = limit > 0  ? limit
                                                : free > 0 ? std::max(free / 2, kLeastMemory)
                                                           : 0};
  return {.command = worker_command(options_.command),
          .shared_fd = tasks_.memory().fd(),
          .hello = to_json(hello)};
}

/// Starts the first `count` workers and tells them every task.
void WorkerMeasurer::start_workers(size_t count) {
  const Lap lap(spent_, "start");
  workers_.start(count, tasks_.count());
}

// ---- the reference -----------------------------------------------------------------------------

/// Makes the reference if it does not exist yet. Returns false when the clock expired. A task
/// without a reference is measured unchecked, and its results say so.
bool WorkerMeasurer::make_reference(int task, const TuneClock& clock) {
  MeasuredTask& of = tasks_[task];
  if (!options_.protocol.check_output || of.reference->ready() || of.no_reference) return true;
  const Lap lap(spent_, "reference");
  const double threads = std::max(1, of.task.tmpl.target().cores);
  const bool slow = of.task.flops() / (kNaiveFlopsPerSecond * threads) > kNaiveSeconds;
  std::vector<ReferenceBy> ways{ReferenceBy::Vector, ReferenceBy::Default};
  if (!slow) ways.insert(ways.begin(), ReferenceBy::Naive);
  for (const ReferenceBy by : ways) {
    start_workers(1);
    Json request = Json::object();
    request["do"] = Json("reference");
    request["task"] = Json(task);
    request["by"] = Json(static_cast<int>(by));
    workers_.ask(0, request, kReferenceTimeout);
    const std::optional<WorkerEvent> event = workers_.next_event(clock);
    if (!event) return false;
    workers_.rest(0);
    if (event->answer && event->answer->contains("problem")) {
      problems_.push_back(event->answer->at("problem").as_string());
    }
    if (event->answer && !event->answer->contains("error")) break;
    HEDDLE_LOG_AT(
        "search", 1,
        "no reference for '" + of.task.name + "': " +
            (event->answer ? event->answer->at("message").as_string() : event->death.message));
  }
  of.no_reference =
      !of.reference->ready();  // not tried again, because it would fail in every round
  return true;
}

// ---- a batch -----------------------------------------------------------------------------------

Json WorkerMeasurer::compile_request(int task, size_t candidate, const Schedule& schedule) const {
  Json request = Json::object();
  request["do"] = Json("compile");
  request["task"] = Json(task);
  request["slot"] = Json(candidate);
  request["candidate"] = Json(candidate);
  request["steps"] = schedule.to_json();
  if (const Json* code = given_code(candidate)) request["code"] = *code;
  return request;
}

void WorkerMeasurer::finish(Batch& batch, size_t candidate, const MeasureResult& result) {
  batch.finished[candidate] = true;
  const Lap lap(spent_, "report");
  batch.done(candidate, result);
}

size_t WorkerMeasurer::group_size(const Batch& batch) const {
  const auto workers = static_cast<double>(workers_.size());
  double count = kGroupSeconds * workers / mean_compile_;
  // Groups are smaller near the end, because compiled candidates must be measured too.
  const auto lanes = static_cast<double>(lanes_.at(batch.task).count());
  const double each = mean_compile_ / workers + mean_run_ / lanes;
  count = std::min(count, 0.5 * batch.clock.left_s() / each);
  count = std::max(count, workers);
  return std::min({batch.todo.size(), kLargestGroup, static_cast<size_t>(count)});
}

/// Returns false when the clock expired.
bool WorkerMeasurer::compile_group(Batch& batch, const std::vector<size_t>& group) {
  std::deque<size_t> queue(group.begin(), group.end());
  std::vector<size_t> at_work(workers_.size());
  for (std::vector<size_t>& list : batch.compiled) list.clear();
  size_t busy = 0;
  const size_t count = std::min(workers_.size(), group.size());
  start_workers(count);
  const Lap lap(spent_, "compile");
  while (!queue.empty() || busy > 0) {
    for (size_t w = 0; w < count && !queue.empty(); ++w) {
      if (workers_.busy(w)) continue;
      if (!workers_.alive(w)) workers_.restart(w, tasks_.count());
      at_work[w] = queue.front();
      queue.pop_front();
      workers_.ask(w, compile_request(batch.task, at_work[w], batch.schedules[at_work[w]]),
                   options_.protocol.timeout_seconds);
      ++busy;
    }
    const std::optional<WorkerEvent> event = workers_.next_event(batch.clock);
    if (!event) return false;
    --busy;
    const size_t candidate = at_work[event->worker];
    std::vector<size_t>& list = batch.compiled[event->worker];
    if (!event->answer) {
      // Other candidates that the worker had compiled are compiled again, by any worker.
      queue.insert(queue.end(), list.begin(), list.end());
      list.clear();
      if (event->death.candidate == static_cast<int>(candidate)) {
        finish(batch, candidate, failed(event->death.error, event->death.message));
      } else {
        workers_.forgive(event->death);
        queue.push_back(candidate);
      }
    } else if (event->answer->contains("error")) {
      finish(batch, candidate, failed(*event->answer));
    } else {
      const double seconds = event->answer->at("seconds").as_double();
      batch.compile_seconds[candidate] = seconds;
      mean_compile_ = 0.9 * mean_compile_ + 0.1 * seconds;
      list.push_back(candidate);
    }
  }
  return true;
}

void WorkerMeasurer::measure(const TuneTask& task, std::span<const Schedule> schedules,
                             double best_seconds, const TuneClock& clock, const Done& done) {
  const Lap lap(spent_, "wait");
  struct Settle {
    WorkerMeasurer& of;
    ~Settle() { of.workers_.settle(); }
  } const at_end{*this};
  Batch batch{.task = -1,
              .schedules = schedules,
              .clock = clock,
              .done = done,
              .best = best_seconds > 0 ? best_seconds : std::numeric_limits<double>::infinity()};
  batch.finished.resize(schedules.size());
  batch.compile_seconds.resize(schedules.size());
  batch.forgiven.resize(schedules.size());
  batch.compiled.resize(workers_.size());
  for (size_t i = 0; i < schedules.size(); ++i) batch.todo.push_back(i);
  if (!clock.expired() && !batch.todo.empty()) {
    batch.task = register_task(task);
    open_lanes(batch.task);
    const bool in_time = make_reference(batch.task, clock);
    const Reference& reference = *tasks_[batch.task].reference;
    if (options_.protocol.check_output && !reference.ready()) {
      batch.remark = kNotChecked;
    }
    while (in_time && !batch.todo.empty() && !clock.expired()) {
      const auto count = static_cast<ptrdiff_t>(group_size(batch));
      const std::vector<size_t> group(batch.todo.begin(), batch.todo.begin() + count);
      batch.todo.erase(batch.todo.begin(), batch.todo.begin() + count);
      if (!compile_group(batch, group) || !run_group(batch)) break;
    }
  }
  workers_.settle();
  for (size_t i = 0; i < schedules.size(); ++i) {
    if (!batch.finished[i]) finish(batch, i, out_of_time());
  }
}

std::vector<std::pair<std::string, double>> WorkerMeasurer::time_spent() const {
  return {spent_.begin(), spent_.end()};
}

std::vector<std::string> WorkerMeasurer::remarks() const {
  std::vector<std::string> out;
  for (const auto& [task, lanes] : lanes_) {
    if (lanes.contention() == 0) continue;
    char text[160];
    std::snprintf(text, sizeof text,
                  "%zu timed at once, on cores of their own; the static choice takes %.2f of its "
                  "time alone there",
                  lanes.count(), lanes.contention());
    out.push_back(tasks_[task].task.name + ": " + text);
  }
  return out;
}

}  // namespace heddle::measuring

namespace heddle {

std::unique_ptr<Measurer> make_worker_measurer(const WorkerOptions& options) {
  return std::make_unique<measuring::WorkerMeasurer>(options);
}

}  // namespace heddle
