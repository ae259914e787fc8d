// Rows that the threads of a block (or the lanes of a warp) share:
//
//   for t (threadIdx.x) {
//     for round { for lane in 0..vector { row[(round*threads + t)*vector + lane] } }
//   }
//
// All stages of a row that share it alike keep their elements in the registers of one thread.
#pragma once

#include <functional>

#include "cuda/common.h"

namespace heddle::meta {

/// How threads share rows of `extent` elements.
struct RowSharing {
  int64_t extent = 0;
  int64_t vector = 1;  ///< elements a thread takes at a time
  /// Threads a row: whole warps; empty: a row a thread. More than a block has: those of a cluster.
  std::vector<int64_t> options;
  int64_t chosen = 0;             ///< at most a block's
  std::vector<int64_t> clusters;  ///< blocks a row

  int64_t most = 1024;  ///< threads of a block
  int64_t rounds(int64_t threads) const { return ceil_div(extent, threads * vector); }
};

/// For rows of `extent` elements, of which vectors of up to `lanes` can be read. `rows`: how many.
/// `by_clusters`: several blocks may share one, where it is long and the GPU has clusters. `heavy`:
/// an element is more than an operation or two (it has an index beside it): more, smaller blocks.
RowSharing share_rows(int64_t extent, int64_t lanes, int64_t rows, const Gpu& gpu, bool by_clusters,
                      bool heavy = false);

/// The knob that says how many blocks have a row together, and what it asks of `threads`; 1 where
/// there is no choice.
Param cluster_knob(TemplateBuilder& t, const RowSharing& sharing, Param threads, int64_t chosen,
                   const std::string& prefix, const std::string& reason);
/// Binds `rows`, of a row each, to blocks or to clusters of them.
void bind_rows(TemplateBuilder& t, StageRef s, Loop rows, const RowSharing& sharing, Param cluster);

/// Runs `fn` for each number of threads, under the knob's value.
void for_each_option(TemplateBuilder& t, Param threads, const std::vector<int64_t>& options,
                     const std::function<void(int64_t)>& fn);

struct SharedLoops {
  Loop thread, round, lane;
};
/// Splits and binds `row` of stage `s` in this way; the loops stand where it stood.
SharedLoops share(StageRef s, Loop row, int64_t threads, int64_t vector);

/// Reduces stage `s`, of one value at `loop` of `at`, over its reduce axis `k` by `threads`
/// threads: partial results in registers, then shuffles. `unroll`: rounds at a time; 0: all of
/// them. `s` is placed by the caller.
void reduce_row(TemplateBuilder& t, StageRef s, int k, int64_t threads, int64_t vector,
                Param unroll, StageRef at, Loop loop);

}  // namespace heddle::meta
