// The worker measurer: who compiles and runs what when, and what becomes of a worker that dies.
//
// Compilation and runs take turns: a group of candidates is compiled by all workers at once, then
// the group's kernels run one at a time while nobody compiles. With as many workers as cores,
// compiling beside a run costs it a fifth of its speed; where there are many more cores than a
// kernel has threads the two could overlap, which is left out: the caches and the memory bus would
// still be shared.
#include <algorithm>
#include <deque>
#include <map>

#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/hash.h"
#include "heddle/support/log.h"
#include "search/worker_main.h"
#include "search/worker_pool.h"

namespace heddle {
namespace {

using namespace search;
using Done = std::function<void(size_t, const MeasureResult&)>;

// A group compiles for about so long: the machine changes over rarely, and little is lost when the
// clock runs out in the middle.
constexpr double kGroupSeconds = 0.3;
constexpr size_t kLargestGroup = 64;
// A naive kernel reaches about this speed where it reads memory against the grain.
constexpr double kNaiveFlopsPerSecond = 0.5e9;
constexpr double kNaiveSeconds = 0.1;
constexpr double kReferenceTimeout = 60;
// Inputs of so many bytes are kept for tasks that come back.
constexpr int64_t kInputBytes = int64_t{2} << 30;

MeasureResult failed(MeasureError error, const std::string& message) {
  MeasureResult r;
  r.error = error;
  r.message = message;
  return r;
}

/// An answer that tells of a failure.
MeasureResult failed(const Json& answer) {
  return failed(static_cast<MeasureError>(answer.at("error").as_int()),
                answer.at("message").as_string());
}

class WorkerMeasurer : public Measurer {
 public:
  explicit WorkerMeasurer(const WorkerOptions& options)
      : options_(options),
        workers_(options.workers > 0 ? options.workers : default_num_threads(), start_options()) {}

  void measure(const TuneTask& task, std::span<const Schedule> schedules, double best_seconds,
               const TuneClock& clock, const Done& done) override;
  std::vector<MeasureResult> race(const TuneTask& task, std::span<const Schedule> schedules,
                                  double seconds, const TuneClock& clock) override;
  std::string protocol() const override { return to_string(options_.protocol); }
  std::vector<std::pair<std::string, double>> time_spent() const override;

 private:
  struct Batch;
  class Lap;

  int register_task(const TuneTask& task);
  void evict_tasks();
  WorkerProcess::Start start_options();
  void start_workers(size_t count);
  bool make_reference(int task, const TuneClock& clock);
  size_t group_size(const Batch& batch) const;
  bool compile_group(Batch& batch, const std::vector<size_t>& group);
  bool run_group(Batch& batch);
  Json compile_request(int task, size_t candidate, const Schedule& schedule) const;
  void finish(Batch& batch, size_t candidate, const MeasureResult& result);
  bool race_once(int task, std::span<const Schedule> schedules, double seconds,
                 const TuneClock& clock, std::vector<MeasureResult>& results,
                 std::vector<bool>& racing);
  double run_allowance(double compile_seconds) const {
    return std::max(0.1 * options_.protocol.timeout_seconds,
                    options_.protocol.timeout_seconds - compile_seconds);
  }

  WorkerOptions options_;
  std::vector<std::shared_ptr<MeasuredTask>> tasks_;  ///< by id; null when evicted
  std::vector<uint64_t> task_keys_;
  WorkerPool workers_;
  uint64_t races_ = 0;
  double mean_compile_ = 0.025, mean_run_ = 0.015;  ///< seconds, of the candidates of late
  mutable std::map<std::string, double> spent_;
};

/// Adds the time until its end to a name, less what was added to others meanwhile.
class WorkerMeasurer::Lap {
 public:
  Lap(WorkerMeasurer& of, const char* name) : of_(of), name_(name), others_(total()) {}
  ~Lap() { of_.spent_[name_] += timer_.elapsed_s() - (total() - others_); }
  Lap(const Lap&) = delete;
  Lap& operator=(const Lap&) = delete;

