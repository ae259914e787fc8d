// Weights of few bits, which are unpacked where they are read.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// How much wider elements are than what they are made of, and whether stages between are counted: those that are
/// read by one stage alone are inlined too.
struct Widening {
  double times = 3;
  bool through_stages = false;
};
constexpr Widening kWidensOnGpu{1.75, true};  // bytes with their scales as bf16 too

/// Whether stage `s` makes wide elements of constants of few bits: it takes `by.times` the bytes of what
/// it reads or more, and looks nothing up.
bool widens_bits(const ComputeDag& dag, int s, const Widening& by = {});

/// Whether `op` reads `from` at places that are data; undefined: whether it reads anything so.
bool looks_up(const Operation& op, const Buffer& from = {});

}  // namespace heddle::dag
