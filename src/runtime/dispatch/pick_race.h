// The race of the variants of a multi-kernel at a first call.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/multi_kernel.h"

namespace heddle {

/// A variant in the race.
struct Racer {
  std::string name;
  bool reads_outputs = false;
  /// Compiles the variant; may throw. The result runs it on arrays.
  std::function<std::function<void(std::span<const NDArray>)>()> make;
  /// The bytes that it keeps during the race, known after `make`.
  std::function<int64_t()> kept_bytes;
};

struct RaceResult {
  std::vector<VariantTimes> times;  ///< one for each racer
  int winner = -1;                  ///< -1: none works or there was no room to measure
  /// Whether every racer that works has enough samples, so that the result may be stored.
  bool complete = false;
  int64_t extra_bytes = 0;
  std::string note;
};

/// Times the racers in turn on copies of the arrays that they write. `outputs` tells which of
/// `arrays` they write. The results of the others are compared with those of the first racer that
/// works. Its results are left in the output arrays, unless a racer reads their contents.
RaceResult race_variants(std::span<const Racer> racers, std::span<const NDArray> arrays,
                         std::span<const KernelArg> args,
                         std::span<const AnswerTolerance> tolerances, const PickOptions& options);

}  // namespace heddle
