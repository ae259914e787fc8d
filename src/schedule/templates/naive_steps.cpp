#include "schedule/templates/naive_steps.h"

#include <vector>

namespace heddle {
namespace {

// All axes except the innermost one run in parallel, so that rows stay contiguous. A vector is
// split over threads.
void write_for_cpu(StageRef stage) {
  std::vector<Loop> outer = stage.all_axes();
  if (outer.size() > 1) outer.pop_back();
  stage.parallel(stage.fuse(outer));
}

void write_for_gpu(StageRef stage, bool is_reduction) {
  constexpr int64_t kThreads = 128;
  const std::vector<Loop> axes = stage.all_axes();
  StageRef sum = is_reduction ? stage.cache_write() : stage;
  auto [block, thread] = stage.split(stage.fuse(axes), kThreads);
  stage.bind(block, LoopKind::BlockX);
  stage.bind(thread, LoopKind::ThreadX);
  if (is_reduction) sum.compute_at(stage, thread);
}

}  // namespace

void write_naive_steps(StepRecorder& to, const ComputeDag& dag, const Target& target) {
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    if (op.is_placeholder() || op.axes().empty()) continue;
    if (target.is_cuda()) {
      write_for_gpu(to.stage(s), op.is_reduction());
    } else {
      write_for_cpu(to.stage(s));
    }
  }
}

}  // namespace heddle
