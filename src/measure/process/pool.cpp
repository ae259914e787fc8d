#include "measure/process/pool.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "heddle/support/error.h"
#include "measure/messages/requests.h"
#include "support/log.h"

namespace heddle::measuring {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Seconds between two tests whether the run was cancelled.
constexpr double kGlance = 0.02;
constexpr double kLastMessage = 5;
constexpr int kAttempts = 3;

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

}  // namespace

int64_t free_memory_bytes() {
  const int64_t kilobytes = number_in("/proc/meminfo", "MemAvailable:");
  int64_t bytes = kilobytes > 0 ? kilobytes << 10 : 0;
  const int64_t most = number_in("/sys/fs/cgroup/memory.max", "");
  const int64_t used = number_in("/sys/fs/cgroup/memory.current", "");
  if (bytes > 0 && most > 0 && used >= 0)
    bytes = std::min(bytes, std::max<int64_t>(most - used, 0));
  return bytes;
}

WorkerPool::WorkerPool(int workers, WorkerProcess::Start start, Introduce introduce)
    : start_(std::move(start)), introduce_(std::move(introduce)) {
  workers_.resize(static_cast<size_t>(workers));
}

/// Starts the worker if it is not alive, and tells it the tasks that it does not know. Its last answers
/// are waited for elsewhere. Returns false when it died or took too long before it knew all.
bool WorkerPool::bring_up(Worker& worker, size_t tasks, bool* timed_out) {
  // A channel holds about 270 answers that nobody reads. Then the worker, which answers, and this process, which sends, would
  // wait for each other without end.
  constexpr int kMostAwaited = 32;
  const auto allow = [&] {
    worker.asked = SteadyClock::now();
    worker.allowed = start_.start_seconds;
  };
  if (!worker.process || !worker.process->alive()) {
    worker = {};
    worker.process = std::make_unique<WorkerProcess>(start_);
    worker.awaited = 1;
  }
  for (; introduce_ && worker.known < tasks; ++worker.known) {
    const Json task = introduce_(worker.known);
    if (task.is_null()) continue;
    worker.process->channel().send(task);
    if (++worker.awaited < kMostAwaited) continue;
    allow();
    if (!hear_of_start(worker, timed_out)) return false;
  }
  allow();
  return true;
}

void WorkerPool::start(size_t count, size_t tasks) {
  std::string why;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<bool> up(count), late(count);
    for (size_t i = 0; i < count; ++i) {
      bool timed_out = false;
      up[i] = bring_up(workers_[i], tasks, &timed_out);
      late[i] = timed_out;
    }
    bool all = true;
    for (size_t i = 0; i < count; ++i) {
      bool timed_out = late[i];
      if (up[i] && hear_of_start(workers_[i], &timed_out)) continue;
      all = false;
      why = died(i, timed_out).death.message;
    }
    if (all) return;
  }
  throw_runtime_error("measurement workers die at their start: " + why, {},
                      "see whether other programs can start processes and allocate memory here");
}

void WorkerPool::restart(size_t index, size_t tasks) {
  Worker& worker = workers_[index];
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // A worker starts within milliseconds. Messages of other workers are kept meanwhile.
    bool timed_out = false;
    if (bring_up(worker, tasks, &timed_out) && hear_of_start(worker, &timed_out)) return;
    forgive(died(index, timed_out).death);
  }
}

// Waits for the answers of this worker only. Returns false when it died or took too long.
bool WorkerPool::hear_of_start(Worker& worker, bool* timed_out) {
  Channel& channel = worker.process->channel();
  try {
    while (worker.awaited > 0) {
      const Channel::State state = channel.read_available();
      while (const std::optional<Json> answer =
                 worker.awaited > 0 ? channel.next() : std::nullopt) {
        const WorkerAnswer read = answer_from(*answer);
        const Started* started = std::get_if<Started>(&read.says);
        // The answer belongs to an earlier request, or reports the end of an idle runner.
        if (started == nullptr) continue;
        --worker.awaited;
        refused_ = started->message.value_or(refused_);
      }
      if (!refused_.empty() || worker.awaited == 0) break;
      if (state == Channel::State::Closed) return false;
      if (seconds_since(worker.asked) > worker.allowed) {
        *timed_out = true;
        return false;
      }
      pollfd readable{channel.fd(), POLLIN, 0};
      ::poll(&readable, 1, static_cast<int>(kGlance * 1e3));
    }
  } catch (const Error&) {
    return false;  // the bytes were not a message
  }
  if (refused_.empty()) return true;
  const std::string why = std::exchange(refused_, {});
  worker = {};
  throw_runtime_error("a measurement worker refuses what it is to measure: " + why, {},
                      "see that " + start_.command[0] + " is of this version of Heddle");
}

void WorkerPool::begin(size_t index, double allowed, double first_call) {
  Worker& worker = workers_[index];
  worker.request = ++last_request_;
  worker.first_call = first_call;
  worker.timed_out = false;
  worker.stopped_seconds = 0;
  worker.busy = true;
  worker.asked = SteadyClock::now();
  worker.allowed = allowed;
  worker.asked_before = true;
  worker.late.reset();
}

