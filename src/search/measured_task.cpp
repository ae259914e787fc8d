// What the candidates of a task share: its inputs, and room for the right answer.
#include "heddle/support/error.h"
#include "search/worker_main.h"

namespace heddle::search {
namespace {

bool is_output(const Tensor& t) { return !t.op()->is_placeholder(); }

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

NDArray random_input(const TuneTask& task, size_t i,
                     std::span<const std::shared_ptr<MeasuredTask>> others) {
  const Tensor& t = task.args[i];
  for (const std::shared_ptr<MeasuredTask>& other : others) {
    if (!other || other->task.make_input || i >= other->inputs.size()) continue;
    const NDArray& known = other->inputs[i];
    if (known.defined() && known.dtype() == t.dtype() && known.shape() == t.extents() &&
        same_range(task, other->task, i)) {
      return known;
    }
  }
  if (const std::optional<InputRange> r = range_of(task, i)) {
    return NDArray::random(t.extents(), t.dtype(), /*seed=*/i + 1, r->lo, r->hi);
  }
  return NDArray::random(t.extents(), t.dtype(), /*seed=*/i + 1);
}

}  // namespace

MeasuredTask::MeasuredTask(const TuneTask& of,
                           std::span<const std::shared_ptr<MeasuredTask>> others)
    : task(of) {
  for (size_t i = 0; i < task.args.size(); ++i) {
    const Tensor& t = task.args[i];
    if (is_output(t)) {
      inputs.emplace_back();
    } else if (task.make_input) {
      inputs.push_back(checked_input(task, i, task.make_input(i)));
    } else {
      inputs.push_back(random_input(task, i, others));
    }
  }
  reference = std::make_unique<Reference>(task.tmpl.dag());
}

}  // namespace heddle::search
