// Products of a warp group that begin a sum in place of adding to zeros.
#pragma once

#include "heddle/ir/stmt.h"

namespace heddle::gpu {

/// Whether `s` is one product of a warp group in loops, and nothing else.
bool is_single_product(const Stmt& s);

/// `s`, a single product, with the first product that adds to each accumulator as one that begins
/// its sum (tile::GroupMma). The accumulators need no zeros then. Serial and unrolled loops
/// of which the accumulators are independent have their first iteration before all others.
Stmt begun_products(const Stmt& s);

}  // namespace heddle::gpu
