#include "tune/tune_subjects.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "heddle/dag/compute_dag.h"
#include "heddle/network/network.h"
#include "subjects/model_subject.h"
#include "subjects/subjects.h"

namespace heddle::cli {
namespace {

bool is_network(const std::string& subject) {
  return is_model(subject) || subject_kind(subject.substr(0, subject.find(':'))).network;
}

// The scale of a part of a network, which has no subject. It is bound by arithmetic where its
// operands are reused.
TaskScale scale_of(const ComputeDag& dag) {
  for (int i = 0; i < dag.size(); ++i) {
    if (dag.info(i).stage_class == StageClass::ComplexReduction) {
      return {Bound::Compute, dag.total_flops(), 0};
    }
  }
  return {Bound::Copy, static_cast<double>(dag.compulsory_bytes()), 0};
}

/// `prefix` distinguishes the tasks of several subjects.
void add_network(TaskList* list, const Network& network, const std::string& prefix,
                 DataType dtype) {
  for (TuneTask task : network.tasks_to_tune()) {
    task.name = prefix + task.name;
    const TaskScale scale = scale_of(task.tmpl.dag());
    list->add(std::move(task), scale, dtype);
  }
  list->networks = true;
}

void add_kernel(TaskList* list, const Problem& problem, const Target& target) {
  TuneTask task = make_task(problem.subject, problem.outputs, target, problem.args());
  for (const Range& r : problem.ranges) task.input_ranges.emplace_back(InputRange{r.low, r.high});
  const double bytes = static_cast<double>(problem.bytes);
  const TaskScale scale{problem.bound, problem.bound == Bound::Compute ? problem.flops : bytes, 0};
  list->add(std::move(task), scale, problem.dtype);
}

}  // namespace

void TaskList::add(TuneTask task, TaskScale scale, DataType dtype) {
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].hash() != task.hash()) continue;
    tasks[i].weight += task.weight;
    calls[i] += task.weight;
    return;
  }
  calls.push_back(task.weight);
  tasks.push_back(std::move(task));
  scales.push_back(scale);
  dtypes.push_back(dtype);
}

TaskList tasks_of(const Network& network, DataType dtype) {
  TaskList list;
  add_network(&list, network, "", dtype);
  list.network = network;
  return list;
}

TaskList tasks_of(const std::vector<Workload>& subjects, const Target& target) {
  TaskList list;
  for (const Workload& w : subjects) {
    const Problem problem =
        is_model(w.subject) ? model_problem(w.subject, w.dtype) : make_problem(w.subject, w.dtype);
    if (is_network(w.subject)) {
      const Network network(problem.outputs, target, current_auto_scheduler_options(), {},
                            problem.updates);
      if (subjects.size() == 1) {
        TaskList one = tasks_of(network, problem.dtype);
        one.dims = problem.dims;
        return one;
      }
      add_network(&list, network, problem.subject + " ", problem.dtype);
    } else {
      add_kernel(&list, problem, target);
    }
  }
  return list;
}

std::string default_log_name(const std::vector<std::string>& subjects) {
  constexpr size_t kLongest = 80;
  std::string name, subject = subjects.empty() ? "" : subjects[0];
  subject.erase(0, model_path(subject).rfind('/') + 1);  // the folder of a model
  for (const char c : subject) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
    // Everything between words becomes one dash.
    if (plain) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  name.resize(std::min(name.size(), kLongest));
  if (subjects.size() > 1) name += "-and-" + std::to_string(subjects.size() - 1) + "-more";
  return "heddle-" + name + ".jsonl";
}

}  // namespace heddle::cli