WorkerEvent WorkerPool::died(size_t index, bool timed_out) {
  WorkerEvent event;
  event.worker = index;
  event.worker_lives = false;
  event.death = workers_[index].process->bury(timed_out);
  workers_[index] = {};
  return event;
}

std::optional<WorkerEvent> WorkerPool::look_at(size_t index, bool readable) {
  Worker& worker = workers_[index];
  Channel& channel = worker.process->channel();
  try {
    // Answers are read before the clock is tested, so that a program that was suspended for a while
    // finds answers that came in time.
    const Channel::State state = channel.read_available();
    while (const std::optional<Json> message = channel.next()) {
      // The answer belongs to an earlier request: an idle runner ended, or nobody waits for it any
      // more.
      if (envelope_of(*message).id != worker.request) continue;
      WorkerAnswer answer = answer_from(*message);
      const Died* end = std::get_if<Died>(&answer.says);
      if (end == nullptr && (worker.timed_out || worker.stopped_seconds > 0)) {
        worker.late = std::move(answer);
        continue;
      }
      worker.busy = false;
      WorkerEvent event;
      event.worker = index;
      if (worker.late) {
        event.answer = std::move(worker.late);
        worker.late.reset();
      } else if (end != nullptr) {
        event.death = worker.process->explain(end->status, worker.timed_out);
        event.stopped_seconds = worker.stopped_seconds;
      } else {
        event.answer = std::move(answer);
      }
      return event;
    }
    if (state == Channel::State::Closed) return died(index, false);
  } catch (const Error&) {
    return died(index, false);  // it sent garbage, because a candidate overwrote its memory
  }
  return readable ? std::nullopt : watch(index);
}

// Kills a worker or runner that takes too long.
std::optional<WorkerEvent> WorkerPool::watch(size_t index) {
  Worker& worker = workers_[index];
  const WorkerStatus& status = worker.process->status();
  const SteadyClock::time_point since{SteadyClock::duration(status.since_ns.load())};
  const double elapsed = seconds_since(std::max(worker.asked, since));
  if (elapsed > worker.allowed) {
    // The worker reports the end of its runner. If that message does not come, the worker hangs
    // too.
    if (worker.timed_out || !worker.process->kill_runner()) return died(index, true);
    worker.timed_out = true;
    worker.allowed += kLastMessage;
  } else if (worker.stopped_seconds == 0 && since > worker.asked && elapsed > worker.first_call &&
             status.phase.load() == WorkerPhase::FirstCall && worker.process->kill_runner()) {
    worker.stopped_seconds = elapsed;
  }
  return std::nullopt;
}

// Seconds until watch() may have something to do.
double WorkerPool::patience(const Worker& worker) const {
  if (!worker.busy || worker.first_call > worker.allowed) return kGlance;
  const WorkerStatus& status = worker.process->status();
  if (worker.stopped_seconds > 0 || status.phase.load() == WorkerPhase::Run) return kGlance;
  const SteadyClock::time_point since{SteadyClock::duration(status.since_ns.load())};
  return std::clamp(worker.first_call - seconds_since(std::max(worker.asked, since)), 1e-3,
                    kGlance);
}

// The first event within the time, including events that happened before.
std::optional<WorkerEvent> WorkerPool::poll(double seconds) {
  std::vector<pollfd> fds;
  std::vector<size_t> who;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].busy) continue;
    if (std::optional<WorkerEvent> event = look_at(i, false)) return event;
    fds.push_back({workers_[i].process->channel().fd(), POLLIN, 0});
    who.push_back(i);
  }
  timespec wait{};
  wait.tv_sec = static_cast<time_t>(seconds);
  wait.tv_nsec = static_cast<long>((seconds - static_cast<double>(wait.tv_sec)) * 1e9);
  if (::ppoll(fds.data(), fds.size(), &wait, nullptr) <= 0) return std::nullopt;
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    if (std::optional<WorkerEvent> event = look_at(who[i], true)) return event;
  }
  return std::nullopt;
}

std::optional<WorkerEvent> WorkerPool::next_event(const TuneClock& clock) {
  for (;;) {
    const double left = clock.left_s();
    if (left <= 0) return std::nullopt;
    double wait = std::min(left, kGlance);
    for (const Worker& w : workers_) {
      wait = std::min(wait, patience(w));
    }
    if (std::optional<WorkerEvent> event = poll(wait)) {
      if (event->answer) strays_ = 0;
      return event;
    }
  }
}

void WorkerPool::forgive(const WorkerDeath& death) {
  HEDDLE_LOG_AT("search", 1, "a measurement worker died: " + death.message);
  if (++strays_ < kAttempts) return;
  throw_runtime_error("measurement workers die, and no candidate is the cause: " + death.message,
                      {}, "see whether something kills the processes of this program");
}

void WorkerPool::rest(size_t worker) {
  if (!workers_[worker].process) return;
  workers_[worker].process->channel().send(encode(Rest{}));
}

void WorkerPool::forget(size_t index) {
  Worker& worker = workers_[index];
  if (!worker.process || !worker.asked_before) return;
  rest(index);
  worker.process->channel().send(encode(Forget{}));
  worker.asked_before = false;
}

void WorkerPool::settle() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].busy) kill(i);
    forget(i);
  }
}

}  // namespace heddle::measuring
