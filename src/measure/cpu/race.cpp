// Races: a few candidates are timed against each other in one process.
#include <algorithm>

#include "measure/cpu/measurer.h"
#include "measure/process/race_state.h"

namespace heddle::measuring {

/// The state of a race that is running.
struct WorkerMeasurer::Race : RaceState {
  using RaceState::RaceState;
  std::vector<bool> compiled = std::vector<bool>(schedules.size(), false);
};

/// Handles a death in a race. The candidate that caused it, if there is one, leaves the race.
/// Returns true when no candidate is left.
bool WorkerMeasurer::bury(Race& race, const WorkerEvent& event) {
  if (!event.worker_lives) race.compiled.assign(race.compiled.size(), false);
  const int candidate = event.death.candidate;
  if (candidate >= 0 && static_cast<size_t>(candidate) < race.racing.size()) {
    race.drop(candidate, failed(event.death.error, event.death.message));
  } else {
    workers_.forgive(event.death);
  }
  return race.over();
}

/// Compiles all candidates that are not compiled yet in one worker. Returns false when that worker
/// died or the clock expired.
bool WorkerMeasurer::compile_racers(Race& race) {
  const Lap lap(spent_, "compile");
  for (size_t i = 0; i < race.schedules.size(); ++i) {
    if (!race.racing[i] || race.compiled[i]) continue;
    workers_.ask(0, compile_request(race.task, i, race.schedules[i]),
                 options_.protocol.timeout_seconds);
    const std::optional<WorkerEvent> event = workers_.next_event(race.clock);
    if (!event) return false;
    if (!event->answer) {
      bury(race, *event);
      return false;
    }
    if (event->answer->contains("error")) {
      race.drop(static_cast<int>(i), failed(*event->answer));
      continue;
    }
    race.results[i].compile_seconds = event->answer->at("seconds").as_double();
    race.compiled[i] = true;
  }
  return true;
}

/// One runner's part of a race. It ends when the race does, when the clock expires, or when a
/// candidate kills the runner. Returns true when the race is over.
bool WorkerMeasurer::race_once(Race& race, double seconds) {
  const Timer timer;
  start_workers(1);
  if (!compile_racers(race)) return race.over();
  const Lap lap(spent_, "race");
  Json slots = Json::array();
  for (size_t i = 0; i < race.schedules.size(); ++i) {
    if (race.racing[i]) slots.push_back(Json(i));
  }
  if (slots.empty()) return true;
  Json request = Json::object();
  request["do"] = Json("race");
  request["slots"] = slots;
  request["candidates"] = slots;
  request["seconds"] = Json(race.seconds_left(seconds, timer.elapsed_s()));
  request["seed"] = Json(++races_);
  workers_.ask(0, request, options_.protocol.timeout_seconds);
  for (;;) {
    const std::optional<WorkerEvent> event = workers_.next_event(race.clock);
    if (!event) return true;
    if (!event->answer) return bury(race, *event);
    const Json& a = *event->answer;
    if (a.contains("done")) return true;
    if (a.contains("error")) {
      const MeasureResult why = failed(a);
      race.drop(static_cast<int>(a.at("checked").as_int()), why);
      if (why.error == MeasureError::WrongAnswer) return race.over();  // its runner ends too
    }
    workers_.expect_more(0);
    if (const Json* round = a.find("round")) race.add_round(*round);
  }
}

std::vector<MeasureResult> WorkerMeasurer::race(const TuneTask& task,
                                                std::span<const Schedule> schedules, double seconds,
                                                const TuneClock& clock) {
  const Lap lap(spent_, "wait");
  struct Settle {
    WorkerMeasurer& of;
    ~Settle() { of.workers_.settle(); }
  } const at_end{*this};
  const Timer timer;
  Race race(schedules, clock);
  if (!schedules.empty() && !clock.expired()) {
    race.task = register_task(task);
    bool over = !make_reference(race.task, clock);
    while (!over && !clock.expired()) over = race_once(race, seconds - timer.elapsed_s());
  }
  return race.take_results();
}

}  // namespace heddle::measuring
