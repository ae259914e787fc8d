#include "cuda/rows.h"

namespace heddle::meta {

namespace {

// Shorter rows are no work for several blocks.
constexpr int64_t kClusterElements = 1024;

LoopKind cluster_kind(int64_t blocks) {
  return blocks == 8 ? LoopKind::Cluster8 : blocks == 4 ? LoopKind::Cluster4 : LoopKind::Cluster2;
}

}  // namespace

Param cluster_knob(TemplateBuilder& t, const RowSharing& sharing, Param threads, int64_t chosen,
                   const std::string& prefix, const std::string& reason) {
  if (sharing.clusters.size() == 1) return 1;
  Param cluster = t.knob(prefix + "cluster", sharing.clusters, chosen, reason);
  t.require("each block of a cluster has whole warps, and no more threads than it may",
            [=, most = sharing.most](const TemplateBuilder::Value& v) {
              return v(threads) % (v(cluster) * kWarp) == 0 && v(threads) / v(cluster) <= most;
            });
  return cluster;
}

void bind_rows(TemplateBuilder& t, StageRef s, Loop rows, const RowSharing& sharing,
               Param cluster) {
  if (cluster.is_const()) {
    s.bind(rows, LoopKind::BlockX);
    return;
  }
  for (int64_t n : sharing.clusters) {
    t.when(cluster, n, [&] { s.bind(rows, n == 1 ? LoopKind::BlockX : cluster_kind(n)); });
  }
}

RowSharing share_rows(int64_t extent, int64_t lanes, int64_t rows, const Gpu& gpu, bool by_clusters,
                      bool heavy) {
  const int64_t sms = gpu.sms;
  RowSharing r;
  r.clusters = {1};
  r.extent = extent;
  r.most = most_block_threads(gpu);
  r.vector = whole_vector(extent, lanes);
  // A warp must find a vector for each of its lanes.
  while (r.vector > 1 && kWarp * r.vector > extent) r.vector /= 2;
  for (int64_t n = kWarp; n <= r.most && n * r.vector <= extent; n += kWarp) {
    const bool power = (n & (n - 1)) == 0;
    const bool whole = extent % (n * r.vector) == 0;
    if (power || whole) r.options.push_back(n);
  }
  if (r.options.empty()) return r;
  // Short rows: a warp each, and no barrier. Longer ones: four vectors a thread, all under way at
  // once; more where there are too few rows to fill the multiprocessors.
  const int64_t vectors = ceil_div(extent, r.vector);
  // (argmax on an H200, us: 4096 rows of 4096 19.6 by four vectors a thread, 18.0 by two; 16384 of
  // 1024 19.0 by a warp each, 17.1 by two vectors a thread.)
  const int64_t want = heavy ? 2 : rows < 2 * sms ? 1 : 4, most = heavy ? 512 : r.most;
  r.chosen = r.options.front();
  const bool warp_each = vectors <= (heavy ? want : 8) * kWarp && rows >= 8 * sms;
  for (int64_t n : r.options) {
    if (warp_each || n > most) break;
    r.chosen = n;
    if (r.rounds(n) <= want) break;
  }
  // Nothing to test at the end of the row, where that is near.
  if (!warp_each && extent % (r.chosen * r.vector) != 0) {
    int64_t best = 0;
    for (int64_t n : r.options) {
      if (extent % (n * r.vector) == 0 && 2 * n >= r.chosen && n <= 2 * r.chosen) best = n;
    }
    if (best > 0) r.chosen = best;
  }
  if (by_clusters && gpu.has_clusters() && extent >= kClusterElements) {
    r.clusters = {1, 2, 4, 8};
    for (int64_t n = 2 * r.most; n <= 8 * r.most; n *= 2) {
      if (n * r.vector <= extent) r.options.push_back(n);
    }
  }
  return r;
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

void reduce_row(TemplateBuilder& t, StageRef s, int k, int64_t threads, int64_t vector,
                Param unroll, StageRef at, Loop loop) {
  (void)t;
  StageRef rf = s.rfactor(s.reduce_axis(k), threads * vector, true);
  std::vector<Loop> spatial = rf.all_axes(), reduce = rf.all_reduce_axes();
  auto [thread, lane] = rf.split(spatial[0], vector);
  std::vector<Loop> order(spatial.begin() + 1, spatial.end());
  order.push_back(thread);
  for (size_t i = 0; i < reduce.size(); ++i) {
    if (static_cast<int>(i) != k) order.push_back(reduce[i]);
  }
  order.push_back(reduce[static_cast<size_t>(k)]);
  order.push_back(lane);
  rf.reorder(order);
  if (unroll.is_const() && unroll.value == 0) {
    for (Loop r : reduce) rf.unroll(r);
  } else {
    // Rounds of several rows go on: short rows have few.
    Loop rounds = reduce[static_cast<size_t>(k)];
    const Loop before = order[order.size() - 3];
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
    lanes.compute_at(at, loop);
  }
  rf.compute_at(at, loop);
  s.bind(s.reduce_axis(0), LoopKind::ThreadX);
}

}  // namespace heddle::meta
