#include "measure/cpu/lanes.h"

#include <algorithm>

namespace heddle::measuring {
namespace {

// The largest allowed time of the static choice in several lanes, relative to its time alone. Above
// it there are too many lanes.
constexpr double kMostContention = 1.1;

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

}  // namespace

RunLanes::RunLanes(std::vector<int> cpus, int threads, int asked)
    : cpus_(std::move(cpus)),
      threads_(static_cast<size_t>(std::max(1, threads))),
      fixed_(asked > 0) {
  const size_t room = std::max<size_t>(1, cpus_.size() / threads_);
  most_ = fixed_ ? std::min(room, static_cast<size_t>(asked)) : std::max<size_t>(1, room / 2);
}

std::span<const int> RunLanes::cpus_of(size_t lane) const {
  if (count() == 1) return {};
  return std::span(cpus_).subspan(lane * threads_, threads_);
}

bool RunLanes::learn(std::span<const double> static_seconds) {
  if (static_seconds.empty()) return false;
  const double seconds = median_of(static_seconds);
  if (alone_ == 0) {
    alone_ = seconds;
    return most_ > 1;
  }
  if (static_seconds.size() < 2 || most_ == 1) return false;
  contention_ = seconds / alone_;
  if (fixed_ || contention_ <= kMostContention) return false;
  most_ /= 2;
  return true;
}

}  // namespace heddle::measuring
