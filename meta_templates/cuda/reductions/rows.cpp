#include "cuda/reductions/rows.h"

#include <algorithm>

namespace heddle::meta {

Param cluster_knob(TemplateBuilder& t, const RowSharing& sharing, Param threads,
                   const std::string& prefix, const Choice& choice) {
  if (sharing.clusters.size() == 1) return 1;
  Param cluster = t.knob(prefix + "cluster", sharing.clusters, choice);
  t.require("each block of a cluster has whole warps, and no more threads than it may",
            [=, most = sharing.most](const TemplateBuilder::Value& v) {
              return v(threads) % (v(cluster) * kWarp) == 0 && v(threads) / v(cluster) <= most;
            });
  return cluster;
}

void require_rows_of_block(TemplateBuilder& t, const RowSharing& sharing, Param rows_per_block,
                           Param threads, Param cluster) {
  t.require(
      "several rows a block are at most a warp each, whole warps together, all within a "
      "block's threads",
      [=, most = sharing.most](const TemplateBuilder::Value& v) {
        const int64_t all = v(rows_per_block) * v(threads);
        return (v(rows_per_block) == 1 || (v(threads) <= kWarp && v(cluster) == 1)) &&
               all % kWarp == 0 && all <= most * v(cluster);
      });
}

void bind_rows(TemplateBuilder& t, StageRef s, Loop rows, const RowSharing& sharing,
               Param cluster) {
  if (cluster.is_const()) {
    s.bind(rows, LoopKind::BlockX);
    return;
  }
  for (int64_t n : sharing.clusters) {
    t.when(cluster, n, [&] {
      s.bind(rows, n == 1 ? LoopKind::BlockX : LoopKind::clusters(static_cast<int>(n)));
    });
  }
}

void for_each_option(TemplateBuilder& t, Param threads, const std::vector<int64_t>& options,
                     const std::function<void(int64_t)>& fn) {
  for (int64_t n : options) t.when(threads, n, [&] { fn(n); });
}

SharedLoops share(StageRef s, Loop row, int64_t threads, int64_t vector) {
  auto [vectors, lane] = s.split(row, vector);
  auto [round, thread] = s.split(vectors, threads);
  s.reorder({thread, round, lane});
  s.bind(thread, LoopKind::ThreadX);
  s.vectorize(lane);
  return {thread, round, lane};
}

std::vector<Loop> reduce_axes_of(StageRef s, const std::vector<int>& ks) {
  std::vector<Loop> loops;
  for (const int k : ks) loops.push_back(s.reduce_axis(k));
  return loops;
}

int place_in_parts(int k, const std::vector<int>& ks) {
  const auto gone = std::count_if(ks.begin() + 1, ks.end(), [&](int other) { return other < k; });
  return k - static_cast<int>(gone);
}

void reduce_row(TemplateBuilder& t, StageRef s, const std::vector<int>& ks, int64_t threads,
                int64_t vector, Param unroll, StageRef at, Loop loop, bool several) {
  (void)t;
  StageRef rf = s.rfactor(reduce_axes_of(s, ks), threads * vector, true);
  const int k = place_in_parts(ks[0], ks);
  std::vector<Loop> spatial = rf.all_axes(), reduce = rf.all_reduce_axes();
  auto [thread, lane] = rf.split(spatial[0], vector);
  std::vector<Loop> order(spatial.begin() + 1, spatial.end());
  if (several) order.pop_back();
  order.push_back(thread);
  for (size_t i = 0; i < reduce.size(); ++i) {
    if (static_cast<int>(i) != k) order.push_back(reduce[i]);
  }
  order.push_back(reduce[static_cast<size_t>(k)]);
  const size_t rounds_at = order.size() - 1;
  if (several) order.push_back(spatial.back());
  order.push_back(lane);
  rf.reorder(order);
  if (several) rf.unroll(spatial.back());
  if (unroll.is_const() && unroll.value == 0) {
    for (Loop r : reduce) rf.unroll(r);
  } else {
    // Short rows have few rounds, so the rounds of several rows overlap.
    Loop rounds = reduce[static_cast<size_t>(k)];
    const Loop before = order[rounds_at - 1];
    if (reduce.size() > 1) rounds = rf.fuse(before, rounds);
    rf.unroll(rf.split(rounds, unroll)[1]);
  }
  rf.bind(thread, LoopKind::ThreadX);
  rf.vectorize(lane);
  if (vector > 1) {
    StageRef lanes = s.rfactor(s.reduce_axis(0), vector, false);
    std::vector<Loop> own = lanes.all_axes();
    std::vector<Loop> in_order(own.begin() + 1, own.end());
    in_order.push_back(own[0]);
    in_order.push_back(lanes.reduce_axis(0));
    lanes.reorder(in_order);
    lanes.bind(own[0], LoopKind::ThreadX);
    lanes.unroll(lanes.reduce_axis(0));
    if (several) lanes.unroll(own.back());
    lanes.compute_at(at, loop);
  }
  rf.compute_at(at, loop);
  s.bind(s.reduce_axis(0), LoopKind::ThreadX);
  if (several) s.unroll(s.all_axes().back());
}

}  // namespace heddle::meta
