// Races on this machine: a few candidates are timed against each other by one runner. The race engine
// decides whose turn it is; the runner takes one sample at a time. When the runner ends, what ended it
// leaves the race, and the others enter it again in another runner.
#include "measure/process/race.h"

#include <algorithm>

#include "heddle/runtime/timer.h"
#include "measure/process/local_measurer.h"
#include "measure/task/timing.h"

namespace heddle::measuring {
namespace {

constexpr int kFewestRounds = 6;  // with fewer rounds the interval of a median is the whole range
// Seconds of turns that do not count, after results were checked and at the start of a runner, whose
// first calls are slow.
constexpr double kWarmUpSeconds = 20e-3;

}  // namespace

std::vector<MeasureResult> Race::take_results() {
  for (size_t i = 0; i < results.size(); ++i) {
    MeasureResult& r = results[i];
    if (!races(i)) continue;
    r.seconds = field.seconds(i);
    for (const double s : r.seconds) r.run_seconds += s;
    if (r.seconds.empty()) r = out_of_time();
  }
  return std::move(results);
}

/// Compiles the candidates that race and are not compiled yet. Those that fail leave the race.
/// Returns false when the clock expired.
bool LocalMeasurer::compile_racers(Race& race) {
  const CompileQueue::Workers workers = start_for_race();
  std::vector<size_t> racers;
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < race.schedules.size(); ++i) {
    if (!race.races(i) || race.compiled[i]) continue;
    racers.push_back(i);
    keys.push_back(add_job(race.task, i, race.schedules[i], /*no_spills=*/false));
  }
  if (!compiling_.wait(keys, workers, tasks_.count(), race.clock)) return false;
  for (size_t k = 0; k < racers.size(); ++k) {
    const CompileQueue::Job& job = compiling_.at(keys[k]);
    if (job.failed()) {
      race.drop(racers[k], failed(*job.failed()));
      continue;
    }
    race.results[racers[k]].compile_seconds = job.seconds();
    if (where_ == Runs::InTheRunner) race.code[racers[k]] = job.code();
    race.compiled[racers[k]] = true;
  }
  for (const uint64_t key : keys) compiling_.erase(key);
  return true;
}

/// Handles the end of the runner. The candidate that caused it, if there is one, leaves the race.
void LocalMeasurer::hear_of_death(Race& race, const WorkerEvent& event) {
  race.started = false;
  // A worker that keeps kernels dies with them.
  if (where_ == Runs::InItsWorker && !event.worker_lives)
    race.compiled.assign(race.compiled.size(), false);
  const int candidate = event.death.candidate;
  if (candidate >= 0 && static_cast<size_t>(candidate) < race.results.size()) {
    race.drop(static_cast<size_t>(candidate), failed(event.death.error, event.death.message));
  } else {
    workers_.forgive(event.death);
  }
}

/// Asks the runner about a candidate. Returns false where the candidate or the runner failed, or the
/// clock expired.
template <class Request>
bool LocalMeasurer::succeeds(Race& race, const Request& request, double* seconds) {
  workers_.ask(kRunner, request, options_.protocol.timeout_seconds);
  const std::optional<WorkerEvent> event = workers_.next_event(race.clock);
  race.expired = !event;
  if (!event) return false;
  if (!event->answer) {
    hear_of_death(race, *event);
    return false;
  }
  if (ends_runner(*event)) race.started = false;
  const Failed* why = event->answer->failed();
  if (why) {
    race.drop(static_cast<size_t>(request.candidate), failed(*why));
  } else if (seconds) {
    *seconds = event->answer->as<Timed>().samples.at(0);
  }
  return !why;
}

/// Returns false where the runner ended meanwhile, or the race is over.
bool LocalMeasurer::enter_all(Race& race) {
  race.started = true;
  for (size_t i = 0; i < race.results.size() && race.started && !race.expired; ++i) {
    if (!race.races(i)) continue;
    succeeds(race, Enter{.task = race.task,
                         .candidate = static_cast<int>(i),
                         .code = race.code[i],
                         .turns = options_.turns});
  }
  const Timer timer;
  for (size_t next = 0; race.started && !race.over(); ++next) {
    const std::vector<size_t> racing = race.field.racing();
    succeeds(race, Turn{static_cast<int>(racing[next % racing.size()])});
    if (timer.elapsed_s() >= kWarmUpSeconds) break;
  }
  return race.started && !race.over();
}

/// Brings the candidates to the start if they are not there. Returns false when the race is over.
bool LocalMeasurer::start(Race& race) {
  while (!race.started && !race.over()) {
    race.expired = race.clock.expired();
    if (race.expired || !compile_racers(race)) continue;
    if (enter_all(race)) break;
  }
  return !race.over();
}

/// Seconds of one turn of a candidate.
double LocalMeasurer::sample(Race& race, size_t candidate) {
  double seconds = 0;
  while (start(race) && race.races(candidate)) {
    if (succeeds(race, Turn{static_cast<int>(candidate)}, &seconds)) return seconds;
  }
  return race.expired ? racing::kAbandoned : racing::kFailed;
}

bool LocalMeasurer::narrow(const Race& race) const {
  const std::vector<size_t> racing = race.field.racing();
  return std::all_of(racing.begin(), racing.end(), [&](size_t i) {
    return median_interval(race.field.seconds(i)).relative_width <=
           0.25 * options_.protocol.relative_ci;
  });
}

std::vector<MeasureResult> LocalMeasurer::race(const TuneTask& task,
                                               std::span<const Schedule> schedules, double seconds,
                                               const TuneClock& clock) {
  struct Settle {
    LocalMeasurer& of;
    ~Settle() { of.settle(); }
  } const at_end{*this};
  Timer timer;
  Race race(schedules, clock, ++races_);
  if (schedules.empty() || clock.expired()) return race.take_results();
  race.task = register_task(task);
  settle();
  if (!make_reference(race.task, clock)) return race.take_results();
  const auto decided = [&](int rounds) {
    return timer.elapsed_s() >= seconds || (rounds >= kFewestRounds && narrow(race));
  };
  // The wait for a turn on the device is no part of the race.
  if (!options_.turns.empty() && start(race)) timer = Timer();
  const Timer racing_timer;
  racing::run(race.field, [&](size_t i) { return sample(race, i); }, {.decided = decided});
  spent_["race"] += racing_timer.elapsed_s();
  return race.take_results();
}

}  // namespace heddle::measuring
