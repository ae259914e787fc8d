#include "heddle/search/tune_family.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "search/tune_apart.h"

namespace heddle {

using namespace search;
namespace {

std::string name_of(const Instance& at) {
  std::string name;
  for (const Tensor& t : at.outputs) {
    name += name.empty() ? "" : "+";
    name += t.name() + "[";
    for (size_t d = 0; d < t.extents().size(); ++d)
      name += (d ? "x" : "") + std::to_string(t.extents()[d]);
    name += "]";
  }
  return name;
}

/// The best schedule of each instance. Points whose schedules are chosen at the same size share
/// one. `report`: that of the tuning.
std::vector<Schedule> tuned_schedules(std::span<const Instance> at, const TuneOptions& tuning,
                                      TuneReport& report) {
  std::vector<TuneTask> tasks;
  std::vector<size_t> task_of;
  for (const Instance& one : at) {
    TuneTask task = make_task(name_of(one), one.outputs, *tuning.target, {}, *tuning.scheduler);
    size_t t = 0;
    while (t < tasks.size() && tasks[t].hash() != task.hash()) ++t;
    task_of.push_back(t);
    if (t == tasks.size()) tasks.push_back(std::move(task));
  }
  report = tune_apart(std::move(tasks), tuning);
  std::vector<Schedule> schedules;
  for (const size_t t : task_of) schedules.push_back(report.tasks.at(t).schedule);
  return schedules;
}

}  // namespace

FamilyResult tune_family(const std::vector<Dim>& dims, const std::vector<Tensor>& args,
                         const FamilyOptions& family, const TuneOptions& tuning) {
  if (!tuning.choices.empty())
    throw_user_error("choices of the caller's cannot be tuned for a family", {},
                     "tune them at one size: at_sizes (dag/instance.h)");
  FamilyOptions options = family;
  if (tuning.target) options.target = tuning.target;
  if (tuning.scheduler) options.scheduler = *tuning.scheduler;
  TuneOptions here = tuning;
  here.budget = std::max(tuning.budget - std::chrono::duration<double>(1.25 * family.race_seconds),
                         std::chrono::duration<double>(0));
  here.target = options.target.value_or(Target::host());
  here.scheduler = options.scheduler;
  here.scheduler->use_alternatives = false;
  TuneReport report;
  options.choose = [&](std::span<const Instance> at) { return tuned_schedules(at, here, report); };
  FamilyResult result = choose_family(dims, args, options);
  result.problems.insert(result.problems.end(), report.problems.begin(), report.problems.end());
  result.unwritten = report.unwritten;
  return result;
}

}  // namespace heddle
