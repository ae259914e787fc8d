// Sums by wgmma that are shorter than those of f32, which f32 registers add up.
#pragma once

#include "heddle/ir/stmt.h"

namespace heddle::gpu {

/// The products of one tile of the depth, added up apart from the sums that they belong to.
struct PartialSums {
  Buffer registers;  ///< as many as those of the sums
  Stmt products;     ///< the products, of which the first begin the sums in them
  Stmt add;          ///< adds them to the sums
};

/// Whether wgmma adds up `products` with larger errors than they may have. For 8-bit floats it aligns
/// the terms of a step to the largest one and cuts what lies 13 bits below (DeepSeek-V3 Technical
/// Report, arXiv:2412.19437, section 3.5.2). All its sums are cut to f32, and not rounded, so that
/// errors of a long sum add up (Ootomo and Yokota 2022, "Recovering single precision accuracy from
/// Tensor Cores", arXiv:2203.03341). For 16-bit operands and for f32 that may be tf32 anyway
/// (`allow_tf32`) that is less than what their roundings do; factors that a declaration rounds to tf32
/// may be parts of f32.
bool sums_are_short(const Stmt& products, bool allow_tf32);

/// Partial sums for `products`, one product in loops.
PartialSums partial_sums(const Stmt& products);

}  // namespace heddle::gpu
