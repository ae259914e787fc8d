#include "measure/process/task.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "heddle/support/error.h"
#include "measure/process/limits.h"
#include "measure/process/weights_place.h"
#include "support/hashing/hex.h"

namespace heddle::measuring {
namespace {

int64_t bytes_of(const Tensor& t) {
  int64_t bytes = t.dtype().bytes();
  for (const int64_t e : t.extents()) {
    if (__builtin_mul_overflow(bytes, e, &bytes))
      throw_user_error("'" + t.name() + "' is too large");
  }
  return std::max<int64_t>(bytes, 1);  // also without elements
}

NDArray in_region(const MeasuredTask& of, size_t i) {
  const Tensor& t = of.task.args[i];
  return NDArray::wrap(of.regions[i]->data(), t.extents(), t.dtype());
}

TuneTask task_of(const TaskMessage& message, const Declaration& declaration) {
  const Target target = Target::parse(message.target);
  const AutoSchedulerOptions options = options_from_json(message.options);
  TuneTask out{.name = message.name,
               .args = declaration.args,
               .tmpl = TemplateBuilder(declaration.dag, target, options).finish("declaration"),
               .network_bytes = message.network_bytes};
  for (const auto& range : message.ranges) {
    out.input_ranges.emplace_back();
    if (range) out.input_ranges.back() = InputRange{(*range)[0], (*range)[1]};
  }
  return out;
}

// The largest number of values that are sent. Frames have a limit, and each machine would have to
// store the values.
constexpr int64_t kMostValues = int64_t{64} << 20;

/// {argument: digits} for the inputs that another machine would not draw in the same way: those
/// that the caller makes, and integer constants, which may be indices. Other constants are only
/// multiplied.
Json values_json(const TuneTask& task) {
  Json out = Json::object();
  int64_t bytes = 0;
  for (size_t i = 0; i < task.args.size(); ++i) {
    const Tensor& t = task.args[i];
    if (is_output(t)) continue;
    const NDArray* constant = t.op()->data();
    const bool drawn = constant ? t.dtype().is_float() : !task.make_input;
    if (drawn) continue;
    const NDArray values = task.make_input ? task.make_input(i) : *constant;
    bytes += values.bytes();
    if (bytes > kMostValues) {
      throw_user_error("the inputs of task '" + task.name + "' are too large to be sent", {},
                       "give ranges of random inputs (TuneTask::input_ranges) in place of values");
    }
    out[std::to_string(i)] = Json(bytes_to_hex(
        std::string(static_cast<const char*>(values.data()), static_cast<size_t>(values.bytes()))));
  }
  return out;
}

std::function<NDArray(size_t)> inputs_from(const TaskMessage& message, const TuneTask& task) {
  const std::optional<Json>& values = message.values;
  if (!values || values->members().empty()) return {};
  std::map<size_t, NDArray> given;
  for (size_t i = 0; i < task.args.size(); ++i) {
    const Json* digits = values->find(std::to_string(i));
    if (digits == nullptr) continue;
    const Tensor& t = task.args[i];
    const std::string bytes = bytes_from_hex(digits->as_string());
    if (bytes_of(t) != static_cast<int64_t>(bytes.size()))
      throw_user_error("the values of input '" + t.name() + "' are of another size");
    given[i] = NDArray::empty(t.extents(), t.dtype());
    std::memcpy(given[i].data(), bytes.data(), bytes.size());
  }
  TuneTask plain = task;
  return [given, plain](size_t i) {
    const auto at = given.find(i);
    return at == given.end() ? random_input(plain, i) : at->second;
  };
}

/// All members of the message of a task except the location of its inputs.
TaskMessage described(int id, const TuneTask& task) {
  TaskMessage out;
  if (task.message) {
    out = decode<TaskMessage>(*task.message);
    out.values.reset();
  } else {
    out.target = to_string(task.tmpl.target());
    out.declaration = declaration_to_json(task.tmpl.dag(), task.args);
    // Alternatives of rules that only this process has are included.
    for (int b = 0; b < task.tmpl.num_branches(); ++b) {
      const ComputeDag dag = task.tmpl.branch(b).dag();
      if (!dag.alternative().empty())
        out.alternatives.push_back(declaration_to_json(dag, task.args));
    }
    out.static_choice = static_choice_of(task);
    out.options = to_json(task.tmpl.options());
    for (const auto& range : task.input_ranges) {
      out.ranges.emplace_back();
      if (range) out.ranges.back() = {range->lo, range->hi};
    }
  }
  out.task = id;
  out.name = task.name;
  out.network_bytes = task.network_bytes;
  return out;
}

}  // namespace

TaskMessage task_message(int id, const MeasuredTask& of, bool own) {
  TaskMessage out = described(id, of.task);
  std::vector<Json>& inputs = out.inputs.emplace();
  for (const auto& region : of.regions) inputs.push_back(region ? region->place() : Json());
  out.own = own;
  out.reference = of.reference->place();
  if (of.task.network_bytes > 0 && !of.task.tmpl.target().is_cuda())
    out.from_memory = weights_from_memory(of.task.network_bytes);
  return out;
}

TaskMessage task_message_for_elsewhere(int id, const TuneTask& task) {
  TaskMessage out = described(id, task);
  Json values = values_json(task);
  if (!values.members().empty()) out.values = std::move(values);
  return out;
}

Json static_choice_of(const TuneTask& task) {
  return task.message ? decode<TaskMessage>(*task.message).static_choice
                      : task.tmpl.static_schedule().to_json();
}

std::shared_ptr<MeasuredTask> told_task(const TaskMessage& message) {
  const Declaration declaration = declaration_from_json(message.declaration);
  auto made = std::make_shared<MeasuredTask>(task_of(message, declaration));
  for (const Json& j : message.alternatives) {
    Declaration alternative = declaration_from_json(j);
    std::string name = alternative.dag.alternative();
    made->alternatives.insert_or_assign(std::move(name), std::move(alternative));
  }
  made->default_schedule = message.static_choice;
  made->from_memory = message.from_memory;
  made->task.make_input = inputs_from(message, made->task);
  return made;
}

Started WorkerTasks::answer(const TaskMessage& message) {
  try {
    add(message);
  } catch (const std::exception& e) {
    return {.message = e.what()};
  }
  return {};
}

void WorkerTasks::add(const TaskMessage& message) {
  const int64_t id = message.task;
  const std::shared_ptr<MeasuredTask> made = told_task(message);
  if (message.only_compiles) {
    tasks_[id] = made;
    return;
  }
  const std::optional<std::vector<Json>>& inputs = message.inputs;
  made->own_copies = message.own.value_or(true);
  const std::vector<Tensor>& args = made->task.args;
  if (inputs && inputs->size() != args.size())
    throw_user_error("the task has another number of arguments than of inputs");
  for (size_t i = 0; i < args.size(); ++i) {
    made->inputs.emplace_back();
    made->regions.emplace_back();
    if (is_output(args[i])) continue;
    const int64_t bytes = bytes_of(args[i]);
    if (!inputs) {
      allow_more_memory(bytes);
      made->inputs[i] =
          made->task.make_input ? made->task.make_input(i) : random_input(made->task, i);
      continue;
    }
    made->regions[i] = std::make_shared<SharedRegion>(
        SharedRegion::map(shared_fd_, inputs->at(i), bytes, SharedRegion::Access::Private));
    made->inputs[i] = in_region(*made, i);
  }
  const std::optional<Json>& place = message.reference;
  const Template& tmpl = made->task.tmpl;
  made->reference =
      std::make_unique<Reference>(tmpl.dag(), tmpl.options().allow_tf32, [&](int64_t bytes) {
        return place ? SharedRegion::map(shared_fd_, *place, bytes, SharedRegion::Access::Shared)
                     : SharedRegion::anonymous(bytes);
      });
  if (id == held_) held_ = -1;
  tasks_[id] = made;
}

void WorkerTasks::hold(int64_t id) {
  if (id == held_) return;
  for (const auto& [other, task] : tasks_) {
    if ((other != id && other != held_) || !task->own_copies) continue;
    for (size_t i = 0; i < task->inputs.size(); ++i) {
      if (!task->regions[i]) continue;
      const int64_t bytes = task->inputs[i].bytes();
      allow_more_memory(other == id ? bytes : -bytes);
      task->inputs[i] = in_region(*task, i);
      if (other != id) continue;
      try {
        task->inputs[i] = task->inputs[i].copy();
      } catch (const Error&) {
        // Without memory for a copy, the input is used where it is.
      }
    }
  }
  held_ = id;
}

ReplayedSchedule replay_schedule(const MeasuredTask& of, const Json& steps) {
  const Target& target = of.task.tmpl.target();
  const auto told = of.alternatives.find(steps.get_string("alternative", ""));
  if (told == of.alternatives.end())
    return {Schedule::from_json(steps, of.task.tmpl.dag(), target), of.task.args};
  const Declaration& graph = told->second;
  return {Schedule::from_json(steps, graph.dag, target), graph.args};
}

const MeasuredTask& WorkerTasks::at(int64_t id) const {
  const auto known = tasks_.find(id);
  if (known == tasks_.end())
    throw_user_error("this worker was never sent task " + std::to_string(id));
  return *known->second;
}

}  // namespace heddle::measuring
