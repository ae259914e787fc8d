// Moves in the space of a template's knobs: a random config, neighbours, mutation, crossover. They
// use knobs only. CandidateBook decides whether a config is legal.
#pragma once

#include <utility>
#include <vector>

#include "heddle/schedule/template.h"
#include "heddle/support/rng.h"

namespace heddle {

enum class KnobKind : uint8_t {
  Ordered,       ///< sizes: values that are close behave similarly
  Alternatives,  ///< a choice, a mode, a location: the numbers are names (0, 1, ... or -1, 0, ...)
};

class ConfigMoves {
 public:
  explicit ConfigMoves(const Template& t);

  KnobKind kind(size_t knob) const { return kinds_[knob]; }

  /// Draws each knob uniformly from its values. Where there are several alternatives, they are
  /// drawn by their weights.
  Config random(Rng& rng) const;
  /// Sets the relative frequency with which random() draws each branch of a template of
  /// alternatives.
  void set_weights(std::vector<double> weights) { weights_ = std::move(weights); }
  /// All configs that are one move away, in the order of the knobs: ordered knobs move to the next
  /// value in either direction, alternatives to every other value.
  std::vector<Config> neighbours(const Config& config) const;
  /// Changes mostly one knob, sometimes two or three. It may also increase one size and decrease
  /// another, which keeps their product.
  Config mutate(const Config& config, Rng& rng) const;
  /// Takes the knobs of a group (a prefix such as "g0." or "g0.s2.") mostly from one parent.
  Config crossover(const Config& a, const Config& b, Rng& rng) const;

 private:
  void mutate_knob(Config& config, size_t knob, Rng& rng) const;
  bool trade(Config& config, Rng& rng) const;

  Template template_;  // keeps the knobs alive
  const std::vector<Knob>& knobs_;
  std::vector<KnobKind> kinds_;
  /// Knobs of more than one value that matter in each branch (see Template::num_branches): its own,
  /// and the choice of the alternative.
  std::vector<std::vector<size_t>> movable_;
  std::vector<std::vector<size_t>> ordered_;  ///< those of them that are ordered
  std::vector<double> weights_;               ///< weights of the branches; empty: all equal
  std::vector<int> group_;
  int groups_ = 0;
};

}  // namespace heddle
