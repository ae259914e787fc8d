// Rates of a machine as far as a target states them, by which ways of computing something are
// compared before anything is measured.
#pragma once

#include <algorithm>
#include <vector>

#include "heddle/support/dtype.h"
#include "heddle/target/target.h"

namespace heddle {

struct MachineRates {
  /// A cache of all cores together, or the memory behind the caches, which holds everything.
  struct Level {
    double held = 0;   ///< bytes
    double bytes = 0;  ///< a second
  };

  double flops = 0;           ///< operations a second on all cores, f32
  double narrow_flops = 0;    ///< the same for elements of two bytes
  double single_flops = 0;    ///< the same where no vector holds several elements
  std::vector<Level> levels;  ///< the fastest first; the last is the memory
  double start_seconds = 0;   ///< to start the threads of a loop nest, or a kernel
  double call_seconds = 0;    ///< to call a loop nest on one thread, where there is a choice
  double cores = 1;           ///< among which the threads of a loop nest are

  double flops_of(int element_bytes) const { return element_bytes <= 2 ? narrow_flops : flops; }
  /// Bytes a second of the memory.
  double memory() const { return levels.back().bytes; }
  /// Seconds to read or write `bytes` once where `touched` bytes are read and written between two
  /// uses of each of them.
  double seconds_of(double bytes, double touched) const;
  /// Seconds of a loop nest that takes `seconds` on all cores once it has started: on all, or on one.
  double nest_seconds(double seconds) const {
    return std::min(start_seconds + seconds, call_seconds + cores * seconds);
  }
};

/// The rates of a target. The clock of a CPU and the bandwidths of caches are assumed, because a
/// target does not state them.
MachineRates rates_of(const Target& target);

/// Whether an instruction of the target multiplies elements of type `a` by those of type `b`; those of
/// f32 where it rounds them to tf32.
bool multiplies(const Target& target, DataType a, DataType b);

/// Operations a second of a product whose elements have these types; `tf32`: those of f32, rounded to
/// tf32. Elements without an instruction are widened to f32. Those for bytes take twice as many as
/// those for two bytes, and those for tf32 half as many.
double product_flops(const MachineRates& rates, const Target& target, DataType a, DataType b,
                     bool tf32);

}  // namespace heddle