 private:
  double total() const {
    double sum = 0;
    for (const auto& [name, seconds] : of_.spent_) sum += seconds;
    return sum;
  }
  WorkerMeasurer& of_;
  const char* name_;
  double others_;
  Timer timer_;
};

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
  std::string remark = {};                         ///< on every result: "not checked: ..."
};

// ---- tasks and workers -------------------------------------------------------------------------

int WorkerMeasurer::register_task(const TuneTask& task) {
  uint64_t key = hash_combine(hash_string(task.name), task.hash());
  for (const Tensor& t : task.args) {
    const int stage = task.tmpl.dag().index_of(t.op());
    key = hash_combine(key, static_cast<uint64_t>(stage) << 8 | static_cast<uint64_t>(t.index()));
  }
  const auto known = std::find(task_keys_.begin(), task_keys_.end(), key);
  if (known != task_keys_.end()) return static_cast<int>(known - task_keys_.begin());
  const Lap lap(*this, "inputs");
  evict_tasks();
  tasks_.push_back(std::make_shared<MeasuredTask>(task));
  task_keys_.push_back(key);
  return static_cast<int>(tasks_.size()) - 1;
}

// Oldest first: a network comes back to its tasks in turn.
void WorkerMeasurer::evict_tasks() {
  int64_t bytes = 0;
  for (size_t i = tasks_.size(); i-- > 0;) {
    if (!tasks_[i]) continue;
    for (const NDArray& a : tasks_[i]->inputs) bytes += a.defined() ? a.bytes() : 0;
    if (bytes <= kInputBytes) continue;
    tasks_[i] = nullptr;
    task_keys_[i] = 0;
  }
}

WorkerProcess::Start WorkerMeasurer::start_options() {
  WorkerProcess::Start start;
  const int64_t limit = options_.protocol.memory_limit_bytes;
  start.memory_limit_bytes = limit > 0 ? limit : free_memory_bytes() / 2;
  start.main = [this](Channel& channel, WorkerStatus& status) {
    serve_worker(channel, status, tasks_, options_);
  };
  return start;
}

/// The first `count` workers are to know every task there is.
void WorkerMeasurer::start_workers(size_t count) {
  const Lap lap(*this, "start");
  workers_.start(count, tasks_.size());
}

// ---- the reference -----------------------------------------------------------------------------

/// Nothing to do when it is there. False when the clock expired. A task without a reference is
/// measured unchecked, and its results say so.
bool WorkerMeasurer::make_reference(int task, const TuneClock& clock) {
  const MeasuredTask& of = *tasks_[static_cast<size_t>(task)];
  if (!options_.protocol.check_output || of.reference->ready()) return true;
  const Lap lap(*this, "reference");
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
    if (event->answer && !event->answer->contains("error")) break;
    HEDDLE_LOG_AT(
        "search", 1,
        "no reference for '" + of.task.name + "': " +
            (event->answer ? event->answer->at("message").as_string() : event->death.message));
  }
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
  return request;
}

void WorkerMeasurer::finish(Batch& batch, size_t candidate, const MeasureResult& result) {
  batch.finished[candidate] = true;
  const Lap lap(*this, "report");
  batch.done(candidate, result);
}

