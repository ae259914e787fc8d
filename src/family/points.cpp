// The sizes at which the kernels of a family are chosen and raced.
#include <algorithm>
#include <cmath>

#include "family/points.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

int points_of(const FamilyOptions& o, size_t dims) {
  if (o.points < 0)
    throw_user_error("a family is raced at " + std::to_string(o.points) + " points");
  if (o.points > 0) return o.points;
  return dims == 1 ? 12 : dims == 2 ? 4 : 3;
}

/// The nearest size that the dimension has.
int64_t nearest(const Dim& d, double size) {
  const auto m = static_cast<double>(d.multiple());
  return std::clamp(static_cast<int64_t>(std::llround(size / m)) * d.multiple(), d.lo(), d.hi());
}

std::vector<int64_t> spaced(const Dim& d, int count) {
  std::vector<int64_t> sizes;
  const double lo = std::log(static_cast<double>(d.lo())),
               hi = std::log(static_cast<double>(d.hi()));
  for (int i = 0; i < count; ++i) {
    const double at = count == 1 ? hi : lo + (hi - lo) * i / (count - 1);
    sizes.push_back(nearest(d, std::exp(at)));
  }
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

void check(const std::vector<Dim>& dims, const FamilyPoint& p) {
  if (p.sizes.size() != dims.size())
    throw_user_error("a point of the histogram has " + std::to_string(p.sizes.size()) +
                     " sizes, and there are " + std::to_string(dims.size()) + " dimensions");
  if (!(p.weight >= 0)) throw_user_error("a weight of the histogram is negative");
  for (size_t i = 0; i < dims.size(); ++i) (void)SizeValue(dims[i], p.sizes[i]);
}

/// For one dimension: the middle sizes of `count` parts of equal weight, and the largest size.
std::vector<FamilyPoint> quantiles(std::vector<FamilyPoint> all, int count) {
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.sizes < b.sizes; });
  double total = 0;
  for (const FamilyPoint& p : all) total += p.weight;
  std::vector<FamilyPoint> out;
  double sum = 0;
  int part = 0;
  for (const FamilyPoint& p : all) {
    sum += p.weight;
    double share = 0;
    while (part < count && sum >= total * (part + 0.5) / count) ++part, share += total / count;
    if (share > 0) out.push_back({p.sizes, share});
  }
  return out;
}

std::vector<FamilyPoint> heaviest(std::vector<FamilyPoint> all, size_t count) {
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.weight > b.weight; });
  all.resize(std::min(all.size(), count));
  return all;
}

std::vector<FamilyPoint> points(const std::vector<Dim>& dims, const FamilyOptions& options,
                                int count) {
  if (!options.histogram.empty()) {
    for (const FamilyPoint& p : options.histogram) check(dims, p);
    const auto most = static_cast<size_t>(std::pow(count, static_cast<double>(dims.size())));
    if (options.histogram.size() <= most) return options.histogram;
    return dims.size() == 1 ? quantiles(options.histogram, count)
                            : heaviest(options.histogram, most);
  }
  std::vector<FamilyPoint> points{{{}, 1}};
  for (const Dim& d : dims) {
    std::vector<FamilyPoint> longer;
    for (const FamilyPoint& p : points) {
      for (const int64_t size : spaced(d, count)) {
        longer.push_back(p);
        longer.back().sizes.push_back(size);
      }
    }
    points = std::move(longer);
  }
  return points;
}

}  // namespace

std::vector<FamilyPoint> family_points(const std::vector<Dim>& dims, const FamilyOptions& options) {
  return points(dims, options, points_of(options, dims.size()));
}

// With a step between two points cut into three for one dimension, into two for two.
std::vector<FamilyPoint> family::race_points(const std::vector<Dim>& dims,
                                             const FamilyOptions& options) {
  const int count = points_of(options, dims.size());
  const int parts = dims.size() == 1 ? 3 : dims.size() == 2 ? 2 : 1;
  return points(dims, options, count > 1 ? (count - 1) * parts + 1 : count);
}

FamilyPoint family::odd_point(const std::vector<Dim>& dims, FamilyPoint p) {
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t m = dims[i].multiple();
    if (p.sizes[i] / m % 2 == 0 && p.sizes[i] > dims[i].lo()) p.sizes[i] -= m;
  }
  return p;
}

}  // namespace heddle
