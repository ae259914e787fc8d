#include "heuristics/learn/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "heuristics/train/confidence.h"
#include "support/hashing/hash.h"

namespace heddle::learning {
namespace {

constexpr int kValues = 9;  // of a range, those at which collect() asks the rule among them
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// The place of a value in its range, from 0 to 1. Ranges of positive numbers are logarithmic.
double place_of(const ConstantInfo& info, double value) {
  if (info.low > 0) return std::log(value / info.low) / std::log(info.high / info.low);
  return (value - info.low) / (info.high - info.low);
}

/// What a value of a constant does to each race, relative to the constants so far.
struct Move {
  double value = 0;
  double pull = 0;                 ///< towards the default
  std::vector<double> gains = {};  ///< log(time / time so far); unknown where it was not measured
  bool counts = false;             ///< enough of what it changes was measured
};

/// The best move of a constant, and what moves chosen without them did on held-out races.
struct Trial {
  const ConstantInfo* info = nullptr;
  double value = 0;
  std::vector<double> held_out;
  double bound = 0;
};

double mean_known(const std::vector<double>& gains, const std::vector<int>& folds, int without) {
  double sum = 0;
  int count = 0;
  for (std::size_t r = 0; r < gains.size(); ++r) {
    if (folds[r] == without || std::isnan(gains[r])) continue;
    sum += gains[r];
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

class Calibrator {
 public:
  Calibrator(const std::vector<CalibrationRace>& races, std::string_view kind,
             const CalibrateOptions& o)
      : o_(o) {
    for (const CalibrationRace& r : races) {
      std::string key = r.choose(now_);
      if (!r.seconds.contains(key)) continue;
      races_.push_back(&r);
      keys_.push_back(std::move(key));
    }
    make_folds();
    screen(kind);
  }

  Calibration run() {
    Calibration out{.constants = {}, .moved = {}, .sensitive = static_cast<int>(open_.size())};
    while (!open_.empty() && !expired()) {
      std::optional<Trial> best;
      for (const ConstantInfo* info : open_) {
        if (expired()) break;
        std::optional<Trial> t = tried(*info);
        if (t && t->bound < 0 && (!best || t->bound < best->bound)) best = std::move(t);
      }
      if (!best) break;
      out.moved.push_back(taken(*best));
    }
    out.constants = now_;
    return out;
  }

 private:
  bool expired() const { return o_.expired && o_.expired(); }

  /// Folds of nearly equal size that depend on the ids and the seed alone.
  void make_folds() {
    std::vector<std::pair<std::uint64_t, std::size_t>> order;
    for (std::size_t r = 0; r < races_.size(); ++r)
      order.emplace_back(hash_combine(hash_string(races_[r]->id), o_.seed), r);
    std::ranges::sort(order);
    folds_.resize(races_.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      folds_[order[i].second] = static_cast<int>(i) % o_.folds;
  }

  void screen(std::string_view kind) {
    for (const ConstantInfo& info : constants_of(kind)) {
      if (o_.held.contains(std::string(info.name)) || expired()) continue;
      const bool decides = std::ranges::any_of(std::array{info.low, info.high}, [&](double end) {
        RuleConstants other = now_;
        set_value(&other, info, end);
        for (std::size_t r = 0; r < races_.size(); ++r) {
          if (races_[r]->choose(other) != keys_[r]) return true;
        }
        return false;
      });
      if (decides) open_.push_back(&info);
    }
  }

  /// log(time of `key` / time so far) of race `r`, nothing within the noise.
  double gain(std::size_t r, const std::string& key) const {
    if (key == keys_[r]) return 0;
    const CalibrationRace& race = *races_[r];
    const auto at = race.seconds.find(key);
    if (at == race.seconds.end()) return kUnknown;
    const double most = std::log(o_.most_slowdown);
    const double loss = std::clamp(std::log(at->second / race.seconds.at(keys_[r])), -most, most);
    return std::fabs(loss) <= std::max(o_.least_noise, race.noise) ? 0 : loss;
  }

  Move move_to(const ConstantInfo& info, double value) const {
    RuleConstants other = now_;
    set_value(&other, info, value);
    const double usual = value_of(default_constants(), info);
    Move m{.value = value,
           .pull = o_.pull * std::fabs(place_of(info, value) - place_of(info, usual))};
    int changed = 0, known = 0;
    for (std::size_t r = 0; r < races_.size(); ++r) {
      const std::string key = races_[r]->choose(other);
      m.gains.push_back(gain(r, key));
      if (key == keys_[r]) continue;
      ++changed;
      known += std::isnan(m.gains.back()) ? 0 : 1;
    }
    m.counts = known >= o_.fewest_changed && 2 * known >= changed;
    return m;
  }

  /// The move of least mean loss without a fold; null where none gains.
  const Move* best_without(const std::vector<Move>& moves, int fold) const {
    const Move* best = nullptr;
    double least = 0;
    for (const Move& m : moves) {
      const double loss = mean_known(m.gains, folds_, fold) + m.pull;
      if (!m.counts || loss >= least) continue;
      least = loss;
      best = &m;
    }
    return best;
  }

  std::optional<Trial> tried(const ConstantInfo& info) const {
    std::vector<Move> moves;
    for (const double v : values_across(info, kValues)) {
      if (v != value_of(now_, info)) moves.push_back(move_to(info, v));
    }
    const Move* all = best_without(moves, -1);
    if (all == nullptr) return std::nullopt;
    Trial t{&info, all->value, {}, 0};
    for (int fold = 0; fold < o_.folds; ++fold) {
      const Move* chosen = best_without(moves, fold);
      for (std::size_t r = 0; r < races_.size(); ++r) {
        if (folds_[r] != fold) continue;
        const double loss = chosen != nullptr ? chosen->gains[r] : 0;
        if (!std::isnan(loss)) t.held_out.push_back(loss);
      }
    }
    if (t.held_out.size() < 2) return std::nullopt;
    const double trials = static_cast<double>(open_.size());
    t.bound = mean_bound(t.held_out, {.variance = variance(t.held_out)},
                         1 - (1 - o_.confidence) / trials);
    return t;
  }

  static double variance(const std::vector<double>& values) {
    return squared_deviations(values) / static_cast<double>(values.size() - 1);
  }

  /// Moves the constant.
  MovedConstant taken(const Trial& t) {
    MovedConstant m{.name = std::string(t.info->name),
                    .unit = std::string(t.info->unit),
                    .from = value_of(now_, *t.info),
                    .to = t.value};
    set_value(&now_, *t.info, t.value);
    m.problems = static_cast<int>(t.held_out.size());
    m.gain = std::exp(-mean_of(t.held_out));
    m.error = std::sqrt(variance(t.held_out) / static_cast<double>(t.held_out.size()));
    for (std::size_t r = 0; r < races_.size(); ++r) {
      std::string key = races_[r]->choose(now_);
      if (key == keys_[r]) continue;
      ++m.changed;
      // A choice without a time stays with the time so far.
      if (races_[r]->seconds.contains(key)) keys_[r] = std::move(key);
    }
    std::erase(open_, t.info);
    return m;
  }

  const CalibrateOptions& o_;
  RuleConstants now_;
  std::vector<const CalibrationRace*> races_;  ///< those whose rule was measured
  std::vector<std::string> keys_;              ///< what the rule takes with the constants so far
  std::vector<int> folds_;
  std::vector<const ConstantInfo*> open_;  ///< those that decide and have not moved
};

}  // namespace

Calibration calibrate(const std::vector<CalibrationRace>& races, std::string_view kind,
                      const CalibrateOptions& options) {
  return Calibrator(races, kind, options).run();
}

}  // namespace heddle::learning
