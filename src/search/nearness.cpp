#include "search/nearness.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "heddle/heuristics/certificate.h"

namespace heddle::search {
namespace {

// The share by which the static choice, and the best after a gain, are off in one of two cases.
constexpr double kFirstShare = 0.07, kShareAfterGain = 0.05;
constexpr double kHalfTrials = 48;
constexpr double kGain = 0.01;  // a smaller gain is noise
// Where a search is not within 5 % of what it would find, the part of the time that a find saves on average.
constexpr double kFoundGain = 0.14;
// The trials of a step of the estimate, and the most steps.
constexpr double kStepTrials = 16;
constexpr int kMostSteps = 1000;

/// s, such that w / (w + s) is `certified` for the share of certificates.
double share_of(double certified) {
  const double p = std::clamp(certified, 0.01, 0.99);
  return kCertifiedShare * (1 - p) / p;
}

}  // namespace

Nearness::Nearness(std::optional<double> certified)
    : odds_share_(certified ? share_of(*certified) : kFirstShare) {}

void Nearness::add(double best_seconds) {
  if (best_seconds <= 0) return;
  if (gained_from_ <= 0) {
    gained_from_ = best_seconds;
  } else if (best_seconds < gained_from_ * (1 - kGain)) {
    gained_from_ = best_seconds;
    odds_share_ = kShareAfterGain;
    without_gain_ = 0;
  } else {
    ++without_gain_;
  }
}

double Nearness::probability(double share) const {
  if (gained_from_ <= 0) return 0;
  if (exhausted_) return 1;
  const double p = share / (share + odds_share_);
  return p / (p + (1 - p) * std::exp2(-without_gain_ / kHalfTrials));
}

double Nearness::found_by(double trials) const {
  return (1 - probability(kCertifiedShare)) * (1 - std::exp2(-trials / kHalfTrials));
}

double expected_gain(std::span<const TunedTask> tasks, double seconds) {
  std::vector<double> trials(tasks.size(), 0);
  const auto gained = [&](size_t i, double after) {
    const TunedTask& t = tasks[i];
    const double most = std::max(0.0, t.seconds - t.least_seconds);
    return std::min(most, kFoundGain * t.seconds) * t.nearness.found_by(after);
  };
  double fastest = 0, whole = 0;
  for (const TunedTask& t : tasks) {
    whole += t.seconds;
    if (t.trial_seconds > 0 && (fastest <= 0 || t.trial_seconds < fastest))
      fastest = t.trial_seconds;
  }
  if (fastest <= 0 || whole <= 0) return 0;
  const double step = std::max(kStepTrials, seconds / fastest / kMostSteps);
  for (double left = seconds; left > 0;) {
    size_t best = tasks.size();
    double most = 0;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].trial_seconds <= 0) continue;
      const double each =
          (gained(i, trials[i] + step) - gained(i, trials[i])) / tasks[i].trial_seconds;
      if (each > most) most = each, best = i;
    }
    if (best == tasks.size()) break;
    const double now = std::min(step, left / tasks[best].trial_seconds);
    trials[best] += now;
    left -= now * tasks[best].trial_seconds;
  }
  double saved = 0;
  for (size_t i = 0; i < tasks.size(); ++i) saved += gained(i, trials[i]);
  return saved / whole;
}

}  // namespace heddle::search
