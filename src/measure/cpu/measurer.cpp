#include "measure/cpu/batch.h"

#include <algorithm>
#include <cstdio>

#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
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

/// The memory of a worker above its start; 0: no limit.
int64_t memory_limit(const MeasureProtocol& protocol) {
  if (protocol.memory_limit_bytes > 0) return protocol.memory_limit_bytes;
  // In a container the file cache counts as used memory. The least limit keeps measuring possible
  // there.
  constexpr int64_t kLeastMemory = int64_t{512} << 20;
  const int64_t free = free_memory_bytes();
  return free > 0 ? std::max(free / 2, kLeastMemory) : 0;
}

}  // namespace

WorkerMeasurer::WorkerMeasurer(const WorkerOptions& options, bool always_base)
    : LocalMeasurer(options,
                    {.kind = WorkerKind::Cpu,
                     .measure = options.protocol,
                     .memory_limit_bytes = memory_limit(options.protocol)},
                    options.workers > 0 ? options.workers : default_num_threads(),
                    Runs::InItsWorker),
      always_base_(always_base) {}

// ---- tasks and workers -------------------------------------------------------------------------

/// Starts the first `count` workers and tells them every task.
void WorkerMeasurer::start_workers(size_t count) {
  const Lap lap(spent_, "start");
  workers_.start(count, tasks_.count());
}

// ---- the reference -----------------------------------------------------------------------------

bool WorkerMeasurer::compute_reference(int task, const TuneClock& clock) {
  const TuneTask& of = tasks_[task].task;
  const double threads = std::max(1, of.tmpl.target().cores);
  const bool slow = of.flops() / (kNaiveFlopsPerSecond * threads) > kNaiveSeconds;
  std::vector<ReferenceBy> ways{ReferenceBy::Vector, ReferenceBy::Default};
  if (!slow) ways.insert(ways.begin(), ReferenceBy::Naive);
  for (const ReferenceBy by : ways) {
    start_workers(1);
    workers_.ask(kRunner, MakeReference{task, by}, kReferenceTimeout);
    const std::optional<WorkerEvent> event = workers_.next_event(clock);
    if (!event) return false;
    workers_.rest(kRunner);
    if (hear_of_reference(task, *event)) break;
  }
  return true;
}

// ---- a batch -----------------------------------------------------------------------------------

size_t WorkerMeasurer::group_size(const Groups& groups) const {
  const auto workers = static_cast<double>(workers_.size());
  double count = kGroupSeconds * workers / mean_compile_;
  // Groups are smaller near the end, because compiled candidates must be measured too.
  const auto lanes = static_cast<double>(lanes_.at(groups.batch.task).count());
  const double each = mean_compile_ / workers + mean_run_ / lanes;
  count = std::min(count, 0.5 * groups.batch.clock.left_s() / each);
  count = std::max(count, workers);
  return std::min({groups.todo.size(), kLargestGroup, static_cast<size_t>(count)});
}

/// Returns false when the clock expired.
bool WorkerMeasurer::compile_group(Groups& groups, const std::vector<size_t>& group) {
  Batch& batch = groups.batch;
  const size_t count = std::min(workers_.size(), group.size());
  start_workers(count);
  const Lap lap(spent_, "compile");
  std::vector<uint64_t> keys;
  for (const size_t i : group) {
    keys.push_back(add_job(batch.task, i, batch.schedules[i], false));
    compiling_.feed({0, count}, tasks_.count());  // workers begin while the others are written
  }
  const bool in_time = compiling_.wait(keys, {0, count}, tasks_.count(), batch.clock);
  for (std::vector<size_t>& list : groups.compiled) list.clear();
  for (size_t k = 0; k < group.size(); ++k) {
    const CompileQueue::Job& job = compiling_.at(keys[k]);
    if (job.failed()) finish(batch, group[k], failed(*job.failed()));
    if (!job.compiled()) continue;
    groups.compile_seconds[group[k]] = job.seconds();
    mean_compile_ = 0.9 * mean_compile_ + 0.1 * job.seconds();
    groups.compiled[job.worker].push_back(group[k]);
  }
  for (const uint64_t key : keys) compiling_.erase(key);
  return in_time;
}

void WorkerMeasurer::run(Batch& batch) {
  const Lap lap(spent_, "wait");
  Groups groups{batch};
  groups.compiled.resize(workers_.size());
  for (size_t i = 0; i < batch.schedules.size(); ++i) groups.todo.push_back(i);
  open_lanes(batch.task);
  while (!groups.todo.empty() && !batch.clock.expired()) {
    const auto count = static_cast<ptrdiff_t>(group_size(groups));
    const std::vector<size_t> group(groups.todo.begin(), groups.todo.begin() + count);
    groups.todo.erase(groups.todo.begin(), groups.todo.begin() + count);
    if (!compile_group(groups, group) || !run_group(groups)) break;
  }
  settle();
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
