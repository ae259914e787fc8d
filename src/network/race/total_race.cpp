#include "network/race/total_race.h"

#include <algorithm>
#include <numeric>

#include "heddle/support/rng.h"
#include "measure/task/race.h"
#include "runtime/kernel/clearly_faster.h"

namespace heddle::network {
namespace {

// The blocks of calls after which the race of a task is evaluated. The first look drops variants
// that are slower than the static choice.
constexpr int kLooks[] = {6, 12, 24};
// Seconds of a task below which nothing is seen of it.
constexpr double kLeastSeconds = 1e-7;

class TotalRace {
 public:
  TotalRace(std::vector<std::vector<MeasureResult>>& results, RunVariants run,
            const VariantRaceLimits& limits, const TuneClock& clock)
      : results_(results),
        run_(run),
        clock_(clock),
        rng_(limits.seed),
        winners_(results.size(), 0),
        order_(limits.priority) {
    if (!order_.empty()) return;
    order_.resize(results.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
  }

  std::vector<int> run() {
    for (const size_t task : order_) {
      if (results_[task].size() > 1) winners_[task] = winner_of(task);
    }
    return winners_;
  }

 private:
  /// The seconds of whole calls with one task varied.
  struct Totals {
    std::vector<std::vector<double>> with;  ///< by variant
    std::vector<double> twice;
  };

  int winner_of(size_t task) {
    Totals totals;
    totals.with.resize(results_[task].size());
    std::vector<int> racing(results_[task].size());
    std::iota(racing.begin(), racing.end(), 0);
    for (const int look : kLooks) {
      while (static_cast<int>(totals.twice.size()) < look) {
        if (!one_block(task, racing, totals)) return decide(task, totals);
      }
      const double base = median_of(totals.with[0]);
      std::erase_if(racing, [&](int v) {
        return v != 0 && median_of(totals.with[static_cast<size_t>(v)]) >= base;
      });
      const int winner = decide(task, totals);
      if (winner > 0 || racing.size() < 2) return winner;
    }
    return 0;
  }

  /// Returns false when the clock expired before the block ended; its times are then dropped.
  bool one_block(size_t task, const std::vector<int>& racing, Totals& totals) {
    std::vector<int> turns = racing;
    turns.push_back(kTwice);
    rng_.shuffle(turns);
    std::vector<double> seconds;
    std::vector<int> variants = winners_;
    for (const int v : turns) {
      if (clock_.expired()) return false;
      variants[task] = v;
      seconds.push_back(run_(variants).total);
    }
    for (size_t i = 0; i < turns.size(); ++i) {
      auto& of = turns[i] == kTwice ? totals.twice : totals.with[static_cast<size_t>(turns[i])];
      of.push_back(seconds[i]);
    }
    return true;
  }

  /// Notes the times of the variants, and returns the winner by them.
  int decide(size_t task, const Totals& totals) {
    std::vector<MeasureResult>& results = results_[task];
    if (totals.twice.empty()) return 0;
    const double base = median_of(totals.with[0]), own = median_of(totals.twice) - base;
    for (MeasureResult& r : results) r.seconds.clear();
    // The task cannot be seen in the time of the call.
    if (own <= kLeastSeconds) return 0;
    const double rest = base - own;
    std::vector<MeasureResult> racing;
    for (size_t v = 0; v < results.size(); ++v) {
      for (const double s : totals.with[v])
        results[v].seconds.push_back(std::max(s - rest, kLeastSeconds));
      // Those that were dropped have fewer times, and do not win.
      racing.push_back(results[v]);
      if (totals.with[v].size() < totals.twice.size()) racing[v].error = MeasureError::Cancelled;
    }
    return std::max(0, race_winner(racing, kTaskLuck));
  }

  std::vector<std::vector<MeasureResult>>& results_;
  RunVariants run_;
  const TuneClock& clock_;
  Rng rng_;
  std::vector<int> winners_;
  std::vector<size_t> order_;
};

}  // namespace

std::vector<int> race_totals(std::vector<std::vector<MeasureResult>>& results, RunVariants run,
                             const VariantRaceLimits& limits, const TuneClock& clock) {
  return TotalRace(results, run, limits, clock).run();
}

}  // namespace heddle::network
