#include "network/race/variant_race.h"

#include <algorithm>
#include <string>

#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "measure/task/race.h"
#include "network/race/duel.h"
#include "network/race/total_race.h"
#include "support/log.h"

namespace heddle::network {
namespace {

constexpr double kShareOfTasks =
    0.65;  // share of the race's time for tasks; the rest is for the whole network
constexpr double kShareOfStatics =
    0.15;  // share of the race's time for the static choices against what won, where others stand
constexpr double kShareOfFirst =
    0.65;  // share of the rest for the first attempt; a second one gets what is left
// With fewer blocks a race of tasks proves nothing (a sign test of three variants).
constexpr int kFewestBlocks = 6;
// The second attempt keeps the winners that gained at least this share of the largest gain.
constexpr double kStrong = 0.25;
// A variant that takes this many times as long as the static choice after kFewestBlocks is dropped.
constexpr double kHopeless = 1.1;

class VariantRace {
 public:
  VariantRace(std::span<const int> counts, RunVariants run, RunVariants run_whole,
              const VariantRaceLimits& limits, const TuneClock& clock)
      : counts_(counts.begin(), counts.end()),
        run_(run),
        run_whole_(run_whole),
        limits_(limits),
        clock_(clock) {
    for (const int count : counts_) results_.emplace_back(static_cast<size_t>(count));
  }

  JointRace::Verdict run(FunctionRef<bool(std::span<const int>)> same_answers) {
    JointRace::Verdict verdict;
    verdict.winners.assign(counts_.size(), 0);
    if (std::all_of(counts_.begin(), counts_.end(), [](int count) { return count < 2; })) {
      verdict.whole.verdict = RaceResult::NothingToRace;
    } else {
      const std::vector<int> winners = task_winners();
      log(winners);
      verdict.whole = decide(winners, same_answers, &verdict.winners);
      if (!limits_.statics.empty()) race_statics(same_answers, &verdict);
    }
    for (std::vector<MeasureResult>& task : results_) {
      for (MeasureResult& r : task) {
        if (r.seconds.empty()) r.error = MeasureError::Cancelled;
      }
    }
    verdict.results = std::move(results_);
    return verdict;
  }

 private:
  /// Races the tasks in blocks. A block times every variant once.
  void race_tasks() {
    const double end = kShareOfTasks * limits_.seconds;
    std::vector<racing::Field> fields;
    for (const int count : counts_) {
      fields.emplace_back(static_cast<size_t>(count),
                          racing::Rules{.most_rounds = limits_.most_blocks,
                                        .looks = {kFewestBlocks},
                                        .hopeless = kHopeless,
                                        .seed = limits_.seed});
    }
    const auto call = [&](std::span<const size_t> entrants) {
      return run_(std::vector<int>(entrants.begin(), entrants.end())).tasks;
    };
    const auto enough = [&](int blocks) {
      const double spent = timer_.elapsed_s();
      return spent > limits_.seconds ||
             (blocks >= kFewestBlocks && spent * (blocks + 1) / blocks > end);
    };
    racing::run(fields, call, {.over = [&] { return clock_.expired(); }, .enough = enough});
    for (size_t t = 0; t < fields.size(); ++t) {
      for (size_t v = 0; v < results_[t].size(); ++v) {
        results_[t][v].seconds = fields[t].seconds(v);
        if (fields[t].out(v) != racing::Out::No) results_[t][v].error = MeasureError::Cancelled;
      }
    }
  }

  std::vector<int> task_winners() {
    if (limits_.whole_calls) {
      const TuneClock tasks(kShareOfTasks * limits_.seconds, &clock_);
      return race_totals(results_, run_, limits_, tasks);
    }
    race_tasks();
    std::vector<int> winners;
    for (const std::vector<MeasureResult>& task : results_)
      winners.push_back(task.size() < 2 ? 0 : std::max(0, measuring::race_winner(task, kTaskLuck)));
    return winners;
  }

  void log(const std::vector<int>& winners) const {
    for (size_t t = 0; t < counts_.size(); ++t) {
      if (counts_[t] < 2) continue;
      std::string text = "race of task " + std::to_string(t) + ", " +
                         std::to_string(results_[t][0].seconds.size()) + " blocks, us:";
      for (const MeasureResult& r : results_[t]) text += " " + std::to_string(r.median() * 1e6);
      HEDDLE_LOG_AT("search", 1, text + ", winner " + std::to_string(winners[t]));
    }
  }

  double gain_of(size_t task, int winner) const {
    const std::vector<MeasureResult>& r = results_[task];
    return winner > 0 ? r[0].median() - r[static_cast<size_t>(winner)].median() : 0;
  }

