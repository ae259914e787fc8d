#include "measure/process/compile_queue.h"

#include <algorithm>
#include <utility>

namespace heddle::measuring {
namespace {

// The most candidates whose code is kept. The code of one has some ten thousand bytes.
constexpr size_t kMostKept = 256;

}  // namespace

CompileQueue::Job& CompileQueue::add(uint64_t key, Compile request) {
  const int candidate = request.candidate;
  const auto [at, is_new] = jobs_.try_emplace(key, Job{.request = std::move(request)});
  at->second.request.candidate = candidate;
  if (!is_new) return at->second;
  if (const auto kept = kept_.find(key); kept != kept_.end()) {
    at->second.answer = kept->second;
  } else {
    queue_.push_back(key);
  }
  return at->second;
}

void CompileQueue::keep(uint64_t key) {
  if (kept_.size() >= kMostKept) kept_.clear();
  kept_[key] = *at(key).compiled();
}

void CompileQueue::put_first(std::span<const uint64_t> keys) {
  std::deque<uint64_t> first;
  for (const uint64_t key : keys) {
    const auto waiting = std::find(queue_.begin(), queue_.end(), key);
    if (waiting == queue_.end()) continue;
    queue_.erase(waiting);
    first.push_back(key);
  }
  queue_.insert(queue_.begin(), first.begin(), first.end());
}

void CompileQueue::feed(Workers workers, size_t tasks) {
  for (size_t w = workers.first; w < workers.last; ++w) {
    if (pool_.busy(w)) continue;
    while (!queue_.empty() && (!jobs_.contains(queue_.front()) || at(queue_.front()).answer))
      queue_.pop_front();
    if (queue_.empty()) return;
    if (!pool_.alive(w)) pool_.restart(w, tasks);
    at_work_[w] = queue_.front();
    queue_.pop_front();
    pool_.ask(w, at(at_work_[w]).request, timeout_);
  }
}

void CompileQueue::hear(const WorkerEvent& event) {
  const uint64_t key = std::exchange(at_work_[event.worker], 0);
  if (!event.answer && kept_in_worker_) {
    for (auto& [other, job] : jobs_) {
      if (!job.compiled() || job.worker != event.worker) continue;
      job.answer.reset();
      queue_.push_back(other);
    }
  }
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  if (!event.answer && event.death.candidate != job.request.candidate && job.deaths++ == 0) {
    pool_.forgive(event.death);
    queue_.push_front(key);
    return;
  }
  job.worker = event.worker;
  if (const std::optional<Failed> why = event.failure()) {
    job.answer = *why;
    nvrtc_ += why->nvrtc;
  } else {
    job.answer = event.answer->as<Compiled>();
    nvrtc_ += job.compiled()->nvrtc;
  }
  seconds_ += job.seconds();
}

bool CompileQueue::wait(std::span<const uint64_t> keys, Workers workers, size_t tasks,
                        const TuneClock& clock) {
  const auto done = [&](uint64_t key) { return at(key).answer.has_value(); };
  while (!std::all_of(keys.begin(), keys.end(), done)) {
    feed(workers, tasks);
    const std::optional<WorkerEvent> event = pool_.next_event(clock);
    if (!event) return false;
    hear(*event);
  }
  return true;
}

void CompileQueue::stop() {
  for (size_t w = 0; w < at_work_.size(); ++w) {
    if (pool_.busy(w)) pool_.kill(w);
    if (const uint64_t key = std::exchange(at_work_[w], 0); key != 0) queue_.push_front(key);
  }
}

void CompileQueue::clear() {
  jobs_.clear();
  queue_.clear();
  at_work_.assign(at_work_.size(), 0);
}

}  // namespace heddle::measuring
