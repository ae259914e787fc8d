// Times kernels on a GPU, and checks their results.
#pragma once

#include <iosfwd>
#include <vector>

#include "heddle/support/json.h"
#include "heddle/target/target.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// Times the static choice of each problem, and that of its record where there is one, compares
/// their results with those of this CPU, and prints a table. Returns the results as JSON. `*right`
/// becomes false where a result is wrong; such a kernel has no time.
Json bench_on_gpu(const std::vector<Problem>& problems, const Target& target, double seconds,
                  std::ostream& out, bool* right);

}  // namespace heddle::cli
