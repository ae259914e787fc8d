// Products of a warp group: what they add to, and how they begin a sum in place of adding to zeros.
#pragma once

#include "heddle/ir/stmt.h"

namespace heddle::gpu {

/// Whether `s` is one product of a warp group in loops, and nothing else.
bool is_single_product(const Stmt& s);

/// The registers that the products in `use` add to.
Buffer registers_of(const Stmt& use);
/// Waits until at most `pending` groups of the products in `use` are incomplete.
Stmt wait_for_products(const Stmt& use, int pending);

/// `s`, a single product, with the first product that adds to each accumulator as one that begins
/// its sum (tile::GroupMma). The accumulators need no zeros then. Serial and unrolled loops
/// of which the accumulators are independent have their first iteration before all others.
Stmt begun_products(const Stmt& s);

}  // namespace heddle::gpu
