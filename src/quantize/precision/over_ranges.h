// The choice of types for a network over ranges of sizes.
#pragma once

#include <vector>

#include "heddle/quantize/precision.h"

namespace heddle::quantize {

/// As choose_precision, at the sizes of PrecisionOptions::calls or at the usual ones. The types are
/// then verified at the least sizes and at larger ones, on random inputs.
PrecisionChoice choose_over_ranges(const Network& network, const std::vector<Tensor>& args,
                                   const PrecisionOptions& options);

}  // namespace heddle::quantize
