// Partial results of a reduction in vectors.
//
//   for row {
//     for k, step = chunk { rf[..chunk..] += x[row, k + ..] }     vectors side by side, unrolled
//     one[..lanes..] = sum of the vectors of rf
//     s[row] = sum of the lanes of one
//   }
#pragma once

#include <utility>
#include <vector>

#include "common/loops.h"
#include "heddle/schedule/template.h"

namespace heddle::meta::cpu {

/// The parameters of partial results in vectors.
struct PartialVectors {
  std::vector<int> run;  ///< the reduce axes along which vectors go, outermost first
  int64_t lanes = 1;     ///< lanes of a native vector
  int64_t width = 1;     ///< elements at a time: whole native vectors, which divide `chunk`
  Param chunk;           ///< elements for each step: independent accumulators
  /// The spatial axis along which several rows are read at a time, or -1. Where all rows are
  /// summed, `streams` rows are read at a time along the reduce axis outside of `run`.
  int row_axis = -1;
  Param streams = 1;
};

/// The partial results of `s` as vectors (`rf` above); returns the stage and its loop over vectors.
inline std::pair<StageRef, Loop> chunks_of_partials(StageRef s, const PartialVectors& v) {
  std::vector<Loop> run;
  for (int k : v.run) run.push_back(s.reduce_axis(k));
  StageRef rf = s.rfactor(run, v.chunk, true);
  std::vector<Loop> reduce = rf.all_reduce_axes();
  auto [vector, element] = rf.split(rf.axis(0), v.width);
  std::vector<Loop> order = rf.all_axes();
  order.erase(order.begin());
  // The loop over rows that are read at a time goes inside the reduction. It is never the part of a
  // cut reduction, because the length of a part may depend on which part it is.
  Loop row;
  if (v.row_axis >= 0) {
    row = order[static_cast<size_t>(v.row_axis)];
    order.erase(order.begin() + v.row_axis);
  } else if (v.run.front() > 0) {
    Loop& all_rows = reduce[static_cast<size_t>(v.run.front()) - 1];
    auto [outer, inner] = rf.split(all_rows, v.streams);
    all_rows = outer;
    row = inner;
  }
  order = joined(order, reduce);
  if (row.valid()) order.push_back(row);
  rf.reorder(joined(order, {vector, element}));
  if (row.valid()) rf.unroll(row);
  rf.unroll(vector);
  rf.vectorize(element);
  return {rf, vector};
}

/// Sums those vectors to one of `lanes` lanes (`one` above).
inline StageRef lanes_of_partials(StageRef s, int64_t lanes) {
  StageRef one = s.rfactor(s.reduce_axis(0), Param(lanes), true);
  const Loop lane = one.axis(0), vectors = one.reduce_axis(0);
  std::vector<Loop> order = one.all_axes();
  order.erase(order.begin());
  one.reorder(joined(order, {vectors, lane}));
  one.unroll(vectors);
  one.vectorize(lane);
  return one;
}

/// Makes both stages at loop `at` of `host`. Returns the stage of the vectors and its loop over
/// them.
inline std::pair<StageRef, Loop> vector_partials(StageRef s, const PartialVectors& v, StageRef host,
                                                 Loop at) {
  const auto [rf, vectors] = chunks_of_partials(s, v);
  StageRef chunks = rf, one = lanes_of_partials(s, v.lanes);
  // Lanes are contiguous in memory too.
  for (StageRef x : {chunks, one}) {
    std::vector<StageRef::StorageDim> dims;
    for (int d = 1; d < x.num_axes(); ++d) dims.push_back({d});
    dims.push_back({0});
    x.layout(dims);
  }
  // So are their rows. Every accumulator then has a place of its own, which becomes a register.
  if (v.row_axis >= 0) {
    one.unroll(one.axis(1 + v.row_axis));
    if (host.id() != s.id()) s.unroll(s.axis(v.row_axis));
  }
  one.compute_at(host, at);
  chunks.compute_at(host, at);
  s.unroll(s.reduce_axis(0));
  return {rf, vectors};
}

}  // namespace heddle::meta::cpu
