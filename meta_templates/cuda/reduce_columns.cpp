#include "cuda/reductions.h"

namespace heddle::meta {

void reduce_columns(TemplateBuilder& t, StageRef host, StageRef reduction, int k, int64_t extent,
                    int64_t length, int64_t lanes, int64_t bytes, int64_t most_down,
                    const std::string& prefix) {
  const int64_t vector = whole_vector(extent, lanes), vectors = extent / vector;
  const int64_t smem = t.target().gpu.smem_per_block;
  const int64_t most = most_block_threads(t.target().gpu);
  const int64_t side = std::min<int64_t>(32, std::max<int64_t>(4, vectors));
  auto fits = [=](int64_t threads) { return threads <= most && threads * vector * bytes <= smem; };
  Param across = t.knob(prefix + "threads_across", powers_of_two(4, 128), side,
                        "a warp reads 512 bytes of a row at a time");
  // Four rows a thread are under way at once; where that is all, it takes one round trip.
  int64_t side_by_side = 1;
  while (8 * side_by_side <= length && side_by_side < most_down && fits(2 * side * side_by_side))
    side_by_side *= 2;
  Param down = t.knob(prefix + "threads_down", powers_of_two(1, 32), side_by_side,
                      "rows side by side, a few each");
  Param unroll = t.knob(prefix + "unroll", {1, 2, 4, 8}, 4, "rows a thread has under way");
  t.require("a block has no more threads than it may, and their parts fit shared memory",
            [=](const TemplateBuilder::Value& v) { return fits(v(across) * v(down)); });

  std::vector<Loop> axes = host.all_axes();
  StageRef sum = reduction.id() == host.id() ? host.cache_write() : reduction;
  auto [columns, lane] = host.split(axes.back(), vector);
  auto [strip, thread] = host.split(columns, across);
  axes.back() = strip;
  const Loop block = host.fuse(axes);
  host.bind(block, LoopKind::BlockX);
  host.bind(thread, LoopKind::ThreadX);
  host.vectorize(lane);

  // The part of each threadIdx.y: added up in registers, then left in shared memory for all.
  StageRef part = sum.rfactor(sum.reduce_axis(k), down, true);
  part.set_scope(Scope::Shared);
  StageRef own = part.cache_write();
  auto [part_column, part_lane] = part.split(part.axis(-1), vector);
  part.bind(part.axis(0), LoopKind::ThreadY);
  part.bind(part_column, LoopKind::ThreadX);
  part.vectorize(part_lane);
  part.compute_at(host, block);

  std::vector<Loop> order = own.all_axes(), over = own.all_reduce_axes();
  const Loop own_lane = order.back();
  order.pop_back();
  const Loop rows = over[static_cast<size_t>(k)];
  over.erase(over.begin() + k);
  order.insert(order.end(), over.begin(), over.end());
  order.push_back(rows);
  order.push_back(own_lane);
  own.reorder(order);
  own.unroll(own.split(rows, unroll)[1]);
  own.vectorize(own_lane);
  own.compute_at(part, part_column);

  std::vector<Loop> of_sum = sum.all_axes();
  const Loop sum_lane = of_sum.back();
  of_sum.back() = sum.reduce_axis(0);
  of_sum.push_back(sum_lane);
  sum.reorder(of_sum);
  sum.unroll(sum.reduce_axis(0));
  sum.vectorize(sum_lane);
  sum.compute_at(host, thread);
}

}  // namespace heddle::meta
