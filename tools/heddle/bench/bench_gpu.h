// Times kernels on a GPU, and checks their results.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "heddle/support/json.h"
#include "heddle/target/target.h"
#include "subjects/subjects.h"

namespace heddle::cli {

struct GpuBenchOptions {
  Target target;
  std::vector<std::string> peers;  ///< of gpu_peer_names()
  double seconds = 0.5;            ///< of timing for each
};

/// Times the static choice of each problem, that of its record where there is one, and the peers,
/// compares their results with those of this CPU, and prints a table. Returns the results as JSON.
/// `*right` becomes false where a result of Heddle is wrong; what is wrong has no time.
Json bench_on_gpu(const std::vector<Problem>& problems, const GpuBenchOptions& options,
                  std::ostream& out, bool* right);

}  // namespace heddle::cli