  /// The winners of the tasks that gained most, and the static choice for all other tasks.
  std::vector<int> strongest(const std::vector<int>& winners) const {
    double largest = 0;
    for (size_t t = 0; t < winners.size(); ++t) largest = std::max(largest, gain_of(t, winners[t]));
    std::vector<int> kept = winners;
    for (size_t t = 0; t < winners.size(); ++t) {
      if (gain_of(t, winners[t]) < kStrong * largest) kept[t] = 0;
    }
    return kept;
  }

  NetworkTimes decide(const std::vector<int>& winners,
                      FunctionRef<bool(std::span<const int>)> same_answers,
                      std::vector<int>* chosen) {
    NetworkTimes times;
    std::vector<int> tuned = winners;
    const double begin = timer_.elapsed_s();
    for (const int attempt : {1, 2}) {
      if (std::all_of(tuned.begin(), tuned.end(), [](int v) { return v == 0; })) {
        times.verdict = RaceResult::NotProven;
        return times;
      }
      if (clock_.expired()) return times;
      if (!same_answers(tuned)) {
        times.verdict = RaceResult::AnswersDiffer;
        return times;
      }
      // The first attempt leaves time for a second one.
      const double last = limits_.seconds * (limits_.statics.empty() ? 1 : 1 - kShareOfStatics);
      const double end = attempt == 1 ? begin + kShareOfFirst * (last - begin) : last;
      times = race_whole(std::vector<int>(tuned.size(), 0), tuned, end);
      if (times.verdict == RaceResult::Faster) {
        *chosen = tuned;
        times.changed = static_cast<int>(
            std::count_if(tuned.begin(), tuned.end(), [](int v) { return v != 0; }));
        return times;
      }
      const std::vector<int> fewer = strongest(tuned);
      if (fewer == tuned) break;
      tuned = fewer;
    }
    times.best_seconds = times.static_seconds;
    return times;
  }

  /// Times the static choices beside what won, and takes them where they are faster.
  void race_statics(FunctionRef<bool(std::span<const int>)> same_answers,
                    JointRace::Verdict* verdict) {
    NetworkTimes& whole = verdict->whole;
    if (whole.verdict == RaceResult::AnswersDiffer) return;
    whole.standing_seconds = whole.static_seconds;
    const bool already = verdict->winners == limits_.statics;
    whole.static_seconds = already ? whole.best_seconds : 0;
    const bool there = std::find(limits_.statics.begin(), limits_.statics.end(), kNotThere) ==
                       limits_.statics.end();
    if (already || !there || clock_.expired() || !same_answers(limits_.statics)) return;
    const NetworkTimes times = race_whole(verdict->winners, limits_.statics, limits_.seconds);
    if (times.rounds == 0) return;
    // Of what won, and of the static choices.
    const double won = times.static_seconds, of_statics = times.best_seconds;
    if (whole.verdict != RaceResult::Faster) whole.standing_seconds = won;
    whole.rounds = std::max(whole.rounds, times.rounds);
    whole.static_seconds = of_statics;
    whole.best_seconds = won;
    if (times.verdict != RaceResult::Faster) return;
    whole.best_seconds = of_statics;
    whole.verdict = RaceResult::Faster;
    whole.changed = static_cast<int>(std::count_if(limits_.statics.begin(), limits_.statics.end(),
                                                   [](int v) { return v != 0; }));
    verdict->winners = limits_.statics;
  }

  /// Calls the network with these variants in turns, until it is decided whether `others` are faster,
  /// but at most `end` seconds after the beginning of the whole race.
  NetworkTimes race_whole(const std::vector<int>& stand, const std::vector<int>& others,
                          double end) {
    return duel([&](size_t i) { return run_whole_(i == 0 ? stand : others).total; },
                limits_.most_rounds, limits_.seed,
                {.over = [&] { return clock_.expired(); },
                 .enough = [&](int rounds) { return rounds > 0 && timer_.elapsed_s() > end; }});
  }

  std::vector<int> counts_;
  RunVariants run_, run_whole_;
  const VariantRaceLimits& limits_;
  const TuneClock& clock_;
  const Timer timer_;
  std::vector<std::vector<MeasureResult>> results_;  ///< [task][variant]
};

}  // namespace

JointRace::Verdict race_variants(std::span<const int> counts, RunVariants run,
                                 RunVariants run_whole,
                                 FunctionRef<bool(std::span<const int>)> same_answers,
                                 const VariantRaceLimits& limits, const TuneClock& clock) {
  for (const int count : counts) HEDDLE_ICHECK(count >= 1, "a task without its static choice");
  return VariantRace(counts, run, run_whole, limits, clock).run(same_answers);
}

}  // namespace heddle::network
