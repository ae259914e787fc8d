// The peak rates of this machine, measured when first requested and kept for the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/support/json.h"
#include "heddle/target/target.h"
#include "peers/ceilings.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// A ceiling with which a result is compared; 0 where there is none for its type.
struct Ceiling {
  double per_second = 0;  ///< flops or bytes
  std::string text;       ///< "103.6 GFLOP/s (avx2+fma)"
};

class Machine {
 public:
  /// `target` limits the instructions that the ceilings may use.
  explicit Machine(const Target& target = Target::host());
  Ceiling fma(int threads, DataType dtype);
  /// The bandwidth for a working set of `bytes`: data that fit into a cache may move at the speed
  /// of the cache.
  Ceiling bandwidth(Bound bound, int threads, int64_t bytes);
  /// All measurements so far, and descriptions of the machine and the peers.
  Json to_json(const std::vector<int>& threads, const std::vector<std::string>& peers);

 private:
  struct Peak {
    int threads;
    peers::FmaPeak peak;
  };
  struct Speed {
    int threads;
    int64_t bytes;
    double read = 0, copy = 0;  // GB/s
  };
  const peers::FmaPeak& peak(int threads);
  Speed& speed(int threads, int64_t bytes);
  double measured(Speed& speed, Bound bound);
  peers::Simd simd_;
  std::vector<Peak> peaks_;
  std::vector<Speed> speeds_;
};

}  // namespace heddle::cli
