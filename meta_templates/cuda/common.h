// What the CUDA meta-templates share: facts of the machine, vectors, and the schedule of last
// resort (a thread for each element of the result).
#pragma once

#include "common/common.h"

namespace heddle::meta {

inline constexpr int64_t kWarp = 32;

/// Threads that a block of ours may have: the largest power of two that the GPU, or
/// AutoSchedulerOptions::block_threads, allows. 1024 on every GPU there is.
int64_t most_block_threads(const Gpu& gpu);

/// Elements of one 16-byte access of the widest type that stage `s` reads or writes.
int64_t access_lanes(const ComputeDag& dag, int s);

/// The longest vector, at most `lanes`, that cuts `extent` elements into whole vectors.
inline int64_t whole_vector(int64_t extent, int64_t lanes) {
  while (lanes > 1 && extent % lanes != 0) lanes /= 2;
  return std::max<int64_t>(1, lanes);
}

/// `choice` of knobs whose names have `prefix` before them: part_threads, where the rule says
/// threads.
Choice with_prefix(const Choice& choice, const std::string& prefix);

/// Where a row stays in registers, what reads it must be computed there: rejects the configs that
/// keep a row of one of the places of `g` resident and compute `g` at its root (`location` 0).
void require_resident(TemplateBuilder& t, const StageGroup& g, Param location);

/// Whether the stores of `s`, the result of a group, bypass the caches: a knob.
void streaming_stores(TemplateBuilder& t, StageRef s, const std::string& prefix = "");

/// Powers of two from `first` to `last`.
std::vector<int64_t> powers_of_two(int64_t first, int64_t last);

/// A thread for each element of `host`: its axes fused, over blocks and threads. `reduction` (the
/// host itself, a stage to be computed inside it, or -1) runs its loops in that thread. Returns the
/// thread's loop; invalid where the host has no axes.
Loop point_per_thread(TemplateBuilder& t, StageRef host, int reduction, const std::string& prefix);

/// Copies of its innermost statement that a body is unrolled to.
inline constexpr int64_t kShortBody = 64;

/// Unrolls loops of `extents` from the innermost outwards while the body stays short.
void unroll_short(StageRef s, const std::vector<Loop>& loops, const std::vector<int64_t>& extents,
                  int64_t most);

/// The second kernel of a reduction cut in parts: the anchor sums its parts in the thread that has
/// the result, then the epilogue of the output stage, side by side along the columns.
void sum_of_parts(TemplateBuilder& t, const StageGroup& g);
/// The same, of a `sum` that the output stage reads.
void sum_of_parts(TemplateBuilder& t, const StageGroup& g, StageRef sum);

}  // namespace heddle::meta
