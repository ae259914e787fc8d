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

/// What vectors of partial results are made of.
struct PartialVectors {
  std::vector<int> run;  ///< the reduce axes that vectors go along, outermost first
  int64_t lanes = 1;     ///< of a native vector
  int64_t width = 1;     ///< elements at a time: whole native vectors, which divide `chunk`
  Param chunk;           ///< elements a step: independent accumulators
  /// The spatial axis along which several rows are read at a time, or -1. Then, where the rows are
  /// all summed, `streams` of them are, along the reduce axis outside of `run`.
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
  // The rows that are read at a time go inside the reduction. (Never the part of a cut reduction:
  // how long a part is may depend on which it is.)
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

/// The sum of those vectors in one of `lanes` (`one` above).
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

/// Both, computed at loop `at` of `host`. Returns the stage of the vectors and its loop over them.
inline std::pair<StageRef, Loop> vector_partials(StageRef s, const PartialVectors& v, StageRef host,
                                                 Loop at) {
  const auto [rf, vectors] = chunks_of_partials(s, v);
  StageRef chunks = rf, one = lanes_of_partials(s, v.lanes);
  // Lanes lie side by side in memory too.
  for (StageRef x : {chunks, one}) {
    std::vector<StageRef::StorageDim> dims;
    for (int d = 1; d < x.num_axes(); ++d) dims.push_back({d});
    dims.push_back({0});
    x.layout(dims);
  }
  // Their rows as well: then every accumulator has a place of its own, a register.
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
