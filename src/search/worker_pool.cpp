#include "search/worker_pool.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "heddle/support/error.h"
#include "heddle/support/log.h"

namespace heddle::search {
namespace {

using SteadyClock = std::chrono::steady_clock;

// So often is looked whether somebody cancelled.
constexpr double kGlance = 0.02;
constexpr double kStartTimeout = 20;
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

WorkerPool::WorkerPool(int workers, WorkerProcess::Start start) : start_(std::move(start)) {
  workers_.resize(static_cast<size_t>(workers));
}

void WorkerPool::fork_worker(Worker& worker, uint64_t epoch) {
  worker = {};
  worker.process = std::make_unique<WorkerProcess>(start_);
  worker.epoch = epoch;
  worker.busy = true;  // until it says that it has started
  worker.asked = SteadyClock::now();
  worker.allowed = kStartTimeout;
}

void WorkerPool::start(size_t count, uint64_t epoch) {
  std::string why;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    size_t waiting = 0;
    for (size_t i = 0; i < count; ++i) {
      Worker& worker = workers_[i];
      if (worker.process && worker.epoch >= epoch && worker.process->alive()) continue;
      fork_worker(worker, epoch);
      ++waiting;
    }
    bool all = true;
    while (waiting > 0) {
      const std::optional<WorkerEvent> event = poll(kGlance);
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

void WorkerPool::restart(size_t index, uint64_t epoch) {
  Worker& worker = workers_[index];
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    fork_worker(worker, epoch);
    // It starts in milliseconds, and what the others say meanwhile is not lost.
    const bool started = worker.process->channel().receive().has_value();
    worker.busy = false;
    if (started) return;
    forgive(died(index, false).death);
  }
}

void WorkerPool::ask(size_t index, const Json& request, double allowed) {
  Worker& worker = workers_[index];
  worker.busy = true;
  worker.asked = SteadyClock::now();
  worker.allowed = allowed;
  worker.asked_before = true;
  worker.process->channel().send(request);  // if it is dead, that is seen when it is waited for
}

WorkerEvent WorkerPool::died(size_t index, bool timed_out) {
  WorkerEvent event;
  event.worker = index;
  event.death = workers_[index].process->bury(timed_out);
  workers_[index] = {};
  return event;
}

std::optional<WorkerEvent> WorkerPool::look_at(size_t index, bool readable) {
  Worker& worker = workers_[index];
  Channel& channel = worker.process->channel();
  try {
    const Channel::State state = readable ? channel.read_available() : Channel::State::Open;
    if (std::optional<Json> answer = channel.next()) {
      worker.busy = false;
      WorkerEvent event;
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

// The first thing that happens within the time; also what has happened already.
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
    const double left = clock.left();
    if (left <= 0) return std::nullopt;
    double wait = std::min(left, kGlance);
    for (const Worker& w : workers_) {
      if (w.busy) wait = std::min(wait, w.allowed);
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
  throw_runtime_error("measurement workers die without a candidate to blame: " + death.message, {},
                      "see whether something kills the processes of this program");
}

void WorkerPool::settle() {
  for (Worker& w : workers_) {
    if (w.busy) w = {};
    if (w.process && w.asked_before) {
      Json forget = Json::object();
      forget["do"] = Json("forget");
      w.process->channel().send(forget);
      w.asked_before = false;
    }
  }
}

}  // namespace heddle::search
