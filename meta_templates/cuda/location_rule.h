// Where a location-tunable stage is computed on a GPU: a rule apart from the recipe
// (location_tunable.cpp).
#pragma once

#include <vector>

#include "cuda/common.h"

namespace heddle::meta {

/// What the rule knows of such a stage.
struct LocationProblem {
  /// Loops of the host where it may be computed, outermost first.
  struct Place {
    int64_t location = 1;      ///< the knob's value
    bool in_registers = true;  ///< what is computed there stays in registers by default
  };
  std::vector<Place> places;
  bool may_inline = true;
  /// Reads of an element by contractions, and by everything else.
  double contraction_reads = 0, other_reads = 0;
  /// Its readers are convolutions that fetch their tiles by computed addresses, and it only moves
  /// elements, or pads.
  bool fetched_by_tiles = false;

  NamedFeatures features() const;
};

/// The default of location: -1 substituted into the readers, 0 at the root, n at the n-th place.
Choice location_rule(const LocationProblem& p);

}  // namespace heddle::meta
