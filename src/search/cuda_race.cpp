// Races on a GPU: a few candidates against each other, in the runner.
#include <algorithm>

#include "search/cuda_measurer.h"
#include "search/measure_worker.h"

namespace heddle::search {

/// A race at work.
struct CudaMeasurer::Race {
  int task = 0;
  std::span<const Schedule> schedules;
  const TuneClock& clock;
  std::vector<MeasureResult> results = std::vector<MeasureResult>(schedules.size());
  std::vector<bool> racing = std::vector<bool>(schedules.size(), true);
  std::vector<Json> entries = std::vector<Json>(schedules.size());  ///< {candidate, steps, code}

  void drop(int64_t candidate, const MeasureResult& why) {
    const auto c = static_cast<size_t>(candidate);
    results.at(c) = why;
    racing.at(c) = false;
  }
  bool over() const { return std::find(racing.begin(), racing.end(), true) == racing.end(); }
};

/// False when the clock expired.
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

/// One runner's part of a race: until it ends, the clock expires, or a candidate kills the runner.
/// True when the race is over.
bool CudaMeasurer::race_once(Race& race, double seconds) {
  const Timer timer;
  ready_workers();
  Json racers = Json::array();
  for (size_t i = 0; i < race.entries.size(); ++i) {
    if (race.racing[i]) racers.push_back(race.entries[i]);
  }
  if (racers.empty()) return true;
  const double left = std::min(seconds, race.clock.left()) - timer.elapsed_s();
  workers_.ask(kRunner,
               Json::object({{"do", "race"},
                             {"task", race.task},
                             {"racers", std::move(racers)},
                             {"seconds", std::max(0.0, left)},
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
      for (const Json& turn : round->elements()) {
        MeasureResult& r = race.results[static_cast<size_t>(turn.at(0).as_int())];
        r.seconds.push_back(turn.at(1).as_double());
        r.run_seconds += r.seconds.back();
      }
    }
    if (lost) return race.over();
    workers_.expect_more(kRunner);
  }
}

std::vector<MeasureResult> CudaMeasurer::race(const TuneTask& task,
                                              std::span<const Schedule> schedules, double seconds,
                                              const TuneClock& clock) {
  const Timer timer;
  Race race{.task = -1, .schedules = schedules, .clock = clock};
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
  for (MeasureResult& r : race.results) {
    if (r.error == MeasureError::None && r.seconds.empty()) {
      r = failed(MeasureError::Cancelled, "the time was up before it was measured");
    }
  }
  return std::move(race.results);
}

}  // namespace heddle::search
