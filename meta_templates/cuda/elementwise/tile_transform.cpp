// Stages by cases on a GPU: transforms of small tiles, such as Winograd's.
//
//   for blocks, for threads: tiles and channels, of which neighbours are in neighbouring threads {
//     [attached: the transform along the other dimension, in registers]
//     the tile, unrolled: every case is decided here
//   }
//
// Knobs: threads.
#include "common/tile_cases.h"
#include "cuda/direct.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.is_cuda() && is_by_cases(dag, g);
}

// Elements of a thread: those of 32 bits. More would take more registers than tiles leave.
int64_t lanes_of(const ComputeDag& dag, int s) {
  constexpr int64_t kBytes = 4;
  const Operation& op = dag.stage(s);
  const int64_t bytes = op.output(0).dtype().bytes();
  return op.axes().empty()
             ? 1
             : whole_vector(op.axes().back().extent(), std::max<int64_t>(1, kBytes / bytes));
}

void build(TemplateBuilder& t, const StageGroup& g) {
  constexpr int64_t kThreads = 128;
  // An attached stage is computed for the lanes of its reader.
  const int reader = g.attached ? g.places.back().stage : g.output_stage;
  TileCases cases(t, g, lanes_of(t.dag(), reader));
  if (g.attached) return cases.attach();
  StageRef s = cases.stage();
  const TransformLoops l = cases.cut();
  cases.write_tile(l, l.outer());
  const Param threads = t.knob(
      "threads", powers_of_two(32, std::min<int64_t>(512, most_block_threads(t.target().gpu))),
      std::min(kThreads, most_block_threads(t.target().gpu)), "tiles and channels of a block");
  auto [block, thread] = s.split(s.fuse(l.outer()), threads);
  s.bind(block, LoopKind::BlockX);
  s.bind(thread, LoopKind::ThreadX);
  t.offer_place(s, thread, "tile");
  t.note("a thread computes a tile, unrolled");
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_tile_transform", 1, matches, build});

}  // namespace
}  // namespace heddle::meta
