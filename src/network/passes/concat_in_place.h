// Concats that are written in place: stages whose results are inside of the memory of others.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/network/network.h"

namespace heddle::network {

/// The plan for a graph.
struct InPlacePlan {
  std::vector<TensorPlace> places;
  std::vector<int> wholes;  ///< concats that nothing needs to compute, in ascending order
  std::vector<int> parts;   ///< stages that are computed for themselves, in place
};

/// Finds the concats that need no copy: their parts are consecutive in memory, each is computed at
/// every call, no caller sees it, and no other concat places it.
///
///   a = conv(..); b = conv(..)
///   c = concat(a, b)              reads a and b, writes c       (before)
///
///   a writes the first part of c's memory, b the second         (after)
///
/// Of concats that share parts, as in a DenseNet, the longest is placed first. A shorter one is
/// inside of it where its parts are.
InPlacePlan plan_concats(const ComputeDag& dag);

}  // namespace heddle::network
