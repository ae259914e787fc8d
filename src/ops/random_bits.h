// Random bits by position: those of SplitMix64 (Steele, Lea and Flood 2014).
#pragma once

#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::ops::impl {

/// 64 random bits: number `position` of the sequence of a seed, both of any integer type.
Expr random_bits(const Expr& position, const Expr& seed);

/// Of an element, in row-major order.
Expr flat_position(const std::vector<Axis>& i);

}  // namespace heddle::ops::impl
