// The sizes at which something with ranges of sizes is run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/dsl/dim.h"
#include "heddle/family/choose.h"

namespace heddle::cli {

/// The runs that `texts` name, such as "17", or "8x32" for two dimensions. Without any they are the
/// smallest sizes, those in the middle, and the largest. Throws a User error for another form and
/// for sizes outside of the ranges.
std::vector<std::vector<int64_t>> run_sizes(const std::vector<std::string>& texts,
                                            const std::vector<Dim>& dims);

/// At most `count` different sizes drawn from the ranges, whose logarithms are evenly spread, in
/// order.
std::vector<std::vector<int64_t>> drawn_sizes(const std::vector<Dim>& dims, int count,
                                              uint64_t seed);

/// The sizes that are expected, such as "17", "17*5" (five times as often), or "8x32*5" for two
/// dimensions. Throws a User error for another form and for sizes outside of the ranges.
std::vector<FamilyPoint> histogram_of(const std::vector<std::string>& texts,
                                      const std::vector<Dim>& dims);

}  // namespace heddle::cli
