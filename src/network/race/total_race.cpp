#include "network/race/total_race.h"

#include <algorithm>
#include <numeric>

#include "measure/task/race.h"
#include "runtime/race/race.h"

namespace heddle::network {
namespace {

// The blocks of calls after which the race of a task is evaluated. The first look drops variants
// that are slower than the static choice.
constexpr int kLooks[] = {6, 12, 24};
// Seconds of a task below which nothing is seen of it.
constexpr double kLeastSeconds = 1e-7;

/// How much longer the calls of an entrant took than those of entrant 0 in the same rounds. The rest
/// of a call may change more from round to round than the task takes.
std::vector<double> longer(const racing::Field& field, size_t entrant) {
  std::vector<double> out = field.seconds(entrant);
  for (size_t round = 0; round < out.size(); ++round) out[round] -= field.seconds(0)[round];
  return out;
}

class TotalRace {
 public:
  TotalRace(std::vector<std::vector<MeasureResult>>& results, RunVariants run,
            const VariantRaceLimits& limits, const TuneClock& clock)
      : results_(results),
        run_(run),
        clock_(clock),
        seed_(limits.seed),
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
  int winner_of(size_t task) {
    // The last entrant is kTwice.
    const size_t variants = results_[task].size();
    racing::Field field(variants + 1, {.most_rounds = kLooks[2],
                                       .looks = {std::begin(kLooks), std::end(kLooks)},
                                       .seed = seed_ + task});
    std::vector<int> called = winners_;
    const auto call = [&](size_t i) {
      called[task] = i == variants ? kTwice : static_cast<int>(i);
      return run_(called).total;
    };
    const auto decided = [&](int) {
      for (size_t v = 1; v < variants; ++v) {
        if (field.time(v) >= field.time(0)) field.drop(v, racing::Out::Slower);
      }
      return field.racing().size() < 3 || decide(task, field) > 0;
    };
    const int rounds =
        racing::run(field, call, {.over = [&] { return clock_.expired(); }, .decided = decided});
    return rounds == 0 ? 0 : decide(task, field);
  }

  /// Notes the times of the variants, and returns the winner by them.
  int decide(size_t task, const racing::Field& field) {
    std::vector<MeasureResult>& results = results_[task];
    const double own = median_of(longer(field, results.size()));
    for (MeasureResult& r : results) r.seconds.clear();
    // The task cannot be seen in the time of the call.
    if (own <= kLeastSeconds) return 0;
    std::vector<MeasureResult> racing;
    for (size_t v = 0; v < results.size(); ++v) {
      for (const double s : longer(field, v))
        results[v].seconds.push_back(std::max(own + s, kLeastSeconds));
      racing.push_back(results[v]);
      if (field.out(v) != racing::Out::No) racing[v].error = MeasureError::Cancelled;
    }
    return std::max(0, measuring::race_winner(racing, kTaskLuck));
  }

  std::vector<std::vector<MeasureResult>>& results_;
  RunVariants run_;
  const TuneClock& clock_;
  uint64_t seed_;
  std::vector<int> winners_;
  std::vector<size_t> order_;
};

}  // namespace

std::vector<int> race_totals(std::vector<std::vector<MeasureResult>>& results, RunVariants run,
                             const VariantRaceLimits& limits, const TuneClock& clock) {
  return TotalRace(results, run, limits, clock).run();
}

}  // namespace heddle::network
