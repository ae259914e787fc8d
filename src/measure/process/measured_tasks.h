// The tasks that a measurer has seen, by the number under which workers know them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "measure/task/measured_task.h"
#include "measure/task/shared_memory.h"

namespace heddle::measuring {

class MeasuredTasks {
 public:
  /// The number of an equal task, if it is still stored.
  std::optional<int> find(const TuneTask& task) const;
  /// Makes the inputs of a new task. Where all tasks together take too much memory, the oldest lose
  /// their inputs. A network returns to its tasks in turn.
  int add(const TuneTask& task);

  /// The number of numbers that were given out. It exceeds what a worker knows when tasks are new.
  size_t count() const { return tasks_.size(); }
  MeasuredTask& operator[](int id) const { return *tasks_[static_cast<size_t>(id)]; }
  uint64_t key(int id) const { return keys_[static_cast<size_t>(id)]; }
  /// The message by which `workers` workers learn of the task; null when it was evicted.
  Json message(size_t id, size_t workers) const;
  /// The memory of inputs and references.
  const SharedMemory& memory() const { return memory_; }

 private:
  void evict();

  SharedMemory memory_;
  std::vector<std::shared_ptr<MeasuredTask>> tasks_;
  std::vector<uint64_t> keys_;  // 0 when evicted
};

}  // namespace heddle::measuring
