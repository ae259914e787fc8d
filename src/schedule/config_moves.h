// Moves in the space of a template's knobs: a random config, neighbours, mutation, crossover. They
// look at knobs only; whether a config is legal is the CandidateBook's question.
#pragma once

#include <utility>
#include <vector>

#include "heddle/schedule/template.h"
#include "heddle/support/rng.h"

namespace heddle {

enum class KnobKind : uint8_t {
  Ordered,       ///< sizes: neighbours in value behave alike
  Alternatives,  ///< a choice, a mode, a location: the numbers are names (0, 1, ... or -1, 0, ...)
};

class ConfigMoves {
 public:
  explicit ConfigMoves(const Template& t);

  KnobKind kind(size_t knob) const { return kinds_[knob]; }

  /// Each knob uniform over its values; the alternative, where there are several, by its weight.
  Config random(Rng& rng) const;
  /// How often random() is to draw each branch of a template of alternatives, relatively.
  void set_weights(std::vector<double> weights) { weights_ = std::move(weights); }
  /// All configs one move away: ordered knobs to the next value either way, alternatives to every
  /// other. In the order of the knobs.
  std::vector<Config> neighbours(const Config& config) const;
  /// Mostly one knob, sometimes two or three; or one size up and another down, which keeps what
  /// they occupy together.
  Config mutate(const Config& config, Rng& rng) const;
  /// Knobs of one group (a prefix such as "g0." or "g0.s2.") mostly come from one parent.
  Config crossover(const Config& a, const Config& b, Rng& rng) const;

 private:
  void mutate_knob(Config& config, size_t knob, Rng& rng) const;
  bool trade(Config& config, Rng& rng) const;

  Template template_;  // keeps the knobs alive
  const std::vector<Knob>& knobs_;
  std::vector<KnobKind> kinds_;
  /// Knobs of more than one value that count, by branch (see Template::num_branches): its own, and
  /// the choice of the alternative.
  std::vector<std::vector<size_t>> movable_;
  std::vector<std::vector<size_t>> ordered_;  ///< of which ordered
  std::vector<double> weights_;               ///< of the branches; empty: all alike
  std::vector<int> group_;
  int groups_ = 0;
};

}  // namespace heddle