size_t WorkerMeasurer::group_size(const Batch& batch) const {
  const auto workers = static_cast<double>(workers_.size());
  double count = kGroupSeconds * workers / mean_compile_;
  // Near the end, smaller ones: what is compiled is to be measured as well.
  const double each = mean_compile_ / workers + mean_run_;
  count = std::min(count, 0.5 * batch.clock.left() / each);
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
  const Lap lap(*this, "compile");
  while (!queue.empty() || busy > 0) {
    for (size_t w = 0; w < count && !queue.empty(); ++w) {
      if (workers_.busy(w)) continue;
      if (!workers_.alive(w)) workers_.restart(w, tasks_.size());
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

/// Runs what is compiled, worker after worker: the threads of one go to sleep once. What a dying
/// worker takes with it goes back to the front of the queue. False when the clock expired.
bool WorkerMeasurer::run_group(Batch& batch) {
  for (size_t w = 0; w < workers_.size(); ++w) {
    std::vector<size_t> list = std::move(batch.compiled[w]);
    batch.compiled[w].clear();
    std::sort(list.begin(), list.end());
    for (size_t i = 0; i < list.size(); ++i) {
      const Timer timer;
      const size_t candidate = list[i];
      Json request = Json::object();
      request["do"] = Json("run");
      request["slot"] = Json(candidate);
      request["candidate"] = Json(candidate);
      if (batch.best < std::numeric_limits<double>::infinity()) request["best"] = Json(batch.best);
      workers_.ask(w, request, run_allowance(batch.compile_seconds[candidate]));
      const std::optional<WorkerEvent> event = workers_.next_event(batch.clock);
      if (!event) return false;
      MeasureResult result;
      bool lost = false;
      if (!event->answer) {
        lost = true;
        result = failed(event->death.error, event->death.message);
      } else if (event->answer->contains("error")) {
        result = failed(*event->answer);
        // It may have written elsewhere, too: nothing of this worker is to be trusted.
        if (result.error == MeasureError::WrongAnswer) {
          lost = true;
          workers_.kill(w);
        }
      } else {
        const Json& a = *event->answer;
        for (const Json& s : a.at("samples").elements()) result.seconds.push_back(s.as_double());
        result.cut_off = a.at("cut_off").as_bool();
        result.run_seconds = a.at("run").as_double();
        result.check_seconds = a.at("check").as_double();
        result.message = batch.remark;
        spent_["prepare"] += a.at("prepare").as_double();
        if (!result.cut_off) batch.best = std::min(batch.best, result.median());
      }
      result.compile_seconds = batch.compile_seconds[candidate];
      spent_["run"] += result.run_seconds;
      spent_["check"] += result.check_seconds;
      mean_run_ = 0.9 * mean_run_ + 0.1 * timer.elapsed_s();
      if (lost) {
        batch.todo.insert(batch.todo.begin(), list.begin() + static_cast<ptrdiff_t>(i) + 1,
                          list.end());
      }
      if (!event->answer && event->death.candidate != static_cast<int>(candidate)) {
        workers_.forgive(event->death);
        batch.todo.push_front(candidate);
      } else {
        finish(batch, candidate, result);
      }
      if (lost) break;
    }
  }
  return true;
}

void WorkerMeasurer::measure(const TuneTask& task, std::span<const Schedule> schedules,
                             double best_seconds, const TuneClock& clock, const Done& done) {
  const Lap lap(*this, "wait");
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
  batch.compiled.resize(workers_.size());
  for (size_t i = 0; i < schedules.size(); ++i) batch.todo.push_back(i);
  if (!clock.expired() && !batch.todo.empty()) {
    batch.task = register_task(task);
    const bool in_time = make_reference(batch.task, clock);
    const Reference& reference = *tasks_[static_cast<size_t>(batch.task)]->reference;
    if (options_.protocol.check_output && !reference.ready()) {
      batch.remark = "not checked: the reference could not be computed";
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
    if (!batch.finished[i]) {
      finish(batch, i, failed(MeasureError::Cancelled, "the time was up before it was measured"));
    }
  }
}

// ---- the race ----------------------------------------------------------------------------------

/// One worker's part of a race: until it ends, the clock expires, or a candidate kills the worker.
/// True when the race is over.
bool WorkerMeasurer::race_once(int task, std::span<const Schedule> schedules, double seconds,
                               const TuneClock& clock, std::vector<MeasureResult>& results,
                               std::vector<bool>& racing) {
  const Timer timer;
  const auto drop = [&](int candidate, const MeasureResult& why) {
    const auto c = static_cast<size_t>(candidate);
    results[c] = why;
    racing[c] = false;
  };
  // What the worker died of; false when no candidate is to blame.
  const auto bury = [&](const WorkerDeath& death) {
    if (death.candidate >= 0 && static_cast<size_t>(death.candidate) < racing.size()) {
      drop(death.candidate, failed(death.error, death.message));
    } else {
      workers_.forgive(death);
    }
    return std::find(racing.begin(), racing.end(), true) == racing.end();
  };
  start_workers(1);
  Json slots = Json::array();
  for (size_t i = 0; i < schedules.size(); ++i) {
    if (!racing[i]) continue;
    workers_.ask(0, compile_request(task, i, schedules[i]), options_.protocol.timeout_seconds);
    const std::optional<WorkerEvent> event = workers_.next_event(clock);
    if (!event) return true;
    if (!event->answer) return bury(event->death);
    if (event->answer->contains("error")) {
      drop(static_cast<int>(i), failed(*event->answer));
      continue;
    }
    results[i].compile_seconds = event->answer->at("seconds").as_double();
    slots.push_back(Json(i));
  }
  if (slots.empty()) return true;
  spent_["compile"] += timer.elapsed_s();
  const Lap lap(*this, "race");
  Json request = Json::object();
  request["do"] = Json("race");
  request["slots"] = slots;
  request["candidates"] = slots;
  request["seconds"] = Json(std::max(0.0, std::min(seconds, clock.left()) - timer.elapsed_s()));
  request["seed"] = Json(++races_);
  workers_.ask(0, request, options_.protocol.timeout_seconds);
  for (;;) {
    const std::optional<WorkerEvent> event = workers_.next_event(clock);
    if (!event) return true;
    if (!event->answer) return bury(event->death);
    const Json& a = *event->answer;
    if (a.contains("done")) return true;
    workers_.expect_more(0);
    if (a.contains("error")) {
      drop(static_cast<int>(a.at("checked").as_int()), failed(a));
    } else if (const Json* round = a.find("round")) {
      for (const Json& turn : round->elements()) {
        MeasureResult& r = results[static_cast<size_t>(turn.at(0).as_int())];
        r.seconds.push_back(turn.at(1).as_double());
        r.run_seconds += r.seconds.back();
      }
    }
  }
}

std::vector<MeasureResult> WorkerMeasurer::race(const TuneTask& task,
                                                std::span<const Schedule> schedules, double seconds,
                                                const TuneClock& clock) {
  const Lap lap(*this, "wait");
  struct Settle {
    WorkerMeasurer& of;
    ~Settle() { of.workers_.settle(); }
  } const at_end{*this};
  const Timer timer;
  std::vector<MeasureResult> results(schedules.size());
  std::vector<bool> racing(schedules.size(), true);
  if (!schedules.empty() && !clock.expired()) {
    const int id = register_task(task);
    bool over = !make_reference(id, clock);
    while (!over && !clock.expired()) {
      over = race_once(id, schedules, seconds - timer.elapsed_s(), clock, results, racing);
    }
  }
  for (MeasureResult& r : results) {
    if (r.error == MeasureError::None && r.seconds.empty()) {
      r = failed(MeasureError::Cancelled, "the time was up before it was measured");
    }
  }
  return results;
}

std::vector<std::pair<std::string, double>> WorkerMeasurer::time_spent() const {
  return {spent_.begin(), spent_.end()};
}

}  // namespace

std::unique_ptr<Measurer> make_worker_measurer(const WorkerOptions& options) {
  return std::make_unique<WorkerMeasurer>(options);
}

}  // namespace heddle
