// Times what is built once for ranges of sizes beside what is built for each size alone.
#pragma once

#include <iosfwd>

#include "commands.h"
#include "heddle/support/json.h"

namespace heddle::cli {

/// Whether the subjects are over ranges of sizes: kernels or models. A User error for a list that
/// has other subjects, too.
bool are_ranges(const Request& options);

/// Times each at the sizes that the options name, else at sizes drawn from the ranges, and prints a
/// table. Returns the results as JSON. `*right` becomes false where the two compute different
/// results.
Json bench_ranges(const Request& options, std::ostream& out, bool* right);

}  // namespace heddle::cli
