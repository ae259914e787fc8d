// How near the best of each task is to what more tuning would find.
#include "heddle/heuristics/certificate.h"
#include "heddle/support/error.h"
#include "search/least_seconds.h"
#include "search/tuner.h"

namespace heddle::search {

double Tuner::within() const { return options_.until > 0 ? options_.until : kCertifiedShare; }

void Tuner::read_certificate(TaskRun& run) {
  if (options_.until <= 0) return;
  const Template& t = run.task.tmpl;
  try {
    run.nearness = Nearness(certify(t.dag().direct(), t.target(), t.options()).probability);
  } catch (const Error& e) {
    problems_.push_back("the certificate of '" + run.task.name + "' was not read: " + e.message);
  }
}

// Times of another measurer are not of this machine.
double Tuner::least_seconds_of(const TaskRun& run) const {
  return own_measurer_ ? least_seconds(run.task) : 0;
}

double Tuner::another_minute() const {
  constexpr double kMinute = 60;
  std::vector<TunedTask> tasks;
  for (const TaskRun& run : runs_) {
    if (run.in_doubt() || run.best_seconds() <= 0) continue;
    tasks.push_back({.nearness = run.nearness,
                     .seconds = weight_of(run) * run.best_seconds(),
                     .least_seconds = weight_of(run) * least_seconds_of(run),
                     .trial_seconds = run.seconds_per_trial()});
  }
  return expected_gain(tasks, kMinute);
}

}  // namespace heddle::search
