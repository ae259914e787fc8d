// Rows that the threads of a block (or the lanes of a warp) share:
//
//   for t (threadIdx.x) {
//     for round { for lane in 0..vector { row[(round*threads + t)*vector + lane] } }
//   }
//
// All stages of a row that share it alike keep their elements in the registers of one thread.
#pragma once

#include <functional>

#include "cuda/reductions/rows_rule.h"

namespace heddle::meta {

/// Asks for the knob of the number of blocks that share a row (`prefix` + "cluster"), with its
/// requirements on `threads`. Returns 1 where there is no choice.
Param cluster_knob(TemplateBuilder& t, const RowSharing& sharing, Param threads,
                   const std::string& prefix, const Choice& choice);
/// Requirements of several rows in a block on the other knobs.
void require_rows_of_block(TemplateBuilder& t, const RowSharing& sharing, Param rows_per_block,
                           Param threads, Param cluster);
/// Binds loop `rows`, one row for each iteration, to blocks or to clusters of blocks.
void bind_rows(TemplateBuilder& t, StageRef s, Loop rows, const RowSharing& sharing, Param cluster);

/// Runs `fn` for each number of threads, under the condition that the knob has that value.
void for_each_option(TemplateBuilder& t, Param threads, const std::vector<int64_t>& options,
                     const std::function<void(int64_t)>& fn);

struct SharedLoops {
  Loop thread, round, lane;
};
/// Splits and binds loop `row` of stage `s` in this way. The new loops replace it.
SharedLoops share(StageRef s, Loop row, int64_t threads, int64_t vector);

/// The loops of reduce axes `ks` of `s`, by their positions.
std::vector<Loop> reduce_axes_of(StageRef s, const std::vector<int>& ks);
/// The position of reduce axis `k` in the stage of parts that rfactor makes over `ks`; that of what
/// is left of `ks` is the one of their first.
int place_in_parts(int k, const std::vector<int>& ks);

/// Reduces stage `s`, of one value at `loop` of `at`, over its reduce axes `ks`, taken as one, by
/// `threads` threads: partial results in registers, then shuffles. `unroll` is the number of rounds
/// at a time; 0 means all of them. The caller places `s`. With `several` there are values along the
/// last axis, which the threads reduce side by side, so that what they share is read once.
void reduce_row(TemplateBuilder& t, StageRef s, const std::vector<int>& ks, int64_t threads,
                int64_t vector, Param unroll, StageRef at, Loop loop, bool several = false);

}  // namespace heddle::meta
