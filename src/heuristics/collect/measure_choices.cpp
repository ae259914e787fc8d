#include "heuristics/collect/measure_choices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "heddle/heuristics/dataset.h"
#include "heddle/support/error.h"

namespace heddle::learning {
namespace {

constexpr std::size_t kRaced = 6;  // schedules in a race, the first schedule included
constexpr double kContender =
    1.15;  // a schedule races if its time is within this factor of the best
// Schedules that are slower than the best by more than this factor are measured twice.
constexpr double kDoubtful = 3;
// A turn has one untimed call and one or more timed calls (measure/process/race.cpp). Times are in seconds.
constexpr double kRounds = 20, kShortestTurn = 1e-3, kShortestRace = 0.1, kLongestRace = 3;

constexpr double kMostNoise = 0.25, kFewSamples = 0.05;

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Half the width of the 95 % interval of the median (order statistics), relative to the median.
double relative_error(std::vector<double> values) {
  if (values.size() < 4) return kFewSamples;
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const double half = 0.98 * std::sqrt(n);
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - half)));
  const auto high = std::min(values.size() - 1, static_cast<std::size_t>(std::ceil(n / 2 + half)));
  return (values[high] - values[low]) / 2 / values[values.size() / 2];
}

struct Screening {
  /// Times relative to that of the first schedule. Infinity marks a failure.
  std::vector<double> ratios;
  std::vector<double> compile_seconds;
  double call = 0;  ///< seconds of a call of the first schedule
};

std::vector<MeasureResult> measure_all(Measurer& measurer, const TuneTask& task,
                                       std::span<const Schedule> schedules,
                                       const TuneClock& clock) {
  std::vector<MeasureResult> results(schedules.size());
  for (MeasureResult& r : results) r.error = MeasureError::Cancelled;
  measurer.measure(task, schedules, std::numeric_limits<double>::infinity(), clock,
                   [&](std::size_t i, const MeasureResult& r) { results.at(i) = r; });
  return results;
}

bool all_measured(const std::vector<MeasureResult>& results) {
  return std::none_of(results.begin(), results.end(),
                      [](const MeasureResult& r) { return r.error == MeasureError::Cancelled; });
}

double ratio_of(const MeasureResult& r, double call) {
  return r.median() / (r.base_seconds > 0 ? r.base_seconds : call);
}

/// Measures schedules once more that took many times as long as the best, and keeps the better
/// time. Such a schedule may be slow, or something else may have disturbed it. Returns false when
/// the clock expired.
bool screen_again(Measurer& measurer, const TuneTask& task, std::span<const Schedule> schedules,
                  const TuneClock& clock, Screening& s) {
  const double best = *std::min_element(s.ratios.begin(), s.ratios.end());
  std::vector<std::size_t> slow;
  std::vector<Schedule> again;
  for (std::size_t i = 1; i < s.ratios.size(); ++i) {
    if (!std::isfinite(s.ratios[i]) || s.ratios[i] <= kDoubtful * best) continue;
    slow.push_back(i);
    again.push_back(schedules[i]);
  }
  if (slow.empty()) return true;
  const std::vector<MeasureResult> results = measure_all(measurer, task, again, clock);
  for (std::size_t j = 0; j < slow.size(); ++j) {
    if (results[j].ok())
      s.ratios[slow[j]] = std::min(s.ratios[slow[j]], ratio_of(results[j], s.call));
  }
  return all_measured(results);
}

Screening screen(Measurer& measurer, const TuneTask& task, std::span<const Schedule> schedules,
                 const TuneClock& clock, ChoiceTimes& times) {
  Screening s;
  s.ratios.assign(schedules.size(), std::numeric_limits<double>::infinity());
  const std::vector<MeasureResult> results = measure_all(measurer, task, schedules, clock);
  times.complete = all_measured(results);
  if (!times.complete) return s;
  const MeasureResult& first = results.front();
  if (!first.ok()) {
    times.problem = to_string(first.error) + std::string(": ") + first.message;
    return s;
  }
  s.call = first.median();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const MeasureResult& r = results[i];
    s.compile_seconds.push_back(r.compile_seconds);
    if (r.ok()) s.ratios[i] = ratio_of(r, s.call);
  }
  s.ratios.front() = 1;
  times.complete = screen_again(measurer, task, schedules, clock, s);
  return s;
}

/// The first schedule and those that screening found near the best, best first.
std::vector<std::size_t> leaders_of(const std::vector<double>& ratios) {
  std::vector<std::size_t> order(ratios.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin() + 1, order.end(),
                   [&](std::size_t a, std::size_t b) { return ratios[a] < ratios[b]; });
  const double best = *std::min_element(ratios.begin(), ratios.end());
  std::size_t count = 1;
  while (count < std::min(kRaced, order.size()) && ratios[order[count]] <= kContender * best)
    ++count;
  order.resize(count);
  return order;
}

/// Seconds of a race of the leaders, with their compilation, which is sequential where the measurer
/// does not keep their code.
double race_seconds(const Screening& s, const std::vector<std::size_t>& leaders, bool code_kept) {
  double compile = 0, round = 0;
  for (const std::size_t i : leaders) {
    if (!code_kept) compile += s.compile_seconds[i];
    const double call = s.call * s.ratios[i];
    round += call + std::max(call, kShortestTurn);
  }
  return compile + std::clamp(kRounds * round, kShortestRace, kLongestRace);
}

}  // namespace

ChoiceTimes measure_choices(Measurer& measurer, const TuneTask& task,
                            std::span<const Schedule> schedules, const TuneClock& clock) {
  ChoiceTimes times;
  times.seconds.assign(schedules.size(), kNotMeasured);
  const Screening s = screen(measurer, task, schedules, clock, times);
  if (!times.complete || !times.problem.empty()) return times;

  const std::vector<std::size_t> leaders = leaders_of(s.ratios);
  std::vector<Schedule> racing;
  for (const std::size_t i : leaders) racing.push_back(schedules[i]);
  const std::vector<MeasureResult> raced =
      measurer.race(task, racing, race_seconds(s, leaders, measurer.keeps_code()), clock);
  if (!raced.front().ok()) {
    times.complete = raced.front().error != MeasureError::Cancelled;
    times.problem = to_string(raced.front().error) + std::string(": ") + raced.front().message;
    return times;
  }
  double best = std::numeric_limits<double>::infinity();
  for (const MeasureResult& r : raced) {
    if (!r.ok()) continue;
    best = std::min(best, median_of(r.seconds));
    times.noise = std::max(times.noise, relative_error(r.seconds));
  }
  // A schedule that did not race gets at least the time of the winner, because its time in the
  // screening may have been lucky.
  const double base = median_of(raced.front().seconds);
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    if (std::isfinite(s.ratios[i])) times.seconds[i] = std::max(best, s.ratios[i] * base);
  }
  for (std::size_t j = 0; j < leaders.size(); ++j)
    times.seconds[leaders[j]] = raced[j].ok() ? median_of(raced[j].seconds) : kNotMeasured;
  times.noise = std::min(times.noise, kMostNoise);
  return times;
}

}  // namespace heddle::learning
