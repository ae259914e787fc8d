// Trials of a fleet: the way from a schedule to the one result that is reported.
#include <algorithm>

#include "heddle/support/error.h"
#include "measure/fleet/measurer.h"
#include "measure/task/steps_hash.h"
#include "support/hashing/hash.h"

namespace heddle::measuring {
namespace {

// A candidate is blamed when this number of devices died with it and it was alone on the last of
// them.
constexpr int kDeadly = 3;
// The largest number of announced trials that are kept although the search has not asked for them.
constexpr size_t kMostAnnounced = 4096;

}  // namespace

uint64_t FleetMeasurer::trial_key(int task, const Schedule& schedule) const {
  return hash_combine(tasks_[static_cast<size_t>(task)].key, steps_hash(schedule));
}

int64_t FleetMeasurer::new_trial(int task, const Schedule& schedule, uint64_t key, bool no_spills,
                                 bool urgent) {
  const int64_t number = next_trial_++;
  Trial trial{.task = task, .key = key, .steps = schedule.to_json()};
  if (compiles_apart()) trial.job = job_of(task, trial.steps, key, no_spills, urgent);
  trials_.emplace(number, std::move(trial));
  return number;
}

void FleetMeasurer::forget_trial(int64_t number) {
  const auto found = trials_.extract(number);
  if (!found.empty() && found.mapped().job > 0) drop_jobs({found.mapped().job});
}

/// Forgets what was announced and will not be asked for, so that no compiler and no further round
/// works on it.
void FleetMeasurer::forget_announced() {
  for (const auto& [key, number] : announced_) forget_trial(number);
  announced_.clear();
}

/// Returns null for a trial that is not known or that has its result.
FleetMeasurer::Trial* FleetMeasurer::open_trial(int64_t number) {
  const auto at = trials_.find(number);
  return at == trials_.end() || at->second.result ? nullptr : &at->second;
}

bool FleetMeasurer::prefetch(const TuneTask& task, std::span<const Schedule> schedules) {
  if (!compiles_apart() && width() < 2) return false;
  const int number = task_number(task);
  if (!schedules.empty()) base_job(number);
  for (const Schedule& s : schedules) {
    const uint64_t key = trial_key(number, s);
    if (!announced_.contains(key)) announced_[key] = new_trial(number, s, key, true, false);
  }
  while (announced_.size() > kMostAnnounced) {
    forget_trial(announced_.begin()->second);
    announced_.erase(announced_.begin());
  }
  return true;
}

/// Reports the result, or keeps it until the trial is asked for.
void FleetMeasurer::settle(Batch& batch, int64_t number, const MeasureResult& result) {
  Trial& trial = trials_.at(number);
  MeasureResult out = result;
  if (const auto job = jobs_.find(trial.job); job != jobs_.end())
    out.compile_seconds = std::max(out.compile_seconds, job->second.seconds);
  if (!trial.index) {
    trial.result = std::move(out);
    return;
  }
  const size_t index = *trial.index;
  forget_trial(number);
  --batch.left;
  batch.done(index, out);
}

void FleetMeasurer::take_results(Batch& batch, const RoundReport& report, FleetDevice* device) {
  if (!report.results) return;
  double base = 0;
  int task = 0;
  for (const Json& json : *report.results) {
    TrialResult read = decode<TrialResult>(json);
    MeasureResult& result = read.result;
    const int64_t number = read.trial;
    const Trial* trial = open_trial(number);
    if (trial == nullptr) continue;  // a late or second answer
    if (result.error == MeasureError::Cancelled) continue;
    task = trial->task;
    if (base == 0) base = result.base_seconds;
    Known& known = tasks_[static_cast<size_t>(task)];
    if (known.first_base == 0) known.first_base = result.base_seconds;
    if (result.ok() && !result.cut_off && result.base_seconds > 0 && task == batch.task) {
      batch.best = std::min(batch.best, result.median() * known.first_base / result.base_seconds);
    }
    if (device != nullptr) {
      result.machine = name_in_records(device->use);
      ++device->use.trials;
      device->use.failures += !result.ok();
    }
    spent_["run (all nodes)"] += result.run_seconds;
    spent_["check (all nodes)"] += result.check_seconds;
    settle(batch, number, result);
  }
  if (device != nullptr && base > 0 && !report.old_base) devices_.add_base(*device, task, base);
}

void FleetMeasurer::put_back(const Round& round) {
  for (const int64_t number : round.trials) {
    if (const auto at = trials_.find(number); at != trials_.end()) --at->second.out;
  }
}

/// Handles a device that died with these trials.
void FleetMeasurer::blame(Batch& batch, const Round& round, const std::string& why) {
  for (const int64_t number : round.trials) {
    Trial* trial = open_trial(number);
    if (trial == nullptr || ++trial->deaths < kDeadly || round.trials.size() > 1) continue;
    settle(batch, number,
           failed(MeasureError::Crash,
                  std::to_string(trial->deaths) + " devices died with it: " + why));
  }
}

/// Reports trials that no device has any more, and those that did not compile.
void FleetMeasurer::collect_failed(Batch& batch) {
  while (!lost_.empty()) {
    const Lost lost = std::move(lost_.front());
    lost_.pop_front();
    put_back(lost.round);
    if (!lost.why.empty()) blame(batch, lost.round, lost.why);
  }
  for (const int64_t number : batch.trials) {
    const Trial* trial = open_trial(number);
    const auto job = trial == nullptr ? jobs_.end() : jobs_.find(trial->job);
    if (job != jobs_.end() && job->second.state == Job::State::Failed)
      settle(batch, number, MeasureResult(job->second.failure));
  }
}

}  // namespace heddle::measuring
