// Stages that a block of a GPU runs on a row of its own, one after the other, with what they hand on in shared memory:
// networks that sort and merge, scans in blocks.
//
//   for row (blockIdx.x) {
//     for rounds, threads (threadIdx.x) { a[..] = f(x) }     wait for all threads
//     for rounds, threads { b[..] = g(a[..]) }               wait for all threads
//     for rounds, threads { last[row, ..] = h(b[..]) }
//   }
//
// Knobs: threads (of a block).
#include <algorithm>

#include "common/scan_loops.h"
#include "cuda/common.h"
#include "heddle/dag/attention.h"
#include "heddle/dag/computed_matrix.h"

namespace heddle::meta {
namespace {

// An element a thread costs less than two: barriers wait for all, and what a thread has to do has latencies.
constexpr int64_t kFewestThreads = 64, kUsualThreads = 512;
// Terms of a sum whose loads from shared memory are under way together.
constexpr int64_t kTermsAtOnce = 8;

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.is_cuda() && !g.attached && !g.fused.empty() && !find_attention(dag, g.anchor) &&
         !find_own_matrix(dag, g.anchor);
}

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g)
      : t_(t), dag_(t.dag()), g_(g), last_(t.stage(g.output_stage)), row_(last_.axis(0)) {}

  void write() {
    int64_t most = elements(g_.output_stage);
    for (const int s : g_.fused) most = std::max(most, elements(s));
    const int64_t usual = std::clamp(power_of_two_to(most), kFewestThreads, kUsualThreads);
    const int64_t allowed = most_block_threads(t_.target().gpu);
    threads_ =
        t_.knob("threads", powers_of_two(kWarp, allowed), std::min(usual, allowed), "of a row");
    std::vector<int> stages = g_.fused;
    std::sort(stages.begin(), stages.end());
    for (const int s : stages) {
      if (is_inlined(s)) t_.stage(s).compute_inline();
    }
    last_.bind(row_, LoopKind::BlockX);
    share(g_.output_stage);
    for (const int s : stages) {
      if (!is_inlined(s)) place(s);
    }
  }

 private:
  /// What threads may share of a row: its elements, the blocks of a scan, or the terms of its one value.
  int64_t elements(int s) const {
    const auto& axes = dag_.stage(s).axes();
    if (axes.size() == 1) return dag_.info(s).reduce_points;
    const std::optional<ScanInfo>& scan = dag_.info(s).scan;
    int64_t n = 1;
    for (size_t d = 1; d < axes.size(); ++d)
      n *= scan && scan->axis == static_cast<int>(d) ? ceil_div(axes[d].extent(), scan->block)
                                                     : axes[d].extent();
    return n;
  }

  /// Whether the readers of `s` compute what they need of it: it moves elements of one tensor, or one stage reads it
  /// element by element.
  bool is_inlined(int s) const {
    const StageInfo& info = dag_.info(s);
    if (dag_.stage(s).is_reduction() || dag_.stage(s).num_outputs() != 1) return false;
    const bool moves = info.flops_per_point == 0 && info.reads.size() == 1 &&
                       info.reads[0].pattern != AccessPattern::Opaque;
    return moves || (info.consumers.size() == 1 &&
                     std::all_of(dag_.info(info.consumers[0]).reads.begin(),
                                 dag_.info(info.consumers[0]).reads.end(), [&](const Access& a) {
                                   return a.producer != s ||
                                          a.pattern == AccessPattern::Elementwise;
                                 }));
  }

  void place(int s) {
    StageRef stage = t_.stage(s);
    if (dag_.stage(s).axes().size() == 1) {
      one_value(s);
    } else {
      share(s);
      stage.set_scope(Scope::Shared);
    }
    stage.compute_at(last_, row_);
  }

  /// Lets the threads of the block take the elements of a row of stage `s`.
  void share(int s) {
    StageRef stage = t_.stage(s);
    if (dag_.info(s).scan) {
      const ScanLoops l = scan_loops(t_, s);
      const std::vector<Loop> blocks =
          joined(std::vector<Loop>(l.rows.begin() + 1, l.rows.end()), l.columns);
      stage.reorder(joined(joined({l.rows[0]}, blocks), {l.place, l.reduce}));
      if (!blocks.empty()) over_threads(stage, blocks);
      return;
    }
    const std::vector<Loop> axes = stage.all_axes();
    const std::vector<Loop> points(axes.begin() + 1, axes.end());
    if (!dag_.stage(s).is_reduction()) return (void)over_threads(stage, points);
    StageRef sum = stage.cache_write();
    sum.compute_at(stage, over_threads(stage, points));
    sum.unroll(sum.split(sum.all_reduce_axes().back(), kTermsAtOnce)[1]);
  }

  Loop over_threads(StageRef stage, const std::vector<Loop>& points) {
    const Loop thread = stage.split(stage.fuse(points), threads_)[1];
    stage.bind(thread, LoopKind::ThreadX);
    return thread;
  }

  /// A value of a row is in registers of all threads. They reduce it together where they may.
  void one_value(int s) {
    const Operation& op = dag_.stage(s);
    if (!op.is_reduction() || !op.bodies()[0].as<Reduce>()->combiner->commutative) return;
    StageRef stage = t_.stage(s);
    StageRef parts = stage.rfactor(stage.all_reduce_axes(), threads_, true);
    parts.bind(parts.axis(0), LoopKind::ThreadX);
    parts.compute_at(last_, row_);
    stage.bind(stage.reduce_axis(0), LoopKind::ThreadX);
  }

  static int64_t power_of_two_to(int64_t n) {
    int64_t p = 1;
    while (p * 2 <= n) p *= 2;
    return p;
  }

  TemplateBuilder& t_;
  const ComputeDag& dag_;
  const StageGroup& g_;
  StageRef last_;
  const Loop row_;
  Param threads_;
};

void build(TemplateBuilder& t, const StageGroup& g) { Recipe(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"cuda_row_program", 8, matches, build});

}  // namespace
}  // namespace heddle::meta
