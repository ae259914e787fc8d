// Measures of how well predictions order measurements.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "heddle/cost_model/cost_model.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

/// The ranks 0, 1, ... in ascending order. Equal values share the mean of their ranks.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    double mean = static_cast<double>(i + end - 1) / 2;
    for (; i < end; ++i) out[order[i]] = mean;
  }
  return out;
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  double n = static_cast<double>(x.size());
  double mx = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double my = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;  // all equal: there is no order
}

/// The positions of the `n` largest values. Among equals the first come first.
std::vector<size_t> largest(std::span<const double> values, size_t n) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  order.resize(n);
  return order;
}

}  // namespace

ModelAccuracy evaluate_ranking(std::span<const double> predicted,
                               std::span<const double> measured) {
  if (predicted.size() != measured.size()) {
    throw_user_error("cannot compare " + std::to_string(predicted.size()) + " predictions with " +
                     std::to_string(measured.size()) + " measurements");
  }
  ModelAccuracy out;
  out.samples = static_cast<int>(measured.size());
  if (measured.empty()) return out;
  out.spearman = correlation(ranks(predicted), ranks(measured));

  size_t top = std::min<size_t>(10, measured.size());
  std::vector<size_t> chosen = largest(predicted, top), best = largest(measured, top);
  int found = 0;
  double best_chosen = measured[chosen[0]];
  for (size_t i : chosen) {
    found += std::find(best.begin(), best.end(), i) != best.end();
    best_chosen = std::max(best_chosen, measured[i]);
  }
  out.top10_recall = found / static_cast<double>(top);
  if (measured[best[0]] > 0) out.best_of_top10 = best_chosen / measured[best[0]];
  return out;
}

}  // namespace heddle
