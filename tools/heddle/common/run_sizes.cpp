#include "common/run_sizes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "heddle/dag/instance.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"

namespace heddle::cli {
namespace {

std::vector<int64_t> parse_sizes(const std::string& text, const std::vector<Dim>& dims) {
  std::vector<int64_t> sizes;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    int64_t size = 0;
    const auto [after, error] = std::from_chars(at, end, size);
    if (error != std::errc()) break;
    sizes.push_back(size);
    at = after;
    if (at == end || *at != 'x') break;
    ++at;
  }
  if (at != end || sizes.size() != dims.size())
    throw_user_error("--sizes cannot be '" + text + "'", {},
                     "write a whole number for each range, such as 17, or 8x32 for two ranges");
  for (size_t i = 0; i < dims.size(); ++i) (void)SizeValue(dims[i], sizes[i]);
  return sizes;
}

std::vector<std::vector<int64_t>> usual_runs(const std::vector<Dim>& dims) {
  std::vector<std::vector<int64_t>> runs(3);
  for (const Dim& d : dims) {
    const auto middle =
        static_cast<int64_t>(std::sqrt(static_cast<double>(d.lo()) * static_cast<double>(d.hi())));
    runs[0].push_back(d.lo());
    runs[1].push_back(std::max(middle / d.multiple() * d.multiple(), d.lo()));
    runs[2].push_back(d.hi());
  }
  return runs;
}

}  // namespace

std::vector<std::vector<int64_t>> run_sizes(const std::vector<std::string>& texts,
                                            const std::vector<Dim>& dims) {
  if (texts.empty()) return usual_runs(dims);
  std::vector<std::vector<int64_t>> runs;
  for (const std::string& text : texts) runs.push_back(parse_sizes(text, dims));
  return runs;
}

std::vector<std::vector<int64_t>> drawn_sizes(const std::vector<Dim>& dims, int count,
                                              uint64_t seed) {
  Rng rng(seed);
  std::set<std::vector<int64_t>> seen;
  for (int tries = 0; static_cast<int>(seen.size()) < count && tries < 50 * count; ++tries) {
    std::vector<int64_t> sizes;
    for (const Dim& d : dims) {
      const double lo = std::log(static_cast<double>(d.lo())),
                   hi = std::log(static_cast<double>(d.hi()) + 1);
      const auto size = static_cast<int64_t>(std::exp(lo + (hi - lo) * rng.uniform_real()));
      sizes.push_back(std::clamp(size / d.multiple() * d.multiple(), d.lo(), d.hi()));
    }
    seen.insert(std::move(sizes));
  }
  return {seen.begin(), seen.end()};
}

std::vector<FamilyPoint> histogram_of(const std::vector<std::string>& texts,
                                      const std::vector<Dim>& dims) {
  std::vector<FamilyPoint> points;
  for (const std::string& text : texts) {
    const size_t star = text.find('*');
    FamilyPoint point{parse_sizes(text.substr(0, star), dims), 1};
    if (star != std::string::npos) {
      const char *from = text.data() + star + 1, *end = text.data() + text.size();
      const auto [after, error] = std::from_chars(from, end, point.weight);
      if (error != std::errc() || after != end || !(point.weight > 0))
        throw_user_error("--sizes cannot be '" + text + "'", {},
                         "write how often a size is expected behind a star: 17*5");
    }
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace heddle::cli
