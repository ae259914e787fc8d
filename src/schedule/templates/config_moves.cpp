#include "schedule/templates/config_moves.h"

#include <algorithm>

#include "heddle/support/error.h"

namespace heddle {
namespace {

// Choices, modes and locations are numbered consecutively from 0 or -1. Sizes start at 1 or have
// gaps.
KnobKind kind_of(const Knob& knob) {
  if (knob.is_kind()) return KnobKind::Alternatives;
  int64_t first = knob.values.front(), last = knob.values.back();
  bool consecutive = last - first + 1 == static_cast<int64_t>(knob.values.size());
  return first <= 0 && consecutive ? KnobKind::Alternatives : KnobKind::Ordered;
}

size_t place_of(const Knob& knob, int64_t value) {
  auto at = std::lower_bound(knob.values.begin(), knob.values.end(), value);
  HEDDLE_ICHECK(at != knob.values.end() && *at == value,
                "knob '" + knob.name + "' has no value " + std::to_string(value));
  return static_cast<size_t>(at - knob.values.begin());
}

}  // namespace

ConfigMoves::ConfigMoves(const Template& t) : template_(t), knobs_(template_.knobs()) {
  const auto branches = static_cast<size_t>(template_.num_branches());
  movable_.resize(branches);
  ordered_.resize(branches);
  std::vector<std::string> prefixes;
  for (size_t i = 0; i < knobs_.size(); ++i) {
    kinds_.push_back(kind_of(knobs_[i]));
    const int branch = template_.branch_of_knob(i);
    for (size_t b = 0; b < branches && knobs_[i].values.size() > 1; ++b) {
      if (branch >= 0 && branch != static_cast<int>(b)) continue;
      movable_[b].push_back(i);
      if (kinds_[i] == KnobKind::Ordered) ordered_[b].push_back(i);
    }
    size_t dot = knobs_[i].name.rfind('.');
    std::string prefix = dot == std::string::npos ? "" : knobs_[i].name.substr(0, dot);
    auto at = std::find(prefixes.begin(), prefixes.end(), prefix);
    group_.push_back(static_cast<int>(at - prefixes.begin()));
    if (at == prefixes.end()) prefixes.push_back(prefix);
  }
  groups_ = static_cast<int>(prefixes.size());
}

Config ConfigMoves::random(Rng& rng) const {
  Config c;
  for (const Knob& k : knobs_) c.values.push_back(rng.choose(k.values));
  if (weights_.empty()) return c;
  double all = 0;
  for (double w : weights_) all += w;
  double left = rng.uniform_real() * all;
  size_t b = 0;
  while (b + 1 < weights_.size() && left >= weights_[b]) left -= weights_[b++];
  c.values[0] = static_cast<int64_t>(b);
  return c;
}

std::vector<Config> ConfigMoves::neighbours(const Config& config) const {
  std::vector<Config> out;
  for (size_t i : movable_[static_cast<size_t>(template_.branch_of(config))]) {
    const auto& values = knobs_[i].values;
    size_t at = place_of(knobs_[i], config.values[i]);
    for (size_t v = 0; v < values.size(); ++v) {
      if (v == at) continue;
      if (kinds_[i] == KnobKind::Ordered && v + 1 != at && v != at + 1) continue;
      out.push_back(config);
      out.back().values[i] = values[v];
    }
  }
  return out;
}

void ConfigMoves::mutate_knob(Config& config, size_t knob, Rng& rng) const {
  const auto& values = knobs_[knob].values;
  int64_t at = static_cast<int64_t>(place_of(knobs_[knob], config.values[knob]));
  int64_t last = static_cast<int64_t>(values.size()) - 1, to = at;
  if (kinds_[knob] == KnobKind::Ordered && rng.chance(0.75)) {
    int64_t way = at == 0 ? 1 : at == last ? -1 : rng.chance(0.5) ? 1 : -1;
    to = std::clamp<int64_t>(at + way * (rng.chance(0.25) ? 2 : 1), 0, last);
  } else {
    to = rng.uniform_int(0, last - 1);
    if (to >= at) ++to;
  }
  config.values[knob] = values[static_cast<size_t>(to)];
}

bool ConfigMoves::trade(Config& config, Rng& rng) const {
  const auto& ordered = ordered_[static_cast<size_t>(template_.branch_of(config))];
  if (ordered.size() < 2) return false;
  size_t up = rng.choose(ordered), down = rng.choose(ordered);
  if (up == down) return false;
  size_t u = place_of(knobs_[up], config.values[up]),
         d = place_of(knobs_[down], config.values[down]);
  if (u + 1 >= knobs_[up].values.size() || d == 0) return false;
  config.values[up] = knobs_[up].values[u + 1];
  config.values[down] = knobs_[down].values[d - 1];
  return true;
}

Config ConfigMoves::mutate(const Config& config, Rng& rng) const {
  Config out = config;
  const auto& movable = movable_[static_cast<size_t>(template_.branch_of(config))];
  if (movable.empty()) return out;
  if (rng.chance(0.15) && trade(out, rng)) return out;
  int count = rng.chance(0.6) ? 1 : rng.chance(0.6) ? 2 : 3;
  for (int i = 0; i < count; ++i) mutate_knob(out, rng.choose(movable), rng);
  return out;
}

Config ConfigMoves::crossover(const Config& a, const Config& b, Rng& rng) const {
  Config out = a;
  bool by_group = groups_ > 1 && rng.chance(0.7);
  std::vector<bool> from_b(static_cast<size_t>(groups_));
  for (size_t g = 0; g < from_b.size(); ++g) from_b[g] = rng.chance(0.5);
  for (size_t i = 0; i < knobs_.size(); ++i) {
    if (by_group ? from_b[static_cast<size_t>(group_[i])] : rng.chance(0.5))
      out.values[i] = b.values[i];
  }
  return out;
}

}  // namespace heddle
