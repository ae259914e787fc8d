#include "runtime/race/race.h"

#include <algorithm>
#include <cmath>

#include "heddle/support/rng.h"

namespace heddle::racing {
namespace {

using Turns = std::vector<std::vector<size_t>>;  // by field and call

bool active(const Field& f) {
  const size_t racing = f.racing().size();
  return racing > 0 && racing >= f.rules().fewest_racing;
}

Turns draw_turns(std::span<const Field> fields, Rng& rng) {
  size_t calls = 0;
  for (const Field& f : fields) calls = std::max(calls, active(f) ? f.racing().size() : 0);
  Turns turns;
  for (const Field& f : fields) {
    turns.push_back(active(f) ? f.racing() : std::vector<size_t>());
    turns.back().resize(calls, f.rules().against == Against::Leader ? f.leader() : 0);
    rng.shuffle(turns.back());
  }
  return turns;
}

/// Counts the first turn of each entrant.
void count(Field& field, const std::vector<size_t>& turns,
           const std::vector<std::vector<double>>& seconds, size_t at) {
  if (!active(field)) return;
  for (const size_t entrant : field.racing()) {
    const auto turn = std::find(turns.begin(), turns.end(), entrant) - turns.begin();
    field.add(entrant, seconds[static_cast<size_t>(turn)][at]);
  }
}

bool is_look(const Rules& rules, int rounds) {
  return rules.looks.empty() ||
         std::find(rules.looks.begin(), rules.looks.end(), rounds) != rules.looks.end();
}

}  // namespace

double Field::time(size_t entrant) const {
  const std::vector<double>& s = seconds_[entrant];
  if (s.empty()) return std::numeric_limits<double>::infinity();
  return rules_.summary == Summary::Least ? *std::min_element(s.begin(), s.end()) : median_of(s);
}

std::vector<double> Field::times() const {
  std::vector<double> all;
  for (size_t i = 0; i < seconds_.size(); ++i) all.push_back(time(i));
  return all;
}

size_t Field::leader() const {
  const std::vector<size_t> all = racing();
  if (all.empty()) return 0;
  return *std::min_element(all.begin(), all.end(),
                           [&](size_t a, size_t b) { return time(a) < time(b); });
}

std::vector<size_t> Field::racing() const {
  std::vector<size_t> list;
  for (size_t i = 0; i < out_.size(); ++i) {
    if (out_[i] == Out::No) list.push_back(i);
  }
  return list;
}

void Field::add(size_t entrant, double seconds) {
  if (seconds == kFailed) return drop(entrant, Out::Failed);
  seconds_[entrant].push_back(seconds);
}

void Field::drop_hopeless() {
  if (rules_.hopeless == std::numeric_limits<double>::infinity()) return;
  const size_t reference = rules_.against == Against::Leader ? leader() : 0;
  if (out_.empty() || out_[reference] != Out::No) return;
  const double limit = rules_.hopeless * time(reference);
  for (const size_t i : racing()) {
    if (i != reference && time(i) >= limit) drop(i, Out::Slower);
  }
}

int Field::winner(double luck) const {
  std::vector<std::vector<double>> racing = seconds_;
  for (size_t i = 0; i < out_.size(); ++i) {
    if (out_[i] != Out::No) racing[i].clear();
  }
  return winner_of(racing, luck);
}

int winner_of(std::span<const std::vector<double>> seconds, double luck) {
  if (seconds.empty()) return -1;
  const std::vector<double>& base = seconds[0];
  int best = base.empty() ? -1 : 0;
  for (size_t i = 1; i < seconds.size(); ++i) {
    if (seconds[i].empty()) continue;
    if (!base.empty() &&
        !clearly_faster(seconds[i], base, static_cast<int>(seconds.size()) - 1, luck))
      continue;
    if (best < 0 || median_of(seconds[i]) < median_of(seconds[static_cast<size_t>(best)]))
      best = static_cast<int>(i);
  }
  return best;
}

int run(std::span<Field> fields,
        FunctionRef<std::vector<double>(std::span<const size_t> entrants)> call, const Ends& ends) {
  if (fields.empty()) return 0;
  const Rules& rules = fields[0].rules();
  Rng rng(rules.seed);
  int rounds = 0;
  while (rounds < rules.most_rounds) {
    if (rounds >= rules.fewest_rounds && ends.enough && ends.enough(rounds)) break;
    const Turns turns = draw_turns(fields, rng);
    if (turns[0].empty()) break;
    std::vector<std::vector<double>> seconds;
    for (size_t c = 0; c < turns[0].size(); ++c) {
      if (ends.over && ends.over()) return rounds;
      std::vector<size_t> entrants;
      for (const std::vector<size_t>& of_field : turns) entrants.push_back(of_field[c]);
      seconds.push_back(call(entrants));
      for (const double s : seconds.back()) {
        if (std::isnan(s)) return rounds;
      }
    }
    for (size_t f = 0; f < fields.size(); ++f) count(fields[f], turns[f], seconds, f);
    ++rounds;
    if (!is_look(rules, rounds)) continue;
    for (Field& f : fields) f.drop_hopeless();
    if (ends.decided && ends.decided(rounds)) break;
  }
  return rounds;
}

int run(Field& field, FunctionRef<double(size_t entrant)> sample, const Ends& ends) {
  return run(
      {&field, 1},
      [&](std::span<const size_t> entrants) { return std::vector<double>{sample(entrants[0])}; },
      ends);
}

}  // namespace heddle::racing
