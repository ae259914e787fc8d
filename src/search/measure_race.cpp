// Races: a few candidates against each other, in one process.
#include <algorithm>

#include "search/measure_worker.h"

namespace heddle::search {

/// A race at work.
struct WorkerMeasurer::Race {
  int task = 0;
  std::span<const Schedule> schedules;
  const TuneClock& clock;
  std::vector<MeasureResult> results = std::vector<MeasureResult>(schedules.size());
  std::vector<bool> racing = std::vector<bool>(schedules.size(), true);
  std::vector<bool> compiled = std::vector<bool>(schedules.size(), false);

  void drop(int candidate, const MeasureResult& why) {
    const auto c = static_cast<size_t>(candidate);
    results.at(c) = why;
    racing.at(c) = false;
  }
  bool over() const { return std::find(racing.begin(), racing.end(), true) == racing.end(); }
};

/// A death in a race: the candidate to blame, if there is one, is out. True when none is left.
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

/// Compiles, all in one worker, what is not compiled yet. False when that worker or the clock
/// ended.
bool WorkerMeasurer::compile_racers(Race& race) {
  const Lap lap(*this, "compile");
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

/// One runner's part of a race: until it ends, the clock expires, or a candidate kills the runner.
/// True when the race is over.
bool WorkerMeasurer::race_once(Race& race, double seconds) {
  const Timer timer;
  start_workers(1);
  if (!compile_racers(race)) return race.over();
  const Lap lap(*this, "race");
  Json slots = Json::array();
  for (size_t i = 0; i < race.schedules.size(); ++i) {
    if (race.racing[i]) slots.push_back(Json(i));
  }
  if (slots.empty()) return true;
  Json request = Json::object();
  request["do"] = Json("race");
  request["slots"] = slots;
  request["candidates"] = slots;
  request["seconds"] =
      Json(std::max(0.0, std::min(seconds, race.clock.left()) - timer.elapsed_s()));
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
      if (why.error == MeasureError::WrongAnswer) return race.over();  // with its runner
    }
    workers_.expect_more(0);
    if (const Json* round = a.find("round")) {
      for (const Json& turn : round->elements()) {
        MeasureResult& r = race.results[static_cast<size_t>(turn.at(0).as_int())];
        r.seconds.push_back(turn.at(1).as_double());
        r.run_seconds += r.seconds.back();
      }
    }
  }
}

std::vector<MeasureResult> WorkerMeasurer::race(const TuneTask& task,
                                                std::span<const Schedule> schedules, double seconds,
                                                const TuneClock& clock) {
  const Lap lap(*this, "wait");
  struct Settle {
    WorkerMeasurer& of;
    ~Settle() { of.workers_.settle(); }
  } const at_end{*this};
  const Timer timer;
  Race race{.task = -1, .schedules = schedules, .clock = clock};
  if (!schedules.empty() && !clock.expired()) {
    race.task = register_task(task);
    bool over = !make_reference(race.task, clock);
    while (!over && !clock.expired()) over = race_once(race, seconds - timer.elapsed_s());
  }
  for (MeasureResult& r : race.results) {
    if (r.error == MeasureError::None && r.seconds.empty()) {
      r = failed(MeasureError::Cancelled, "the time was up before it was measured");
    }
  }
  return std::move(race.results);
}

}  // namespace heddle::search
