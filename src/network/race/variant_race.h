// The race of all tasks of a network in calls of the whole, in their final surroundings: with the
// caches as the nodes before them leave these. Every call runs one variant of each task.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/search/tune.h"
#include "heddle/support/function_ref.h"

namespace heddle::network {

/// The times of one call of the network, in seconds.
struct VariantTimes {
  std::vector<double> tasks;  ///< of each task, summed over its nodes; empty where it is not known
  double total = 0;
};
/// In place of a variant: each node of this task runs variant 0 twice.
inline constexpr int kTwice = -1;

/// In place of a static choice: it is no variant, because it was not compiled in time or does not fit.
inline constexpr int kNotThere = -2;

/// Calls the network with a variant of each task; 0 is the choice that stands: the static one, or
/// what an earlier run chose.
using RunVariants = FunctionRef<VariantTimes(std::span<const int> variants)>;

struct VariantRaceLimits {
  double seconds = 0;  ///< seconds of the whole race, about a third for the second part
  int most_blocks = 200;
  int most_rounds = 64;  ///< of the whole network, tuned against static
  uint64_t seed = 0;
  /// Only whole calls are timed: tasks race one after the other, in the order of `priority`.
  bool whole_calls = false;
  std::vector<size_t> priority = {};  ///< tasks; empty: as they are
  /// The static choices where others stand, each a variant or kNotThere; empty: they are variants 0.
  std::vector<int> statics = {};
};

/// A race in two parts.
///
/// First a race for each task, all at the same time. In a block of calls every variant of every
/// task has one turn, and the order is drawn anew for each task and block. A block gives a sample
/// for each variant, and race_winner decides by them. Where only whole calls are timed, race_totals
/// decides.
///
/// Then the whole network, the winners against variants 0, in turns whose order is drawn. If that
/// does not prove a gain, the winners that gained most race again without the others. If that does
/// not either, variant 0 wins everywhere. Where variants 0 are not the static choices, these race
/// against what won, in the last part of the time. They win where they are faster.
///
/// `counts` has the number of variants of each task, at least 1. `run_whole` makes the calls of the
/// second part: as `run`, or of the network as it is deployed. `same_answers` tells whether the
/// network gives the same results with these variants as with variants 0. It is called
/// before the second part.
JointRace::Verdict race_variants(std::span<const int> counts, RunVariants run,
                                 RunVariants run_whole,
                                 FunctionRef<bool(std::span<const int>)> same_answers,
                                 const VariantRaceLimits& limits, const TuneClock& clock);

}  // namespace heddle::network
