#include "search/measured_tasks.h"

#include <algorithm>

namespace heddle::search {
namespace {

// Inputs of so many bytes are kept for tasks that come back.
constexpr int64_t kInputBytes = int64_t{2} << 30;

}  // namespace

std::optional<int> MeasuredTasks::find(const TuneTask& task) const {
  const auto known = std::find(keys_.begin(), keys_.end(), measured_task_key(task));
  if (known == keys_.end()) return std::nullopt;
  return static_cast<int>(known - keys_.begin());
}

int MeasuredTasks::add(const TuneTask& task) {
  evict();
  tasks_.push_back(std::make_shared<MeasuredTask>(task));
  keys_.push_back(measured_task_key(task));
  return static_cast<int>(tasks_.size()) - 1;
}

void MeasuredTasks::evict() {
  int64_t bytes = 0;
  for (size_t i = tasks_.size(); i-- > 0;) {
    if (!tasks_[i]) continue;
    for (const NDArray& a : tasks_[i]->inputs) bytes += a.defined() ? a.bytes() : 0;
    if (bytes <= kInputBytes) continue;
    tasks_[i] = nullptr;
    keys_[i] = 0;
  }
}

}  // namespace heddle::search
