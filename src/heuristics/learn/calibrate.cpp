#include "heuristics/learn/calibrate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "heuristics/learn/race_choices.h"
#include "heuristics/learn/trials.h"
#include "heuristics/train/confidence.h"
#include "support/log.h"

namespace heddle::learning {
namespace {

constexpr int kValues = 9;  // of a range, those at which collect() asks the rule among them
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

class Calibrator {
 public:
  Calibrator(const std::vector<CalibrationRace>& races, std::string_view kind,
             const CalibrateOptions& o)
      : o_(o),
        kind_(kind),
        races_(races, kind, o.seed, o.expired),
        folds_(races_.folds_of(o.folds)) {
    screen();
  }

  Calibration run() {
    Calibration out;
    const std::size_t suggested = o_.proven_elsewhere.size();
    while (move_one(out, &Calibrator::trial_of_others, suggested)) {
    }
    // What was proven elsewhere is where the search begins.
    moved_.clear();
    if (!out.moved.empty()) screen();
    while (move_one(out, &Calibrator::tried, known_.size())) {
    }
    out.constants = now_;
    out.sensitive = static_cast<int>(sensitive_.size());
    out.known = static_cast<int>(known_.size());
    out.finished = !expired();
    return out;
  }

 private:
  bool expired() const { return o_.expired && o_.expired(); }

  /// Moves the constant that gains most of those that are proven, of which `among` are judged together. False where there
  /// is none.
  bool move_one(Calibration& out,
                std::optional<Trial> (Calibrator::*trial)(const OpenConstant&) const,
                std::size_t among) {
    std::vector<Trial> trials;
    for (const OpenConstant& open : open_) {
      if (expired()) break;
      if (std::optional<Trial> t = (this->*trial)(open)) trials.push_back(*std::move(t));
    }
    keep_proven(trials, moved_.size(), among);
    // What seems proven is tried again with all races that it decides.
    std::vector<Trial> whole;
    for (const Trial& t : trials) {
      OpenConstant& open = open_[static_cast<std::size_t>(t.open - open_.data())];
      open.races = races_.decided_alone_by(*open.info);
      if (std::optional<Trial> again = (this->*trial)(open)) whole.push_back(*std::move(again));
    }
    trials = std::move(whole);
    keep_proven(trials, moved_.size(), among);
    if (trials.empty() || expired()) return false;
    const Trial& most =
        *std::ranges::max_element(trials, {}, [](const Trial& t) { return -mean_of(t.held_out); });
    moved_.insert(std::string(most.open->info->name));
    add_move(out.moved, most);
    screen();
    return true;
  }

  /// A constant that moved before has one entry, from its default to where it is now; none where that is the default.
  void add_move(std::vector<MovedConstant>& moved, const Trial& t) {
    const OpenConstant& open = *t.open;
    MovedConstant m = taken(t);
    const auto before = std::ranges::find(moved, m.name, &MovedConstant::name);
    if (before != moved.end()) {
      m.from = before->from;
      m.gain *= before->gain;
      m.error = std::hypot(m.error, before->error);
      const std::vector<std::string> from = races_.chosen(open.races, *open.info, m.from),
                                     to = races_.chosen(open.races, *open.info, m.to);
      m.changed = 0;
      for (std::size_t i = 0; i < to.size(); ++i) m.changed += from[i] == to[i] ? 0 : 1;
      moved.erase(before);
    }
    if (m.to != m.from) moved.push_back(std::move(m));
  }

  /// The constants that may move, with the races that they decide.
  void screen() {
    open_.clear();
    for (const ConstantInfo& info : constants_of(kind_)) {
      const std::string name(info.name);
      if (moved_.contains(name) || expired()) continue;
      OpenConstant open{&info, races_.decided_by(info)};
      if (open.races.empty()) continue;
      sensitive_.insert(name);
      if (std::ranges::any_of(moves_of(open), &Move::counts)) known_.insert(name);
      open_.push_back(std::move(open));
    }
  }

  /// log(time of `key` / time so far) of race `r`, nothing within the noise.
  double gain(std::size_t r, const std::string& key) const {
    const CalibrationRace& race = races_.race(r);
    const auto at = race.seconds.find(key);
    if (at == race.seconds.end()) return kUnknown;
    const double most = std::log(o_.most_slowdown);
    const double loss = std::clamp(std::log(at->second / races_.seconds(r)), -most, most);
    return std::fabs(loss) <= std::max(o_.least_noise, race.noise) ? 0 : loss;
  }

