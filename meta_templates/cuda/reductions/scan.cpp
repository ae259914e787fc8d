// Scans on a GPU (common/scan_loops.h): one thread for each row or column.
//
//   for blocks, threads { for i { total += x; S = total } }
//
// Knobs: threads (of a block).
#include "common/scan_loops.h"
#include "cuda/common.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.is_cuda() && is_scan(dag, g);
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ScanLoops l = scan_loops(t, g.anchor);
  StageRef s = t.stage(g.anchor);
  const std::vector<Loop> outer = joined(l.rows, l.columns);
  s.reorder(joined(outer, {l.place, l.reduce}));
  if (outer.empty()) return;  // a single row has one thread
  Param threads = t.knob("threads", powers_of_two(32, most_block_threads(t.target().gpu)), 64,
                         "small blocks spread over all multiprocessors");
  auto [block, thread] = s.split(s.fuse(outer), threads);
  s.bind(block, LoopKind::BlockX);
  s.bind(thread, LoopKind::ThreadX);
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_scan", 5, matches, build});

}  // namespace
}  // namespace heddle::meta
