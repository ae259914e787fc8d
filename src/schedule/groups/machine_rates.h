// Rates of a machine as far as a target states them, by which ways of computing something are
// compared before anything is measured.
#pragma once

#include "heddle/target/target.h"

namespace heddle {

struct MachineRates {
  double flops = 0;          ///< operations a second on all cores, f32
  double narrow_flops = 0;   ///< the same for elements of two bytes
  double bytes = 0;          ///< a second: from a cache that cores share, or the memory of a GPU
  double start_seconds = 0;  ///< to start the threads of a loop nest, or a kernel

  double flops_of(int element_bytes) const { return element_bytes <= 2 ? narrow_flops : flops; }
};

/// The rates of a target. The clock of a CPU is assumed, because a target does not state it.
MachineRates rates_of(const Target& target);

}  // namespace heddle
