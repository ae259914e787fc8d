// Weights of few bits, which are unpacked where they are read.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// How much wider elements are than what they are made of, and whether stages between are counted: those that are
/// read by one stage alone are inlined too.
struct Widening {
  double times = 3;
  bool through_stages = false;
  /// The most operations of an element for each of its bytes; 0: any number.
  double operations_a_byte = 0;
};
/// Bytes with their scales as bf16 too. A GPU reads 2 bytes in the time of about 12 instructions, of which the product
/// takes some.
constexpr Widening kWidensOnGpu{1.75, true, 6};

/// Whether stage `s` makes wide elements of constants of few bits: it takes `by.times` the bytes of what
/// it reads or more, and looks nothing up.
bool widens_bits(const ComputeDag& dag, int s, const Widening& by = {});

/// Whether `op` reads `from` at places that are data; undefined: whether it reads anything so.
bool looks_up(const Operation& op, const Buffer& from = {});

}  // namespace heddle::dag
