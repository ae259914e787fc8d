// Sums of 8-bit floats by wgmma: short ones, which f32 registers add up.
#pragma once

#include "heddle/ir/stmt.h"

namespace heddle::gpu {

/// The products of one tile of the depth, added up apart from the sums that they belong to.
struct PartialSums {
  Buffer registers;  ///< as many as those of the sums
  Stmt products;     ///< the products, of which the first begin the sums in them
  Stmt add;          ///< adds them to the sums
};

/// Whether wgmma adds up `products` with fewer bits than f32 has: those of 8-bit floats. It aligns
/// the terms of a step to the largest one and cuts what lies 13 bits below (DeepSeek-V3 Technical
/// Report, arXiv:2412.19437, section 3.5.2).
bool sums_are_short(const Stmt& products);

/// Partial sums for `products`, one product in loops.
PartialSums partial_sums(const Stmt& products);

}  // namespace heddle::gpu
