#include "measure/process/task.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "heddle/support/error.h"
#include "measure/process/limits.h"
#include "measure/process/weights_place.h"
#include "measure/task/code_json.h"

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

Json ranges_json(const std::vector<std::optional<InputRange>>& ranges) {
  Json out = Json::array();
  for (const auto& r : ranges) out.push_back(r ? Json::array({r->lo, r->hi}) : Json());
  return out;
}

std::vector<std::optional<InputRange>> ranges_from(const Json& list) {
  std::vector<std::optional<InputRange>> out;
  for (const Json& j : list.elements()) {
    out.emplace_back();
    if (!j.is_null()) out.back() = InputRange{j.at(0).as_double(), j.at(1).as_double()};
  }
  return out;
}

NDArray in_region(const MeasuredTask& of, size_t i) {
  const Tensor& t = of.task.args[i];
  return NDArray::wrap(of.regions[i]->data(), t.extents(), t.dtype());
}

TuneTask task_of(const Json& message, const Declaration& declaration) {
  const Target target = Target::parse(message.at("target").as_string());
  const AutoSchedulerOptions options = options_from_json(message.at("options"));
  return {.name = message.at("name").as_string(),
          .args = declaration.args,
          .tmpl = TemplateBuilder(declaration.dag, target, options).finish("declaration"),
          .input_ranges = ranges_from(message.at("ranges")),
          .network_bytes = message.get_int("network_bytes", 0)};
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
    out[std::to_string(i)] = Json(to_hex(
        std::string(static_cast<const char*>(values.data()), static_cast<size_t>(values.bytes()))));
  }
  return out;
}

std::function<NDArray(size_t)> inputs_from(const Json& message, const TuneTask& task) {
  const Json* values = message.find("values");
  if (values == nullptr || values->members().empty()) return {};
  std::map<size_t, NDArray> given;
  for (size_t i = 0; i < task.args.size(); ++i) {
    const Json* digits = values->find(std::to_string(i));
    if (digits == nullptr) continue;
    const Tensor& t = task.args[i];
    const std::string bytes = from_hex(digits->as_string());
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
Json described(int id, const TuneTask& task) {
  Json out = Json::object({{"do", "task"}, {"task", id}, {"name", task.name}});
  if (task.message) {
    for (const char* key :
         {"target", "declaration", "alternatives", "default", "options", "ranges"}) {
      out[key] = task.message->at(key);
    }
  } else {
    out["target"] = Json(to_string(task.tmpl.target()));
    out["declaration"] = declaration_to_json(task.tmpl.dag(), task.args);
    // Alternatives of rules that only this process has are included.
    Json alternatives = Json::array();
    for (int b = 0; b < task.tmpl.num_branches(); ++b) {
      const ComputeDag dag = task.tmpl.branch(b).dag();
      if (!dag.alternative().empty()) alternatives.push_back(declaration_to_json(dag, task.args));
    }
    out["alternatives"] = std::move(alternatives);
    out["default"] = task.tmpl.static_schedule().to_json();
    out["options"] = to_json(task.tmpl.options());
    out["ranges"] = ranges_json(task.input_ranges);
  }
  if (task.network_bytes > 0) out["network_bytes"] = Json(task.network_bytes);
  return out;
}

}  // namespace

Json task_message(int id, const MeasuredTask& of, bool own) {
  Json out = described(id, of.task);
  Json inputs = Json::array();
  for (const auto& region : of.regions) inputs.push_back(region ? region->place() : Json());
  out["inputs"] = std::move(inputs);
  out["own"] = Json(own);
  out["reference"] = of.reference->place();
  if (of.task.network_bytes > 0 && !of.task.tmpl.target().is_cuda()) {
    const std::optional<double> share = weights_from_memory(of.task.network_bytes);
    if (share) out["from_memory"] = Json(*share);
  }
  return out;
}

Json task_message_for_elsewhere(int id, const TuneTask& task) {
  Json out = described(id, task);
  Json values = values_json(task);
  if (!values.members().empty()) out["values"] = std::move(values);
  return out;
}

std::shared_ptr<MeasuredTask> told_task(const Json& message) {
  const Declaration declaration = declaration_from_json(message.at("declaration"));
  auto made = std::make_shared<MeasuredTask>(task_of(message, declaration));
  for (const Json& j : message.at("alternatives").elements()) {
    Declaration alternative = declaration_from_json(j);
    std::string name = alternative.dag.alternative();
    made->alternatives.insert_or_assign(std::move(name), std::move(alternative));
  }
  made->default_schedule = message.at("default");
  if (const Json* share = message.find("from_memory")) made->from_memory = share->as_double();
  made->task.make_input = inputs_from(message, made->task);
  return made;
}

Json WorkerTasks::answer(const Json& message) {
  Json out = Json::object({{"started", message.at("task")}});
  try {
    add(message);
  } catch (const std::exception& e) {
    out["message"] = Json(e.what());
  }
  return out;
}

void WorkerTasks::add(const Json& message) {
  const int64_t id = message.at("task").as_int();
  const std::shared_ptr<MeasuredTask> made = told_task(message);
  const Json* inputs = message.find("inputs");
  if (inputs && inputs->is_bool() && !inputs->as_bool()) {  // the worker only compiles
    tasks_[id] = made;
    return;
  }
  made->own_copies = message.get_bool("own", true);
  const std::vector<Tensor>& args = made->task.args;
  if (inputs && inputs->elements().size() != args.size())
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
  const Json* place = message.find("reference");
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
