// The rule for where a location-tunable stage is computed on a GPU. The recipe is in
// location_tunable.cpp.
#pragma once

#include <vector>

#include "cuda/common.h"

namespace heddle::meta {

/// The facts about such a stage that the rule uses.
struct LocationProblem {
  /// A loop of the host where the stage may be computed. Loops are listed outermost first.
  struct Place {
    int64_t location = 1;  ///< the knob's value
    bool in_registers =
        true;  ///< whether values that are computed there stay in registers by default
  };
  std::vector<Place> places;
  bool may_inline = true;
  /// The number of reads of an element by contractions, and by all other readers.
  double contraction_reads = 0, other_reads = 0;
  /// It has few elements, each of an operation or two: less than a kernel takes to start.
  bool tiny = false;
  /// Its readers are convolutions that fetch their tiles by computed addresses, and it only moves
  /// or pads elements.
  bool fetched_by_tiles = false;
  /// It only moves elements, whole vectors of them, for products that wait for their other operand, such as
  /// the matrix of one row.
  bool moves_vectors = false;
  /// It pads the dimension along which it lies in memory, so that convolutions load vectors of it
  /// that they could not load of what it reads.
  bool makes_vectors = false;

  NamedFeatures features() const;
};

/// The default of location: -1 inlines the stage into its readers, 0 is the root, n is the n-th
/// place.
Choice location_rule(const LocationProblem& p);

}  // namespace heddle::meta
