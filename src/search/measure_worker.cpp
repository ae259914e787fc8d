// The worker measurer: who compiles and runs what when, and what becomes of a worker that dies.
//
// Compilation and runs take turns: a group of candidates is compiled by all workers at once, then
// the group's kernels run one at a time while nobody compiles. With as many workers as cores,
// compiling beside a run costs it a fifth of its speed; where there are many more cores than a
// kernel has threads the two could overlap, which is left out: the caches and the memory bus would
// still be shared.
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>

#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/hash.h"
#include "heddle/support/log.h"
#include "search/worker_main.h"

namespace heddle {
namespace {

using namespace search;
using SteadyClock = std::chrono::steady_clock;
using Done = std::function<void(size_t, const MeasureResult&)>;

// A group compiles for about so long: the machine changes over rarely, and little is lost when the
// clock runs out in the middle.
constexpr double kGroupSeconds = 0.3;
constexpr size_t kLargestGroup = 64;
// So often is looked whether somebody cancelled.
constexpr double kGlance = 0.02;
// A naive kernel reaches about this speed where it reads memory against the grain.
constexpr double kNaiveFlopsPerSecond = 0.5e9;
constexpr double kNaiveSeconds = 2;
constexpr double kReferenceTimeout = 60;
constexpr double kStartTimeout = 20;
constexpr int kStartAttempts = 3;
// Inputs of so many bytes are kept for tasks that come back.
constexpr int64_t kInputBytes = int64_t{2} << 30;

double seconds_since(SteadyClock::time_point t) {
  return std::chrono::duration<double>(SteadyClock::now() - t).count();
}

int64_t number_in(const char* path, const char* key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t value = 0;
    if (*key == '\0') return std::sscanf(word.c_str(), "%ld", &value) == 1 ? value : -1;
    if (word == key && file >> value) return value;
  }
  return -1;
}

/// Bytes that could be allocated now; 0 when that is not known.
int64_t free_bytes() {
  const int64_t kilobytes = number_in("/proc/meminfo", "MemAvailable:");
  int64_t bytes = kilobytes > 0 ? kilobytes << 10 : 0;
  const int64_t most = number_in("/sys/fs/cgroup/memory.max", "");
  const int64_t used = number_in("/sys/fs/cgroup/memory.current", "");
  if (bytes > 0 && most > 0 && used >= 0)
    bytes = std::min(bytes, std::max<int64_t>(most - used, 0));
  return bytes;
}

/// A worker with what the tuner knows of it.
struct Worker {
  std::unique_ptr<WorkerProcess> process;
  size_t known_tasks = 0;  ///< it was forked when there were so many
  bool busy = false;
  bool has_kernels = false;
  SteadyClock::time_point asked;  ///< when its request was sent
  double allowed = 0;             ///< seconds for each step of the request
};

/// What came of a request: an answer, or the end of the worker.
struct Event {
  size_t worker = 0;
  std::optional<Json> answer;
  WorkerDeath death;
};

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
  explicit WorkerMeasurer(const WorkerOptions& options) : options_(options) {
    const int count = options.workers > 0 ? options.workers : default_num_threads();
    workers_.resize(static_cast<size_t>(count));
    const int64_t limit = options.protocol.memory_limit_bytes;
    memory_limit_ = limit > 0 ? limit : free_bytes() / 2;
  }

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
  void start_workers(size_t count, int task);
  void start(Worker& worker);
  void ask(size_t worker, const Json& request, double allowed);
  std::optional<Event> next_event(const TuneClock& clock);
  std::optional<Event> poll_workers(double seconds);
  std::optional<Event> look_at(size_t index, bool readable);
  Event died(size_t worker, bool timed_out);
  void stray(const WorkerDeath& death);
  void settle();

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
  int64_t memory_limit_ = 0;
  std::vector<std::shared_ptr<MeasuredTask>> tasks_;  ///< by id; null when evicted
  std::vector<uint64_t> task_keys_;
  std::vector<Worker> workers_;
  int strays_ = 0;  ///< deaths in a row that no candidate is to blame for
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

void WorkerMeasurer::start(Worker& worker) {
  worker = {};
  WorkerProcess::Start start;
  start.memory_limit_bytes = memory_limit_;
  start.main = [this](Channel& channel, WorkerStatus& status) {
    serve_worker(channel, status, tasks_, options_);
  };
  worker.process = std::make_unique<WorkerProcess>(start);
  worker.known_tasks = tasks_.size();
}

/// Sees to it that the first `count` workers live and know the task.
void WorkerMeasurer::start_workers(size_t count, int task) {
  const Lap lap(*this, "start");
  std::string why;
  for (int attempt = 0; attempt < kStartAttempts; ++attempt) {
    std::vector<size_t> fresh;
    for (size_t i = 0; i < count; ++i) {
      Worker& worker = workers_[i];
      if (worker.process && worker.known_tasks > static_cast<size_t>(task)) continue;
      start(worker);
      fresh.push_back(i);
    }
    bool all = true;
    for (size_t i : fresh) {
      Worker& worker = workers_[i];
      worker.busy = true;
      worker.asked = SteadyClock::now();
      worker.allowed = kStartTimeout;
    }
    for (size_t waiting = fresh.size(); waiting > 0;) {
      const std::optional<Event> event = poll_workers(kGlance);
      if (!event) continue;
      --waiting;
      if (event->answer) continue;
      all = false;
      why = event->death.message;
    }
    if (all) return;
  }
  throw_runtime_error("measurement workers die at their start: " + why, {},
                      "see whether other programs can start processes and allocate memory here");
}

void WorkerMeasurer::ask(size_t index, const Json& request, double allowed) {
  Worker& worker = workers_[index];
  worker.busy = true;
  worker.asked = SteadyClock::now();
  worker.allowed = allowed;
  worker.process->channel().send(request);  // if it is dead, that is seen when it is waited for
}

Event WorkerMeasurer::died(size_t index, bool timed_out) {
  Event event;
  event.worker = index;
  event.death = workers_[index].process->bury(timed_out);
  workers_[index] = {};
  return event;
}

std::optional<Event> WorkerMeasurer::look_at(size_t index, bool readable) {
  Worker& worker = workers_[index];
  Channel& channel = worker.process->channel();
  try {
    const Channel::State state = readable ? channel.read_available() : Channel::State::Open;
    if (std::optional<Json> answer = channel.next()) {
      worker.busy = false;
      Event event;
      event.worker = index;
      event.answer = std::move(answer);
      return event;
    }
    if (state == Channel::State::Closed) return died(index, false);
  } catch (const Error&) {
    return died(index, false);  // it sends what is no message: a candidate wrote over its memory
  }
  const auto begun =
      std::max(worker.asked,
               SteadyClock::time_point(SteadyClock::duration(worker.process->status().since_ns)));
  if (!readable && seconds_since(begun) > worker.allowed) return died(index, true);
  return std::nullopt;
}

/// The first thing that happens within the time; also what has happened already.
std::optional<Event> WorkerMeasurer::poll_workers(double seconds) {
  std::vector<pollfd> fds;
  std::vector<size_t> who;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].busy) continue;
    if (std::optional<Event> event = look_at(i, false)) return event;
    fds.push_back({workers_[i].process->channel().fd(), POLLIN, 0});
    who.push_back(i);
  }
  timespec wait{};
  wait.tv_sec = static_cast<time_t>(seconds);
  wait.tv_nsec = static_cast<long>((seconds - static_cast<double>(wait.tv_sec)) * 1e9);
  if (::ppoll(fds.data(), fds.size(), &wait, nullptr) <= 0) return std::nullopt;
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    if (std::optional<Event> event = look_at(who[i], true)) return event;
  }
  return std::nullopt;
}

