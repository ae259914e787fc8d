// Concat written in place: the stages whose results lie inside of those of others.
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

/// Which concats can be had for nothing: their parts are consecutive in memory, each is computed at
/// every call, no caller sees it, and no other place claims it.
///
///   a = conv(..); b = conv(..)
///   c = concat(a, b)              reads a and b, writes c       (before)
///
///   a writes the first part of c's memory, b the second         (after)
///
/// Of concats that share parts, as in a DenseNet, the longest is placed first; a shorter one lies
/// in it where its parts do.
InPlacePlan plan_concats(const ComputeDag& dag);

}  // namespace heddle::network
