#include "quantize/ranges.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>

namespace heddle::quantize {
namespace {

constexpr size_t kBins = 2048;
constexpr size_t kLevels = 128;  ///< of one sign, in 8 bits

constexpr double kUnseen = 1e-4;  ///< the probability of what a distribution has none of

/// The divergence of the distribution of the first `kept` bins, with all beyond them in the last
/// one, from what remains of the kept ones in kLevels steps.
double divergence(const std::vector<uint64_t>& bins, size_t kept, uint64_t beyond, uint64_t all) {
  if (beyond == all) return std::numeric_limits<double>::infinity();
  const auto inside = static_cast<double>(all - beyond);
  const auto with_beyond = [&](size_t bin) {
    return static_cast<double>(bins[bin] + (bin + 1 == kept ? beyond : 0));
  };
  double sum = 0;
  for (size_t level = 0; level < kLevels; ++level) {
    const size_t begin = level * kept / kLevels, end = (level + 1) * kept / kLevels;
    double in_level = 0, filled = 0;
    for (size_t b = begin; b < end; ++b) {
      in_level += static_cast<double>(bins[b]);
      filled += with_beyond(b) > 0 ? 1 : 0;
    }
    const double q = in_level > 0 ? in_level / filled / inside : kUnseen;
    for (size_t b = begin; b < end; ++b) {
      const double p = with_beyond(b) / static_cast<double>(all);
      if (p > 0) sum += p * std::log(p / q);
    }
  }
  return sum;
}

}  // namespace

void SeenValues::widen(const NDArray& values, const std::string& tensor) {
  const auto* v = values.data<float>();
  for (int64_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(v[i]))
      throw_user_error("'" + tensor + "' is not finite on the samples", {},
                       "leave out the samples for which the network overflows");
    low_ = std::min(low_, v[i]);
    high_ = std::max(high_, v[i]);
  }
}

void SeenValues::count(const NDArray& values) {
  bins_.resize(kBins);
  const double most = std::max(-double{low_}, double{high_});
  if (most == 0) return;
  const auto* v = values.data<float>();
  for (int64_t i = 0; i < values.size(); ++i) {
    const double at = std::abs(double{v[i]}) / most * kBins;
    ++bins_[std::min(static_cast<size_t>(at), kBins - 1)];
  }
}

double SeenValues::percentile(double percent) const {
  const auto all = std::accumulate(bins_.begin(), bins_.end(), uint64_t{0});
  const double wanted = static_cast<double>(all) * percent / 100;
  uint64_t sum = 0;
  size_t kept = 0;
  while (kept < kBins && static_cast<double>(sum) < wanted) sum += bins_[kept++];
  return static_cast<double>(std::max<size_t>(kept, 1)) / kBins;
}

double SeenValues::least_divergence() const {
  // Zeros, of which there are many behind a Relu, are exact whatever the range is.
  std::vector<uint64_t> bins = bins_;
  bins[0] = 0;
  const auto all = std::accumulate(bins.begin(), bins.end(), uint64_t{0});
  if (all == 0) return 1;
  uint64_t inside = std::accumulate(bins.begin(), bins.begin() + kLevels, uint64_t{0});
  size_t best = kBins;
  double least = std::numeric_limits<double>::infinity();
  for (size_t kept = kLevels; kept <= kBins; ++kept) {
    const double d = divergence(bins, kept, all - inside, all);
    if (d <= least) {  // of equals the widest: values of few levels have several without a loss
      least = d;
      best = kept;
    }
    if (kept < kBins) inside += bins[kept];
  }
  return static_cast<double>(best) / kBins;
}

std::pair<double, double> SeenValues::range(const QuantizeOptions& options) const {
  if (options.method == RangeMethod::MinMax) return {low_, high_};
  const double most = std::max(-double{low_}, double{high_});
  const double end =
      most * (options.method == RangeMethod::Percentile ? percentile(options.percentile)
                                                        : least_divergence());
  return {std::max(double{low_}, -end), std::min(double{high_}, end)};
}

double Scale::rounded(double value) const {
  const double low = dtype == i8 ? -128 : 0;
  const double q = std::nearbyint(static_cast<float>(value) / scale) + static_cast<double>(zero);
  return (std::clamp(q, low, low + 255) - static_cast<double>(zero)) * scale;
}

Scale scale_of(const std::pair<double, double>& range, DataType dtype) {
  const auto [low, high] = range;
  Scale s{.dtype = dtype};
  // Of two values of the smallest scale the sum is still a normal number.
  const auto at_least = [](double scale) { return static_cast<float>(std::max(scale, 1e-30)); };
  if (low == high) return s;  // 0 alone
  if (dtype == i8) {
    s.scale = at_least(std::max(-low, high) / 127);
  } else {
    s.scale = at_least((high - low) / 255);
    s.zero = std::clamp<int64_t>(std::llrint(-low / s.scale), 0, 255);
  }
  return s;
}

void Noise::add(double value, double other) {
  const double difference = value - other;
  signal += value * value;
  noise += difference * difference;
  largest = std::max(largest, std::abs(difference));
  largest_signal = std::max(largest_signal, std::abs(value));
}

double Noise::snr() const {
  if (noise == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(std::max(signal, DBL_MIN) / noise);
}

}  // namespace heddle::quantize