  Move move_to(const OpenConstant& open, double value) const {
    const ConstantInfo& info = *open.info;
    const double distance = place_of(info, value) - place_of(info, value_of(now_, info));
    Move m{.value = value,
           .pull = o_.pull * std::fabs(distance),
           .gains = std::vector<double>(races_.size(), 0)};
    int changed = 0, known = 0;
    const std::vector<std::string> keys = races_.chosen(open.races, info, value);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::size_t r = open.races[i];
      if (keys[i] == races_.key(r)) continue;
      m.gains[r] = gain(r, keys[i]);
      ++changed;
      known += std::isnan(m.gains[r]) ? 0 : 1;
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

  std::vector<Move> moves_of(const OpenConstant& open) const {
    std::vector<Move> moves;
    for (const double v : values_across(*open.info, kValues)) {
      if (v != value_of(now_, *open.info)) moves.push_back(move_to(open, v));
    }
    return moves;
  }

  /// The value that other machines proved, on all races: none of them chose it.
  std::optional<Trial> trial_of_others(const OpenConstant& open) const {
    const auto at = std::ranges::find(o_.proven_elsewhere, open.info,
                                      &std::pair<const ConstantInfo*, double>::first);
    if (at == o_.proven_elsewhere.end() || at->second == value_of(now_, *open.info))
      return std::nullopt;
    const Move move = move_to(open, at->second);
    if (!move.counts) return std::nullopt;
    Trial t{&open, move.value, move.gains};
    std::erase_if(t.held_out, [](double loss) { return std::isnan(loss); });
    return described(std::move(t));
  }

  std::optional<Trial> tried(const OpenConstant& open) const {
    const std::vector<Move> moves = moves_of(open);
    const Move* all = best_without(moves, -1);
    if (all == nullptr) return std::nullopt;
    Trial t{&open, all->value, {}};
    for (int fold = 0; fold < o_.folds; ++fold) {
      const Move* chosen = best_without(moves, fold);
      for (std::size_t r = 0; r < races_.size(); ++r) {
        if (folds_[r] != fold) continue;
        const double loss = chosen != nullptr ? chosen->gains[r] : 0;
        if (!std::isnan(loss)) t.held_out.push_back(loss);
      }
    }
    return described(std::move(t));
  }

  /// Logs a trial; none where too little is known.
  std::optional<Trial> described(Trial t) const {
    if (t.held_out.size() < 2) return std::nullopt;
    const OpenConstant& open = *t.open;
    HEDDLE_LOG_AT("heuristics", 2,
                  std::string(open.info->name) + " " + std::to_string(value_of(now_, *open.info)) +
                      " to " + std::to_string(t.value) + ": held out " +
                      std::to_string(std::exp(-mean_of(t.held_out))) + ", " +
                      std::to_string(-t.score()) + " standard errors, decides " +
                      std::to_string(open.races.size()) + " of " + std::to_string(races_.size()) +
                      " races");
    return t;
  }

  /// Leaves the trials that are proven, of `among` that are judged together. `moved` constants were before.
  void keep_proven(std::vector<Trial>& trials, std::size_t moved, std::size_t among) const {
    std::ranges::sort(trials, {}, &Trial::score);
    for (std::size_t k = trials.size(); k > 0; --k) {
      const Trial& t = trials[k - 1];
      const double share =
          static_cast<double>(moved + k) / std::max<double>(1, static_cast<double>(among));
      const double level = 1 - (1 - o_.confidence) * std::min(1.0, share);
      if (mean_bound(t.held_out, {.variance = t.variance()}, level) >= 0) continue;
      trials.resize(k);
      return;
    }
    trials.clear();
  }

  /// Moves the constant.
  MovedConstant taken(const Trial& t) {
    const ConstantInfo& info = *t.open->info;
    MovedConstant m{.name = std::string(info.name),
                    .unit = std::string(info.unit),
                    .from = value_of(now_, info),
                    .to = t.value};
    set_value(&now_, info, t.value);
    m.changed = races_.move(info, t.value);
    m.problems = static_cast<int>(t.held_out.size());
    m.gain = std::exp(-mean_of(t.held_out));
    m.error = std::sqrt(t.variance() / static_cast<double>(t.held_out.size()));
    return m;
  }

  const CalibrateOptions& o_;
  const std::string_view kind_;
  RuleConstants now_;
  RaceChoices races_;
  const std::vector<int> folds_;
  std::set<std::string> sensitive_, known_;  ///< constants that decided, and that could move
  std::set<std::string> moved_;              ///< since the search began
  std::vector<OpenConstant> open_;           ///< those that decide and are not in `moved_`
};

}  // namespace

Calibration calibrate(const std::vector<CalibrationRace>& races, std::string_view kind,
                      const CalibrateOptions& options) {
  return Calibrator(races, kind, options).run();
}

}  // namespace heddle::learning
