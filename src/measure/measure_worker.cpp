#include "measure/measure_worker.h"

#include <algorithm>
#include <deque>

#include "heddle/support/error.h"
#include "heddle/support/log.h"
#include "measure/worker_answers.h"
#include "measure/worker_main.h"
#include "measure/worker_program.h"
#include "measure/worker_protocol.h"

namespace heddle::measuring {
namespace {

// A group compiles for about so long: the machine changes over rarely, and little is lost when the
// clock runs out in the middle.
constexpr double kGroupSeconds = 0.3;
constexpr size_t kLargestGroup = 64;
// A first call that takes so many times longer than the cut-off, and what a cold start costs, is
// stopped: the candidate has lost, by how much nobody needs to know. Another runner costs some
// milliseconds.
constexpr double kHopeless = 2;
constexpr double kColdSeconds = 0.02;
// A naive kernel reaches about this speed where it reads memory against the grain.
constexpr double kNaiveFlopsPerSecond = 0.5e9;
constexpr double kNaiveSeconds = 0.1;
constexpr double kReferenceTimeout = 60;
// The static choice is timed beside so many candidates at least; what it is known by.
constexpr size_t kWorthABase = 3;
constexpr size_t kBases = 5;
constexpr int64_t kBase = -1;

}  // namespace

/// The candidates of one call of measure().
struct WorkerMeasurer::Batch {
  int task = 0;
  std::span<const Schedule> schedules;
  const TuneClock& clock;
  const Done& done;
  double best = 0;
  std::deque<size_t> todo = {};
  std::vector<bool> finished = {};
  std::vector<double> compile_seconds = {};
  std::vector<std::vector<size_t>> compiled = {};  ///< by worker
  std::vector<int> forgiven = {};                  ///< deaths after which a candidate was run again
  std::string remark = {};                         ///< on every result: "not checked: ..."
  double base = 0;                                 ///< the static choice, timed last; 0: never
  bool base_fails = false;                         ///< it is not timed again
};

// ---- tasks and workers -------------------------------------------------------------------------

int WorkerMeasurer::register_task(const TuneTask& task) {
  if (const std::optional<int> known = tasks_.find(task)) return *known;
  const Lap lap(spent_, "inputs");
  return tasks_.add(task);
}

WorkerProcess::Start WorkerMeasurer::start_options() const {
  const int64_t limit = options_.protocol.memory_limit_bytes;
  // Within a container the file cache counts as used: a floor, so that a full one stops nobody.
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

/// The first `count` workers are to know every task there is.
void WorkerMeasurer::start_workers(size_t count) {
  const Lap lap(spent_, "start");
  workers_.start(count, tasks_.count());
}

// ---- the reference -----------------------------------------------------------------------------

/// Nothing to do when it is there. False when the clock expired. A task without a reference is
/// measured unchecked, and its results say so.
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
  of.no_reference = !of.reference->ready();  // once is enough: it would fail in every round
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
  // Near the end, smaller ones: what is compiled is to be measured as well.
  const double each = mean_compile_ / workers + mean_run_;
  count = std::min(count, 0.5 * batch.clock.left_s() / each);
  count = std::max(count, workers);
  return std::min({batch.todo.size(), kLargestGroup, static_cast<size_t>(count)});
}

/// False when the clock expired.
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
      // The others that it had compiled are compiled again, by whom is free.
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

/// Times the static choice in the worker that runs the next candidates, so that they are compared
/// with it and not with the machine of a minute ago; without a verdict where that fails. False when
/// the worker died of it.
bool WorkerMeasurer::time_base(Batch& batch, size_t worker) {
  const TuneTask& task = tasks_[batch.task].task;
  Json request = Json::object(
      {{"do", "compile"}, {"task", batch.task}, {"slot", kBase}, {"candidate", kBase}});
  request["steps"] =
      task.message ? task.message->at("default") : task.tmpl.static_schedule().to_json();
  if (const Json* code = given_code(kStaticChoice)) request["code"] = *code;
  workers_.ask(worker, request, options_.protocol.timeout_seconds);
  std::optional<WorkerEvent> event = workers_.next_event(batch.clock);
  if (event && event->answer && !event->answer->contains("error")) {
    request = Json::object({{"do", "run"}, {"slot", kBase}, {"candidate", kBase}});
    workers_.ask(worker, request, run_allowance(0));
    event = workers_.next_event(batch.clock);
  }
  batch.base = 0;
  batch.base_fails = true;
  if (!event) return true;  // the clock expired: for the candidates, too
  if (!event->answer) {
    workers_.forgive(event->death);
    return event->worker_lives;
  }
  const Json* samples = event->answer->find("samples");
  if (samples == nullptr) return true;
  MeasureResult base;
  for (const Json& s : samples->elements()) base.seconds.push_back(s.as_double());
  // One time of it is as noisy as any other: the median of the last few follows the machine.
  std::deque<double>& last = bases_[batch.task];
  last.push_back(base.median());
  if (last.size() > kBases) last.pop_front();
  std::vector<double> sorted(last.begin(), last.end());
  std::sort(sorted.begin(), sorted.end());
  batch.base = sorted[sorted.size() / 2];
  batch.base_fails = false;
  return true;
}

/// Runs what is compiled, worker after worker: the threads of one go to sleep once. What a dying
/// worker takes with it goes back to the front of the queue; with a runner nothing else dies. False
/// when the clock expired.
bool WorkerMeasurer::run_group(Batch& batch) {
  for (size_t w = 0; w < workers_.size(); ++w) {
    std::vector<size_t> list = std::move(batch.compiled[w]);
    batch.compiled[w].clear();
    std::sort(list.begin(), list.end());
    if (list.size() >= (always_base_ ? 1 : kWorthABase) && !batch.base_fails &&
        !time_base(batch, w)) {
      batch.todo.insert(batch.todo.begin(), list.begin(), list.end());
      continue;
    }
    for (size_t i = 0; i < list.size(); ++i) {
      const std::optional<WorkerEvent> event = run_one(batch, w, list[i]);
      if (!event) return false;
      if (event->worker_lives) continue;
      batch.todo.insert(batch.todo.begin(), list.begin() + static_cast<ptrdiff_t>(i) + 1,
                        list.end());
      break;
    }
    workers_.forget(w);
  }
  return true;
}

double WorkerMeasurer::run_allowance(double compile_seconds) const {
  return std::max(0.1 * options_.protocol.timeout_seconds,
                  options_.protocol.timeout_seconds - compile_seconds);
}

double WorkerMeasurer::first_call_allowance(double best_seconds) const {
  if (options_.protocol.cutoff <= 0) return std::numeric_limits<double>::infinity();
  return kHopeless * options_.protocol.cutoff * best_seconds + kColdSeconds;
}

/// Runs a candidate and reports it; nothing when the clock expired.
std::optional<WorkerEvent> WorkerMeasurer::run_one(Batch& batch, size_t worker, size_t candidate) {
  const Timer timer;
  Json request = Json::object();
  request["do"] = Json("run");
  request["slot"] = Json(candidate);
  request["candidate"] = Json(candidate);
  if (batch.best < std::numeric_limits<double>::infinity()) request["best"] = Json(batch.best);
  workers_.ask(worker, request, run_allowance(batch.compile_seconds[candidate]),
               first_call_allowance(batch.best));
  std::optional<WorkerEvent> event = workers_.next_event(batch.clock);
  if (!event) return event;
  MeasureResult result;
  if (event->stopped_seconds > 0) {
    result.seconds = {event->stopped_seconds};
    result.cut_off = true;
    result.run_seconds = event->stopped_seconds;
  } else if (!event->answer) {
    result = failed(event->death.error, event->death.message);
  } else if (event->answer->contains("error")) {
    result = failed(*event->answer);
    // It may have written elsewhere, too: nothing of this runner is to be trusted.
    if (result.error == MeasureError::WrongAnswer) workers_.rest(worker);
  } else {
    result = timed(*event->answer, batch.remark);
    spent_["prepare"] += event->answer->at("prepare").as_double();
    if (!result.cut_off) batch.best = std::min(batch.best, result.median());
  }
  result.compile_seconds = batch.compile_seconds[candidate];
  result.base_seconds = batch.base;
  // What failed took its time too: the scheduler must not think it free.
  if (!result.ok() && result.run_seconds == 0) result.run_seconds = timer.elapsed_s();
  spent_["run"] += result.run_seconds;
  spent_["check"] += result.check_seconds;
  mean_run_ = 0.9 * mean_run_ + 0.1 * timer.elapsed_s();
  // A death that is nobody's is forgiven once: what dies again and again with one candidate is its.
  if (!event->answer && event->death.candidate != static_cast<int>(candidate) &&
      batch.forgiven[candidate]++ == 0) {
    workers_.forgive(event->death);
    batch.todo.push_front(candidate);
  } else {
    finish(batch, candidate, result);
  }
  return event;
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

}  // namespace heddle::measuring

namespace heddle {

std::unique_ptr<Measurer> make_worker_measurer(const WorkerOptions& options) {
  return std::make_unique<measuring::WorkerMeasurer>(options);
}

}  // namespace heddle