/// Waits for a busy worker; nothing when the clock has expired.
std::optional<Event> WorkerMeasurer::next_event(const TuneClock& clock) {
  for (;;) {
    const double left = clock.left();
    if (left <= 0) return std::nullopt;
    double wait = std::min(left, kGlance);
    for (const Worker& w : workers_) {
      if (w.busy) wait = std::min(wait, w.allowed);
    }
    if (std::optional<Event> event = poll_workers(wait)) {
      if (event->answer) strays_ = 0;
      return event;
    }
  }
}

/// A death that no candidate is to blame for: forgiven, but not without end.
void WorkerMeasurer::stray(const WorkerDeath& death) {
  HEDDLE_LOG_AT("search", 1, "a measurement worker died: " + death.message);
  if (++strays_ < kStartAttempts) return;
  throw_runtime_error("measurement workers die without a candidate to blame: " + death.message, {},
                      "see whether something kills the processes of this program");
}

/// After a batch: what is still at work is killed, what is compiled is forgotten.
void WorkerMeasurer::settle() {
  for (Worker& w : workers_) {
    if (w.busy) w = {};
    if (w.process && w.has_kernels) {
      Json forget = Json::object();
      forget["do"] = Json("forget");
      w.process->channel().send(forget);
      w.has_kernels = false;
    }
  }
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
  for (const bool fast : {slow, true}) {
    start_workers(1, task);
    Json request = Json::object();
    request["do"] = Json("reference");
    request["task"] = Json(task);
    request["fast"] = Json(fast);
    ask(0, request, kReferenceTimeout);
    const std::optional<Event> event = next_event(clock);
    if (!event) return false;
    if (event->answer && !event->answer->contains("error")) return true;
    HEDDLE_LOG_AT(
        "search", 1,
        "no reference for '" + of.task.name + "': " +
            (event->answer ? event->answer->at("message").as_string() : event->death.message));
    if (fast) break;
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
  start_workers(count, batch.task);
  const Lap lap(*this, "compile");
  while (!queue.empty() || busy > 0) {
    for (size_t w = 0; w < count && !queue.empty(); ++w) {
      if (workers_[w].busy) continue;
      if (!workers_[w].process) {
        // Others may be compiling: only this one is waited for, and it starts in milliseconds.
        start(workers_[w]);
        if (!workers_[w].process->channel().receive()) {
          stray(died(w, false).death);
          continue;
        }
      }
      at_work[w] = queue.front();
      queue.pop_front();
      ask(w, compile_request(batch.task, at_work[w], batch.schedules[at_work[w]]),
          options_.protocol.timeout_seconds);
      ++busy;
    }
    const std::optional<Event> event = next_event(batch.clock);
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
        stray(event->death);
        queue.push_back(candidate);
      }
    } else if (event->answer->contains("error")) {
      finish(batch, candidate, failed(*event->answer));
    } else {
      const double seconds = event->answer->at("seconds").as_double();
      batch.compile_seconds[candidate] = seconds;
      mean_compile_ = 0.9 * mean_compile_ + 0.1 * seconds;
      workers_[event->worker].has_kernels = true;
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
      ask(w, request, run_allowance(batch.compile_seconds[candidate]));
      const std::optional<Event> event = next_event(batch.clock);
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
          workers_[w] = {};
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
        stray(event->death);
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
    ~Settle() { of.settle(); }
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
  settle();
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
      stray(death);
    }
    return std::find(racing.begin(), racing.end(), true) == racing.end();
  };
  start_workers(1, task);
  Json slots = Json::array();
  for (size_t i = 0; i < schedules.size(); ++i) {
    if (!racing[i]) continue;
    ask(0, compile_request(task, i, schedules[i]), options_.protocol.timeout_seconds);
    const std::optional<Event> event = next_event(clock);
    if (!event) return true;
    if (!event->answer) return bury(event->death);
    if (event->answer->contains("error")) {
      drop(static_cast<int>(i), failed(*event->answer));
      continue;
    }
    results[i].compile_seconds = event->answer->at("seconds").as_double();
    workers_[0].has_kernels = true;
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
  ask(0, request, options_.protocol.timeout_seconds);
  for (;;) {
    const std::optional<Event> event = next_event(clock);
    if (!event) return true;
    if (!event->answer) return bury(event->death);
    const Json& a = *event->answer;
    if (a.contains("done")) return true;
    workers_[0].busy = true;  // more is to come
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
    ~Settle() { of.settle(); }
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
