#include "measure/task/measured_task.h"

#include <algorithm>
#include <bit>

#include "heddle/support/error.h"
#include "support/hashing/hash.h"

namespace heddle::measuring {
namespace {

NDArray checked_input(const TuneTask& task, size_t i, NDArray array) {
  const Tensor& t = task.args[i];
  if (array.defined() && array.dtype() == t.dtype() && array.shape() == t.extents()) return array;
  throw_user_error("make_input of task '" + task.name + "' gave " +
                       (array.defined() ? describe(array) : "no array") + " for argument " +
                       std::to_string(i) + " ('" + t.name() + "')",
                   t.op()->where(), "give it the type and the shape of its placeholder");
}

std::optional<InputRange> range_of(const TuneTask& task, size_t i) {
  return i < task.input_ranges.size() ? task.input_ranges[i] : std::nullopt;
}

bool same_range(const TuneTask& a, const TuneTask& b, size_t i) {
  const std::optional<InputRange> x = range_of(a, i), y = range_of(b, i);
  if (!x || !y) return !x && !y;
  return x->lo == y->lo && x->hi == y->hi;
}

/// Another task that has random input `i` of this one.
const MeasuredTask* who_has(const TuneTask& task, size_t i,
                            std::span<const std::shared_ptr<MeasuredTask>> others) {
  const Tensor& t = task.args[i];
  for (const std::shared_ptr<MeasuredTask>& other : others) {
    if (!other || other->task.make_input || i >= other->inputs.size()) continue;
    const NDArray& known = other->inputs[i];
    if (other->task.args[i].op()->data() != nullptr) continue;
    if (known.defined() && known.dtype() == t.dtype() && known.shape() == t.extents() &&
        same_range(task, other->task, i)) {
      return other.get();
    }
  }
  return nullptr;
}

}  // namespace

NDArray random_input(const TuneTask& task, size_t i) {
  const Tensor& t = task.args[i];
  if (const std::optional<InputRange> r = range_of(task, i))
    return NDArray::random(t.extents(), t.dtype(), /*seed=*/i + 1, r->lo, r->hi);
  return NDArray::random(t.extents(), t.dtype(), /*seed=*/i + 1);
}

int64_t MeasuredTask::input_bytes() const {
  int64_t bytes = 0;
  for (const NDArray& a : inputs) bytes += a.defined() ? a.bytes() : 0;
  return bytes;
}

std::shared_ptr<MeasuredTask> make_measured_task(
    const TuneTask& task, SharedMemory& memory,
    std::span<const std::shared_ptr<MeasuredTask>> others) {
  auto made = std::make_shared<MeasuredTask>(task);
  for (size_t i = 0; i < task.args.size(); ++i) {
    const Tensor& t = task.args[i];
    made->inputs.emplace_back();
    made->regions.emplace_back();
    if (is_output(t)) continue;
    if (const MeasuredTask* other =
            task.make_input || t.op()->data() ? nullptr : who_has(task, i, others)) {
      made->inputs[i] = other->inputs[i];
      made->regions[i] = other->regions[i];
      continue;
    }
    const NDArray values = task.make_input  ? checked_input(task, i, task.make_input(i))
                           : t.op()->data() ? *t.op()->data()
                                            : random_input(task, i);
    made->regions[i] =
        std::make_shared<SharedRegion>(memory.allocate(std::max<int64_t>(values.bytes(), 1)));
    made->inputs[i] = NDArray::wrap(made->regions[i]->data(), t.extents(), t.dtype());
    made->inputs[i].copy_from(values);
  }
  made->reference =
      std::make_unique<Reference>(task.tmpl.dag(), task.tmpl.options().allow_tf32,
                                  [&](int64_t bytes) { return memory.allocate(bytes); });
  return made;
}

uint64_t measured_task_key(const TuneTask& task) {
  uint64_t key = hash_combine(hash_string(task.name), task.hash());
  key = hash_combine(key, hash_string(to_json(task.tmpl.options()).dump()));
  for (const Tensor& t : task.args) {
    const int stage = task.tmpl.dag().index_of(t.op());
    key = hash_combine(key, static_cast<uint64_t>(stage) << 8 | static_cast<uint64_t>(t.index()));
    const NDArray* values = t.op()->data();
    if (values) key = hash_combine(key, reinterpret_cast<uint64_t>(values->data()));
  }
  key = hash_combine(key, static_cast<uint64_t>(task.network_bytes));
  for (const std::optional<InputRange>& r : task.input_ranges) {
    key = hash_combine(
        key, r ? hash_combine(std::bit_cast<uint64_t>(r->lo), std::bit_cast<uint64_t>(r->hi)) : 0);
  }
  return key;
}

}  // namespace heddle::measuring
