#include "heuristics/choices/draw.h"

#include <algorithm>
#include <cmath>

namespace heddle::learning {
namespace {

std::int64_t log_uniform(Rng& rng, std::int64_t least, std::int64_t most) {
  const double x = rng.uniform_real(std::log(static_cast<double>(least)),
                                    std::log(static_cast<double>(most) + 1));
  return std::clamp(static_cast<std::int64_t>(std::exp(x)), least, most);
}

std::int64_t near_power(Rng& rng, std::int64_t least, std::int64_t most) {
  const double exact = std::log2(static_cast<double>(log_uniform(rng, least, most)));
  return std::int64_t{1} << std::llround(exact);
}

std::int64_t rounded_to(std::int64_t value, std::int64_t unit) {
  return std::max(unit, (value + unit / 2) / unit * unit);
}

}  // namespace

std::int64_t draw_extent(Rng& rng, std::int64_t least, std::int64_t most,
                         const std::vector<std::int64_t>& known) {
  const double kind = rng.uniform_real();
  std::int64_t extent = log_uniform(rng, least, most);
  if (kind < 0.25) {
    extent = near_power(rng, least, most);
  } else if (kind < 0.45) {
    extent = rounded_to(extent, rng.chance(0.5) ? 8 : 16);
  } else if (kind < 0.55) {
    extent = near_power(rng, least, most) + rng.uniform_int(-1, 1);
  } else if (kind < 0.75 && !known.empty()) {
    extent = rng.choose(known);
  }
  return std::clamp(extent, least, most);
}

DataType draw_type(Rng& rng, const Target& target) {
  const double kind = rng.uniform_real();
  if (!target.is_cuda()) return kind < 0.75 ? f32 : bf16;
  return kind < 0.5 ? f32 : kind < 0.75 ? bf16 : f16;
}

std::string sizes_text(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (const std::int64_t s : sizes) text += (text.empty() ? "" : "x") + std::to_string(s);
  return text;
}

std::string type_text(DataType dtype) { return dtype == f32 ? "" : "," + to_string(dtype); }

}  // namespace heddle::learning
