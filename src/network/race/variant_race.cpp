#include "network/race/variant_race.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "measure/task/race.h"
#include "network/race/total_race.h"
#include "support/log.h"

namespace heddle::network {
namespace {

constexpr double kShareOfTasks =
    0.65;  // share of the race's time for tasks; the rest is for the whole network
constexpr double kShareOfFirst =
    0.65;  // share of the rest for the first attempt; a second one gets what is left
// With fewer blocks a race of tasks proves nothing (a sign test of three variants).
constexpr int kFewestBlocks = 6;
// The numbers of rounds after which a whole race is evaluated. They are few, because each
// evaluation may be won by luck.
constexpr int kLooks[] = {12, 24, 48};
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
        clock_(clock),
        rng_(limits.seed),
        out_(counts.size(), false) {
    for (const int count : counts_) {
      results_.emplace_back(static_cast<size_t>(count));
      out_[results_.size() - 1] = count < 2;
    }
  }

  JointRace::Verdict run(FunctionRef<bool(std::span<const int>)> same_answers) {
    JointRace::Verdict verdict;
    verdict.winners.assign(counts_.size(), 0);
    if (std::all_of(out_.begin(), out_.end(), [](bool o) { return o; })) {
      verdict.whole.verdict = "nothing to race";
    } else {
      const std::vector<int> winners = task_winners();
      log(winners);
      verdict.whole = decide(winners, same_answers, &verdict.winners);
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
  /// Races the tasks in blocks. A block times every variant once. A task with fewer variants than
  /// the block has calls runs its static choice in the other calls, which do not count.
  void race_tasks() {
    const double end = kShareOfTasks * limits_.seconds;
    for (int block = 0; block < limits_.most_blocks; ++block) {
      const int calls = most_variants();
      if (calls < 2 || timer_.elapsed_s() > limits_.seconds) break;
      if (block >= kFewestBlocks && timer_.elapsed_s() * (block + 1) / block > end) break;
      if (!one_block(calls)) break;
      if (block + 1 == kFewestBlocks) drop_hopeless();
    }
  }

  int most_variants() const {
    int most = 1;
    for (size_t t = 0; t < counts_.size(); ++t) {
      if (!out_[t]) most = std::max(most, static_cast<int>(racing(t).size()));
    }
    return most;
  }

  /// The variants of a task that are still in the race.
  std::vector<int> racing(size_t task) const {
    std::vector<int> list;
    for (int v = 0; v < counts_[task]; ++v) {
      if (results_[task][static_cast<size_t>(v)].error == MeasureError::None) list.push_back(v);
    }
    return list;
  }

  /// Returns false when the clock expired before the block ended; its samples are then dropped.
  bool one_block(int calls) {
    std::vector<std::vector<int>> turns;
    for (size_t t = 0; t < counts_.size(); ++t) {
      turns.push_back(out_[t] ? std::vector<int>{} : racing(t));
      turns[t].resize(static_cast<size_t>(calls), 0);
      rng_.shuffle(turns[t]);
    }
    std::vector<VariantTimes> times;
    for (int c = 0; c < calls; ++c) {
      if (clock_.expired()) return false;
      std::vector<int> variants;
      for (const std::vector<int>& of_task : turns)
        variants.push_back(of_task[static_cast<size_t>(c)]);
      times.push_back(run_(variants));
    }
    for (size_t t = 0; t < counts_.size(); ++t) {
      std::vector<bool> seen(static_cast<size_t>(counts_[t]), false);
      for (size_t c = 0; c < times.size(); ++c) {
        const auto v = static_cast<size_t>(turns[t][c]);
        if (seen[v]) continue;
        seen[v] = true;
        results_[t][v].seconds.push_back(times[c].tasks[t]);
      }
    }
    return true;
  }

  /// Drops variants that cannot win, so that later blocks are shorter.
  void drop_hopeless() {
    for (size_t t = 0; t < counts_.size(); ++t) {
      for (size_t v = 1; v < results_[t].size(); ++v) {
        MeasureResult& r = results_[t][v];
        if (r.median() > kHopeless * results_[t][0].median()) r.error = MeasureError::Cancelled;
      }
      if (racing(t).size() < 2) out_[t] = true;
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
      winners.push_back(task.size() < 2 ? 0 : std::max(0, race_winner(task, kTaskLuck)));
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
        times.verdict = "not proven";
        return times;
      }
      if (clock_.expired()) return times;
      if (!same_answers(tuned)) {
        times.verdict = "answers differ";
        return times;
      }
      // The first attempt leaves time for a second one.
      const double left = limits_.seconds - begin;
      const double end = attempt == 1 ? begin + kShareOfFirst * left : limits_.seconds;
      times = race_whole(tuned, end);
      if (times.verdict == "faster") {
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

  /// Runs until the race is decided, but at most `end` seconds after the beginning of the whole
  /// race.
  NetworkTimes race_whole(const std::vector<int>& tuned, double end) {
    const std::vector<int> untuned(tuned.size(), 0);
    MeasureResult base, best;
    NetworkTimes times;
    times.verdict = "not proven";
    for (int round = 0; round < limits_.most_rounds; ++round) {
      if (clock_.expired() || (round > 0 && timer_.elapsed_s() > end)) break;
      const bool static_first = rng_.uniform_int(0, 1) == 0;
      const double first = run_whole_(static_first ? untuned : tuned).total;
      const double second = run_whole_(static_first ? tuned : untuned).total;
      base.seconds.push_back(static_first ? first : second);
      best.seconds.push_back(static_first ? second : first);
      const bool look =
          std::find(std::begin(kLooks), std::end(kLooks), round + 1) != std::end(kLooks);
      if (look && clearly_faster(best, base)) break;
    }
    times.rounds = static_cast<int>(base.seconds.size());
    if (times.rounds == 0) return times;
    times.static_seconds = base.median();
    times.best_seconds = best.median();
    if (clearly_faster(best, base)) times.verdict = "faster";
    return times;
  }

  std::vector<int> counts_;
  RunVariants run_, run_whole_;
  const VariantRaceLimits& limits_;
  const TuneClock& clock_;
  Rng rng_;
  const Timer timer_;
  std::vector<std::vector<MeasureResult>> results_;  ///< [task][variant]
  std::vector<bool> out_;                            ///< tasks that are decided
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
