#include "measure/process/measured_tasks.h"

#include <algorithm>
#include <set>

#include "measure/process/pool.h"
#include "measure/process/task.h"

namespace heddle::measuring {
namespace {

// Bytes of inputs and references that are kept for tasks that are measured again. At most a quarter
// of the free memory is used.
constexpr int64_t kKeptBytes = int64_t{2} << 30;

int64_t kept_bytes() { return std::max(kKeptBytes, free_memory_bytes() / 4); }

}  // namespace

std::optional<int> MeasuredTasks::find(const TuneTask& task) const {
  const auto known = std::find(keys_.begin(), keys_.end(), measured_task_key(task));
  if (known == keys_.end()) return std::nullopt;
  return static_cast<int>(known - keys_.begin());
}

int MeasuredTasks::add(const TuneTask& task) {
  evict();
  tasks_.push_back(make_measured_task(task, memory_, tasks_));
  tasks_.back()->default_schedule = static_choice_of(task);
  keys_.push_back(measured_task_key(task));
  return static_cast<int>(tasks_.size()) - 1;
}

Json MeasuredTasks::message(size_t id, size_t workers) const {
  if (!tasks_[id]) return {};
  // Each worker has its own copy, unless the copies of all would take too much memory.
  const int64_t copies = tasks_[id]->input_bytes() * static_cast<int64_t>(workers);
  return encode(task_message(static_cast<int>(id), *tasks_[id], copies <= free_memory_bytes() / 8));
}

void MeasuredTasks::evict() {
  const int64_t most = kept_bytes();
  std::set<const void*> counted;  // inputs that tasks share count once
  int64_t bytes = 0;
  for (size_t i = tasks_.size(); i-- > 0;) {
    if (!tasks_[i]) continue;
    for (const NDArray& a : tasks_[i]->inputs) {
      if (a.defined() && counted.insert(a.data()).second) bytes += a.bytes();
    }
    bytes += tasks_[i]->reference->bytes();
    if (bytes <= most) continue;
    tasks_[i] = nullptr;
    keys_[i] = 0;
  }
}

}  // namespace heddle::measuring
