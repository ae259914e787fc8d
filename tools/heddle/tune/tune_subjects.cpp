#include "tune/tune_subjects.h"

#include <cctype>
#include <utility>

#include "heddle/dag/compute_dag.h"
#include "subjects.h"

namespace heddle::cli {
namespace {

std::vector<TuneTask> tasks_of_problem(const Problem& problem, const Target& target) {
  TuneTask task = make_task(problem.subject, problem.outputs, target, problem.args());
  task.make_input = [problem](size_t arg) { return problem.make_input(arg); };
  return {std::move(task)};
}

}  // namespace

void TaskList::add(TuneTask task, TaskScale scale) {
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].hash() != task.hash()) continue;
    tasks[i].weight += task.weight;
    calls[i] += task.weight;
    return;
  }
  calls.push_back(task.weight);
  tasks.push_back(std::move(task));
  scales.push_back(scale);
}

TaskList tasks_of(const std::vector<Workload>& subjects, const Target& target) {
  TaskList list;
  for (const Workload& w : subjects) {
    const Problem problem = make_problem(w.subject, w.dtype);
    const double bytes = static_cast<double>(problem.bytes);
    for (TuneTask& task : tasks_of_problem(problem, target)) {
      list.add(std::move(task),
               {problem.bound, problem.bound == Bound::Compute ? problem.flops : bytes, 0});
    }
  }
  return list;
}

std::string default_log_name(const std::vector<std::string>& subjects) {
  constexpr size_t kLongest = 80;
  std::string name;
  for (const char c : subjects.empty() ? "" : subjects[0]) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
    // One dash for whatever stands between words.
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
