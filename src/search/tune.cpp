#include "heddle/search/tune.h"

#include <algorithm>

#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "search/tune_apart.h"
#include "search/tuner.h"
#include "search/user_choices.h"

namespace heddle {

using namespace search;
namespace {

// The name of a task: "relu[64x56x56]".
std::string name_of(const std::vector<Tensor>& outputs) {
  std::string name;
  for (const Tensor& t : outputs) {
    std::string shape;
    for (int64_t e : t.extents()) shape += (shape.empty() ? "" : "x") + std::to_string(e);
    name += (name.empty() ? "" : "+") + t.name() + "[" + shape + "]";
  }
  return name;
}

// A batch may be empty. All its schedules take the same time.
bool has_elements(const TuneTask& task) {
  const std::vector<Tensor>& outputs = task.tmpl.dag().direct().outputs();
  return std::any_of(outputs.begin(), outputs.end(), [](const Tensor& t) { return t.size() > 0; });
}

TaskResult untuned(const TuneTask& task) {
  return {.name = task.name,
          .config = task.tmpl.default_config(),
          .schedule = task.tmpl.static_schedule(),
          .static_seconds = 0,
          .best_seconds = 0};
}

TuneReport run(std::vector<TuneTask> tasks, const TuneOptions& options, Gains gains) {
  std::vector<TuneTask> with_work;
  for (const TuneTask& t : tasks) {
    if (has_elements(t)) with_work.push_back(t);
  }
  if (with_work.size() == tasks.size()) return Tuner(std::move(tasks), options, gains).run();
  TuneReport report;
  if (with_work.empty()) {
    report.ended = TuneEnd::Converged;
    report.log = options.log;
  } else {
    report = Tuner(std::move(with_work), options, gains).run();
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (has_elements(tasks[i])) continue;
    report.tasks.insert(report.tasks.begin() + static_cast<std::ptrdiff_t>(i), untuned(tasks[i]));
  }
  return report;
}

/// Runs, and lets create_schedule find the new records where it consults this log.
TuneReport run_and_reload(std::vector<TuneTask> tasks, const TuneOptions& options, Gains gains) {
  TuneReport report = run(std::move(tasks), options, gains);
  if (!options.log.empty()) reload_tophub();
  return report;
}

}  // namespace

TuneReport search::tune_apart(std::vector<TuneTask> tasks, const TuneOptions& options) {
  return run_and_reload(std::move(tasks), options, Gains::OfEachTask);
}

TuneReport tune_tasks(std::vector<TuneTask> tasks, const TuneOptions& options) {
  if (!options.choices.empty()) {
    if (tasks.size() != 1)
      throw_user_error(
          "TuneOptions::choices are for one task, and there are " + std::to_string(tasks.size()),
          {}, "tune that task by itself");
    tasks[0] = with_choices(std::move(tasks[0]), options.choices);
  }
  return run_and_reload(std::move(tasks), options, Gains::OfTheSum);
}

TuneResult tune(const std::vector<Tensor>& outputs, const TuneOptions& options) {
  TuneTask task = make_task(name_of(outputs), outputs, options.target.value_or(Target::host()), {},
                            options.scheduler.value_or(current_auto_scheduler_options()));
  TuneReport report = tune_tasks({std::move(task)}, options);
  TuneResult result{report.tasks.at(0), {}};
  result.report = std::move(report);
  return result;
}

}  // namespace heddle
