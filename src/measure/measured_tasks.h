// The tasks that a measurer has met, by number: what its workers are told of them by.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "measure/measured_task.h"
#include "measure/shared_memory.h"

namespace heddle::measuring {

class MeasuredTasks {
 public:
  /// The number of an equal task, where it is still there.
  std::optional<int> find(const TuneTask& task) const;
  /// Makes the inputs of a new task. The oldest lose theirs where all together take too much: a
  /// network comes back to its tasks in turn.
  int add(const TuneTask& task);

  /// So many numbers were given: what grows when workers know less than there is.
  size_t count() const { return tasks_.size(); }
  MeasuredTask& operator[](int id) const { return *tasks_[static_cast<size_t>(id)]; }
  uint64_t key(int id) const { return keys_[static_cast<size_t>(id)]; }
  /// What `workers` of them are told of it (worker_protocol.h); null when it was evicted.
  Json message(size_t id, size_t workers) const;
  /// Where inputs and references are.
  const SharedMemory& memory() const { return memory_; }

 private:
  void evict();

  SharedMemory memory_;
  std::vector<std::shared_ptr<MeasuredTask>> tasks_;
  std::vector<uint64_t> keys_;  // 0 when evicted
};

}  // namespace heddle::measuring
