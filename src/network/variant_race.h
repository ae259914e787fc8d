// The race of all tasks of a network at once. Every call of the network runs one variant of each
// task. A few calls therefore time all variants of all tasks in their final surroundings: with the
// caches as the nodes before them leave these.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/search/tune.h"
#include "heddle/support/function_ref.h"

namespace heddle::network {

/// The times of one call of the network, in seconds.
struct VariantTimes {
  std::vector<double> tasks;  ///< time of each task, summed over its nodes
  double total = 0;
};
/// Calls the network with a variant of each task; 0 is the static choice.
using RunVariants = FunctionRef<VariantTimes(std::span<const int> variants)>;

struct VariantRaceLimits {
  double seconds = 0;  ///< seconds of the whole race, about a third for the second part
  int most_blocks = 200;
  int most_rounds = 64;  ///< of the whole network, tuned against static
  uint64_t seed = 0;
};

/// A race in two parts.
///
/// First a race for each task, all at the same time. In a block of calls every variant of every
/// task has one turn, and the order is drawn anew for each task and block. A block gives a sample
/// for each variant, and race_winner decides by them.
///
/// Then the whole network, the winners against the static choice, in turns whose order is drawn. If
/// that does not prove a gain, the winners that gained most race again without the others. If that
/// does not either, the static choice wins everywhere.
///
/// `counts` has the number of variants of each task, at least 1. `same_answers` tells whether the
/// network gives the same results with these variants as with the static choice. It is called
/// before the second part.
JointRace::Verdict race_variants(std::span<const int> counts, RunVariants run,
                                 FunctionRef<bool(std::span<const int>)> same_answers,
                                 const VariantRaceLimits& limits, const TuneClock& clock);

}  // namespace heddle::network
