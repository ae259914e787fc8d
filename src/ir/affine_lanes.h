// Indices of vectors whose lanes are a constant distance apart.
#pragma once

#include <optional>

#include "heddle/ir/expr.h"

namespace heddle {

/// index == base + stride * lane, in every lane.
struct AffineLanes {
  Expr base, stride;
};
std::optional<AffineLanes> as_affine_lanes(const Expr& index);

}  // namespace heddle
