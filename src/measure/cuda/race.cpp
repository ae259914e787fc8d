// Races on a GPU: the runner times a few candidates against each other.
#include <algorithm>

#include "measure/cuda/measurer.h"
#include "measure/process/race_state.h"

namespace heddle::measuring {

/// The state of a race that is running.
struct CudaMeasurer::Race : RaceState {
  using RaceState::RaceState;
  std::vector<Json> entries = std::vector<Json>(schedules.size());  ///< {candidate, steps, code}
};

/// Returns false when the clock expired.
bool CudaMeasurer::compile_racers(Race& race) {
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < race.schedules.size(); ++i) {
    keys.push_back(add_job(race.task, i, race.schedules[i], false));
  }
  const auto all_compiled = [&] {
    return std::all_of(keys.begin(), keys.end(), [&](uint64_t k) { return jobs_.at(k).compiled; });
  };
  while (!all_compiled()) {
    feed_compilers();
    const std::optional<WorkerEvent> event = workers_.next_event(race.clock);
    if (!event) return false;
    compiler_said(*event);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const Job& job = jobs_.at(keys[i]);
    if (job.answer.contains("error")) {
      race.drop(static_cast<int64_t>(i), failed(job.answer));
      continue;
    }
    race.results[i].compile_seconds = job.answer.at("seconds").as_double();
    race.entries[i] =
        Json::object({{"candidate", i}, {"steps", job.steps}, {"code", job.answer.at("code")}});
  }
  return true;
}

/// One runner's part of a race. It ends when the race does, when the clock expires, or when a
/// candidate kills the runner. Returns true when the race is over.
bool CudaMeasurer::race_once(Race& race, double seconds) {
  const Timer timer;
  ready_workers();
  Json racers = Json::array();
  for (size_t i = 0; i < race.entries.size(); ++i) {
    if (race.racing[i]) racers.push_back(race.entries[i]);
  }
  if (racers.empty()) return true;
  ask_runner(Json::object({{"do", "race"},
                           {"task", race.task},
                           {"racers", std::move(racers)},
                           {"seconds", race.seconds_left(seconds, timer.elapsed_s())},
                           {"seed", ++races_}}),
             options_.protocol.timeout_seconds);
  for (;;) {
    const std::optional<WorkerEvent> event = workers_.next_event(race.clock);
    if (!event) return true;
    if (!event->answer) {
      lose_runner();
      if (event->death.candidate >= 0) {
        race.drop(event->death.candidate, failed(event->death.error, event->death.message));
      } else {
        workers_.forgive(event->death);
      }
      return race.over();
    }
    const Json& a = *event->answer;
    const bool lost = a.contains("lost");
    if (lost) lose_runner();
    if (a.contains("done")) return true;
    if (a.contains("error")) {
      race.drop(a.at("checked").as_int(), failed(a));
    } else if (const Json* round = a.find("round")) {
      race.add_round(*round);
    }
    if (lost) return race.over();
    workers_.expect_more(kRunner);
  }
}

std::vector<MeasureResult> CudaMeasurer::race(const TuneTask& task,
                                              std::span<const Schedule> schedules, double seconds,
                                              const TuneClock& clock) {
  const Timer timer;
  Race race(schedules, clock);
  if (!schedules.empty() && !clock.expired()) {
    race.task = register_task(task);
    settle();
    bool over = !make_reference(race.task, clock);
    if (!over) {
      ready_workers();
      over = !compile_racers(race);
    }
    while (!over && !clock.expired()) over = race_once(race, seconds - timer.elapsed_s());
  }
  settle();
  spent_["race"] += timer.elapsed_s();
  return race.take_results();
}

}  // namespace heddle::measuring
