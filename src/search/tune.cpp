#include "heddle/search/tune.h"

#include "heddle/records/tophub.h"
#include "search/tuner.h"

namespace heddle {
namespace {

// "relu[64x56x56]"
std::string name_of(const std::vector<Tensor>& outputs) {
  std::string name;
  for (const Tensor& t : outputs) {
    std::string shape;
    for (int64_t e : t.extents()) shape += (shape.empty() ? "" : "x") + std::to_string(e);
    name += (name.empty() ? "" : "+") + t.name() + "[" + shape + "]";
  }
  return name;
}

}  // namespace

TuneReport tune_tasks(std::vector<TuneTask> tasks, const TuneOptions& options) {
  TuneReport report = Tuner(std::move(tasks), options).run();
  // The log may be one that create_schedule consults: what was found now is to be found there.
  if (!options.log.empty()) reload_tophub();
  return report;
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
