// Races on a fleet. All candidates run on one device and are compiled by others beforehand.
#include <algorithm>

#include "measure/fleet/measurer.h"

namespace heddle::measuring {
namespace {

constexpr double kGlance = 0.05;
// Seconds in addition to a race, for its start and for messages.
constexpr double kStartSeconds = 20;

}  // namespace

/// The state of a race that is running.
struct FleetMeasurer::Race {
  int task = 0;
  std::span<const Schedule> schedules;
  const TuneClock& clock;
  std::vector<int64_t> jobs = {};
  std::vector<MeasureResult> results = {};
};

/// Rounds of announced trials may answer during a race. Such trials are forgotten, and are measured
/// again when they are asked for.
void FleetMeasurer::hear_of_others(const RoundReport& report) {
  FleetDevice* device = nullptr;
  if (const std::optional<Round> round = heard_of_round(report, &device)) put_back(*round);
}

/// Returns false when the clock expired.
bool FleetMeasurer::compile_racers(Race& race) {
  if (!compiles_apart()) return true;
  race.jobs.clear();
  for (const Schedule& s : race.schedules)
    race.jobs.push_back(job_of(race.task, s.to_json(), trial_key(race.task, s), false, true));
  const auto all_ready = [&] {
    return std::all_of(race.jobs.begin(), race.jobs.end(), [&](int64_t job) { return ready(job); });
  };
  while (!all_ready()) {
    if (race.clock.expired()) return false;
    ask_again_for_late_code();
    if (const auto report = listen(kGlance, race.clock)) hear_of_others(*report);
  }
  return true;
}

/// Returns false when the device is lost.
bool FleetMeasurer::race_on(Race& race, FleetDevice& device, double seconds) {
  const int64_t first = next_trial_, id = next_round_++;
  MeasureTrials request{
      .task = race.task, .race = true, .seconds = seconds, .round = id, .device = device.use.name};
  for (size_t i = 0; i < race.schedules.size(); ++i) {
    const int64_t job = i < race.jobs.size() ? race.jobs[i] : 0;
    const auto at = jobs_.find(job);
    if (at != jobs_.end() && at->second.state == Job::State::Failed) {
      race.results[i] = at->second.failure;
      continue;
    }
    request.trials.push_back(
        {.trial = first + static_cast<int64_t>(i), .steps = race.schedules[i].to_json()});
    if (at != jobs_.end() && compiles_apart()) request.trials.back().job = job;
  }
  next_trial_ += static_cast<int64_t>(race.schedules.size());
  if (request.trials.empty()) return true;
  const std::string machine = name_in_records(device.use);
  rounds_[id] = {.device = device.use.name,
                 .task = race.task,
                 .trials = {},
                 .allowed = seconds + kStartSeconds,
                 .race = true};
  devices_.give(device, id);
  bridge_.send(request);
  // The race may take a little longer than the clock allows, because an unfinished race is of no
  // use.
  const TuneClock whole(seconds + kStartSeconds);
  while (!whole.expired() && !race.clock.cancelled()) {
    const std::optional<RoundReport> report = listen(kGlance, whole);
    if (!report) {
      if (!rounds_.contains(id)) return false;
      continue;
    }
    hear_of_others(*report);
    if (report->round != id) continue;
    if (!report->results) return false;
    for (const Json& json : *report->results) {
      TrialResult read = decode<TrialResult>(json);
      const int64_t i = read.trial - first;
      if (i < 0 || i >= static_cast<int64_t>(race.results.size())) continue;
      race.results[static_cast<size_t>(i)] = std::move(read.result);
      race.results[static_cast<size_t>(i)].machine = machine;
    }
    return !report->failed;
  }
  return true;
}

std::vector<MeasureResult> FleetMeasurer::race(const TuneTask& task,
                                               std::span<const Schedule> schedules, double seconds,
                                               const TuneClock& clock) {
  const Timer timer;
  deserted_ = Timer();
  forget_announced();  // the search is over
  Race race{.schedules = schedules, .clock = clock};
  race.results.assign(schedules.size(), out_of_time());
  if (!schedules.empty() && !clock.expired()) race.task = task_number(task);
  bool over = schedules.empty();
  while (!over && !clock.expired()) {
    FleetDevice* device = devices_.steadiest();
    const double left = std::min(seconds - timer.elapsed_s(), clock.left_s());
    if (device == nullptr) {
      if (const auto report = listen(kGlance, clock)) hear_of_others(*report);
      wait_for_devices(clock);
      continue;
    }
    if (left <= 0 || !compile_racers(race)) break;
    device = devices_.steadiest();
    over = device != nullptr && race_on(race, *device, left);
  }
  drop_jobs(race.jobs);
  for (const Lost& lost : lost_) put_back(lost.round);
  lost_.clear();
  spent_["race"] += timer.elapsed_s();
  return race.results;
}

}  // namespace heddle::measuring
