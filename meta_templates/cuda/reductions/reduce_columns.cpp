// clang-format off
//   for strip (blockIdx.x) {
//     for rows (threadIdx.y), vectors of columns (threadIdx.x) {
//       own[lanes] = the sum of every threads_down-th row                  registers
//       part[row][columns] = own                                           shared memory
//     }
//     for vectors of columns (threadIdx.x) { host[columns] = the sum of part[..][columns] }
//   }
// clang-format on
#include "cuda/reductions/reductions.h"

namespace heddle::meta {
namespace {

struct ColumnKnobs {
  Param across, down, unroll;
};

ColumnKnobs ask(TemplateBuilder& t, const ColumnProblem& problem, const std::string& prefix) {
  const Choice choice =
      with_prefix(t.decide("cuda_reduce_columns", problem, reduce_columns_rule), prefix);
  ColumnKnobs k;
  k.across = t.knob(prefix + "threads_across", powers_of_two(4, 128), choice);
  k.down = t.knob(prefix + "threads_down", powers_of_two(1, 32), choice);
  k.unroll = t.knob(prefix + "unroll", {1, 2, 4, 8}, choice);
  t.require("a block has no more threads than it may, and their parts fit shared memory",
            [=](const TemplateBuilder::Value& v) { return problem.fits(v(k.across) * v(k.down)); });
  return k;
}

// Adds the rows of a thread in registers, `unroll` of them in flight.
void add_up_rows(StageRef own, int k, Param unroll) {
  std::vector<Loop> order = own.all_axes(), over = own.all_reduce_axes();
  const Loop lane = order.back();
  order.pop_back();
  const Loop rows = over[static_cast<size_t>(k)];
  over.erase(over.begin() + k);
  order.insert(order.end(), over.begin(), over.end());
  order.push_back(rows);
  order.push_back(lane);
  own.reorder(order);
  own.unroll(own.split(rows, unroll)[1]);
  own.vectorize(lane);
}

// Adds the parts of all threadIdx.y for one vector of columns.
void add_up_parts(StageRef sum) {
  std::vector<Loop> order = sum.all_axes();
  const Loop lane = order.back();
  order.back() = sum.reduce_axis(0);
  order.push_back(lane);
  sum.reorder(order);
  sum.unroll(sum.reduce_axis(0));
  sum.vectorize(lane);
}

}  // namespace

void reduce_columns(TemplateBuilder& t, StageRef host, StageRef reduction,
                    const std::vector<int>& ks, const ColumnProblem& problem,
                    const std::string& prefix) {
  const ColumnKnobs knobs = ask(t, problem, prefix);
  const int64_t vector = problem.vector();
  std::vector<Loop> axes = host.all_axes();
  StageRef sum = reduction.id() == host.id() ? host.cache_write() : reduction;
  auto [columns, lane] = host.split(axes.back(), vector);
  auto [strip, thread] = host.split(columns, knobs.across);
  axes.back() = strip;
  const Loop block = host.fuse(axes);
  host.bind(block, LoopKind::BlockX);
  host.bind(thread, LoopKind::ThreadX);
  host.vectorize(lane);

  // The part of each threadIdx.y is summed in registers and then stored to shared memory.
  StageRef part = sum.rfactor(reduce_axes_of(sum, ks), knobs.down, true);
  part.set_scope(Scope::Shared);
  StageRef own = part.cache_write();
  auto [part_column, part_lane] = part.split(part.axis(-1), vector);
  part.bind(part.axis(0), LoopKind::ThreadY);
  part.bind(part_column, LoopKind::ThreadX);
  part.vectorize(part_lane);
  part.compute_at(host, block);

  add_up_rows(own, place_in_parts(ks[0], ks), knobs.unroll);
  own.compute_at(part, part_column);
  add_up_parts(sum);
  sum.compute_at(host, thread);
}

}  // namespace heddle::meta
