// One subject at one number of threads: it is built, compared with the other implementations, and
// timed beside them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/target/target.h"
#include "subjects/subjects.h"

namespace heddle::cli {

struct CaseOptions {
  int threads = 1;
  std::vector<std::string> peers;
  bool naive = true;
  double naive_limit_s = 10;  ///< a naive schedule that would take longer is not run
  double seconds = 0.5;       ///< of timing, for each implementation
  Target target = Target::host();
};

struct Timing {
  std::string name;  ///< "naive", "static", "rules", "tuned", "openblas", ...
  double ms = 0;     ///< median
  std::string note;
};

struct CaseResult {
  std::string subject;
  DataType dtype;
  int threads = 1;
  Bound bound = Bound::Compute;
  double flops = 0;
  int64_t bytes = 0;
  std::vector<Timing> timings;
  /// The rate at which memory served a loop that only reads or copies as many bytes, timed in the
  /// same rounds (median); 0 where arithmetic is the bound. The text names the method.
  double memory_bytes_per_second = 0;
  std::string memory_text;
  std::vector<std::string> verified;  ///< whose results static equals, as far as rounding goes
  std::vector<std::string> tuned_verified;  ///< the same of tuned
  std::vector<std::string> mismatches;      ///< a sentence each; what is wrong has no time
  std::vector<std::string> failures;        ///< what did not compile or run
  std::vector<std::string> remarks;         ///< what was left out, and why
};

/// Calls `say` with the current activity.
CaseResult run_case(const Problem& problem, const std::vector<NDArray>& inputs,
                    const CaseOptions& options, const std::function<void(const std::string&)>& say);

}  // namespace heddle::cli
