// Helpers that the CUDA meta-templates share: properties of the machine, vectors, and the fallback
// schedule (a thread for each element of the result).
#pragma once

#include "common/common.h"
#include "heddle/instruction/tiles.h"

namespace heddle::meta {

inline constexpr int64_t kWarp = 32;

/// The largest number of threads in a block: the largest power of two that the GPU, or
/// AutoSchedulerOptions::block_threads, allows. It is 1024 on all current GPUs.
int64_t most_block_threads(const Gpu& gpu);

/// The number of elements in one 16-byte access of the widest type that stage `s` reads or writes.
int64_t access_lanes(const ComputeDag& dag, int s);

/// The same for what it reads alone.
int64_t read_lanes(const ComputeDag& dag, int s);

/// The longest vector of at most `lanes` that divides `extent` elements into whole vectors.
inline int64_t whole_vector(int64_t extent, int64_t lanes) {
  while (lanes > 1 && extent % lanes != 0) lanes /= 2;
  return std::max<int64_t>(1, lanes);
}

/// `choice` with `prefix` before the names of knobs: part_threads where the rule says threads.
Choice with_prefix(const Choice& choice, const std::string& prefix);

/// Where a row stays in registers, its readers must be computed there. This rejects the configs
/// that keep a row of one of the places of `g` resident and compute `g` at its root (`location` 0).
void require_resident(TemplateBuilder& t, const StageGroup& g, Param location);

/// Asks for the knob that lets the stores of `s`, the result of a group, bypass the caches.
void streaming_stores(TemplateBuilder& t, StageRef s, const std::string& prefix = "");

/// Lays out stage `s` as an operand of a matrix unit: its other dimensions first, then `layout`.
void lay_out(StageRef s, const LayoutDigits& layout);

/// Powers of two from `first` to `last`.
std::vector<int64_t> powers_of_two(int64_t first, int64_t last);

/// Computes each element of `host` in a thread of its own: the axes are fused and bound to blocks
/// and threads. `reduction` (the host itself, a stage to be computed inside it, or -1) runs its
/// loops in that thread. Returns the loop over threads, which is invalid where the host has no
/// axes. `at_once`: of a reduction of parts, how many are under way.
Loop point_per_thread(TemplateBuilder& t, StageRef host, int reduction, const std::string& prefix,
                      int64_t at_once = 0);

/// The largest number of copies of its innermost statement to which a body is unrolled.
inline constexpr int64_t kShortBody = 64;

/// Unrolls loops of `extents` from the innermost outwards while the body stays short.
void unroll_short(StageRef s, const std::vector<Loop>& loops, const std::vector<int64_t>& extents,
                  int64_t most);

/// The second kernel of a reduction that is cut into parts. The thread of a result sums the
/// anchor's parts and computes the epilogue of the output stage. Neighbouring threads have
/// neighbouring columns.
void sum_of_parts(TemplateBuilder& t, const StageGroup& g);
/// The same for a `sum` that the output stage reads.
void sum_of_parts(TemplateBuilder& t, const StageGroup& g, StageRef sum);

}  // namespace heddle::meta
