// Direct compute on a GPU: element-wise and data-movement stages that are materialised.
//
//   element by element (flat_over_threads, here):
//     for block { for t (threadIdx.x) { for vectors { 16 bytes } } }
//   a transposed read: transpose.cpp      reductions along its rows: row_group.cpp
//
// Knobs: threads, vectors (16-byte accesses a thread, all under way at once).
#include "cuda/direct.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag&, const StageGroup& g, const Target& target) {
  return target.is_cuda() && !g.attached && g.anchor == g.output_stage &&
         g.anchor_class == StageClass::DirectCompute;
}

// Elements that can be taken at a time along the last axis of `s`; 1 where its reads do not run
// along it.
int64_t row_vector(const ComputeDag& dag, int s, int64_t lanes) {
  const Axis& last = dag.stage(s).axes().back();
  int64_t v = whole_vector(last.extent(), lanes);
  for (const Access& a : dag.info(s).reads) {
    if (a.pattern == AccessPattern::Opaque || a.guarded) return 1;
    for (size_t d = 0; d < a.affine.size(); ++d) {
      const int64_t along = a.affine[d]->coefficient(last.var());
      if (along == 0) continue;
      if (along != 1 || d + 1 != a.affine.size()) return 1;
      // An offset leaves only vectors that it is a multiple of.
      v = whole_vector(a.affine[d]->constant, v);
      v = whole_vector(a.tensor.extent(-1), v);
    }
  }
  return v;
}

// Element by element work.
struct FlatProblem {
  int64_t vectors = 1;  // of all elements
  Gpu gpu;
  NamedFeatures features() const {
    return {{"vectors", static_cast<double>(vectors)},
            {"sms", static_cast<double>(gpu.sms)},
            {"block_threads", static_cast<double>(most_block_threads(gpu))}};
  }
};

// Defaults of threads and vectors.
Choice flat_rule(const FlatProblem& p) {
  // Threads of a block, and of one where they would leave multiprocessors without a block.
  constexpr int64_t kThreads = 256, kFewThreads = 128;
  // Vectors of a thread, all under way, as long as every multiprocessor still has so many blocks to
  // choose from.
  constexpr int64_t kMostVectors = 4, kBlocksOfSm = 4;
  const int64_t sms = p.gpu.sms;
  const int64_t threads = p.vectors < kThreads * sms ? kFewThreads : kThreads;
  int64_t each = kMostVectors;
  while (each > 1 && p.vectors < each * kThreads * kBlocksOfSm * sms) each /= 2;
  return Choice()
      .set("threads", std::min(threads, most_block_threads(p.gpu)),
           "several blocks to a multiprocessor")
      .set("vectors", each, "vectors a thread loads before it stores");
}

}  // namespace

void flat_over_threads(TemplateBuilder& t, int stage, const std::string& prefix) {
  const ComputeDag& dag = t.dag();
  StageRef s = t.stage(stage);
  std::vector<Loop> axes = s.all_axes();
  if (axes.empty()) return;  // one value: one thread
  const int64_t points = spatial_points(dag.stage(stage));
  const int64_t lanes = access_lanes(dag, stage);
  const bool fused = all_elementwise(dag, stage);
  const int64_t v = fused ? whole_vector(points, lanes) : row_vector(dag, stage, lanes);
  Loop vectors;
  if (fused) {
    auto [o, i] = s.split(s.fuse(axes), v);
    s.vectorize(i);
    vectors = o;
  } else {
    // Vectors stay inside of a row, so that broadcast operands are vectors as well.
    auto [o, i] = s.split(axes.back(), v);
    s.vectorize(i);
    axes.back() = o;
    vectors = s.fuse(axes);
  }
  streaming_stores(t, s, prefix);
  const FlatProblem p{points / v, t.target().gpu};
  const Choice choice = with_prefix(t.decide("cuda_direct_compute", p, flat_rule), prefix);
  Param threads = t.knob(prefix + "threads", powers_of_two(64, most_block_threads(p.gpu)), choice);
  Param in_flight = t.knob(prefix + "vectors", {1, 2, 4, 8}, choice);
  auto [chunk, thread] = s.split(vectors, threads);
  auto [block, round] = s.split(chunk, in_flight);
  s.reorder({block, thread, round});
  s.bind(block, LoopKind::BlockX);
  s.bind(thread, LoopKind::ThreadX);
  s.unroll(round);
}

namespace {

// A few long rows leave multiprocessors idle: their reductions are then cut into parts, at the
// root.
bool rows_fill_machine(const TemplateBuilder& t, const StageGroup& g) {
  constexpr int64_t kLongRow = 32 << 10;  // elements
  const Operation& op = t.dag().stage(g.output_stage);
  const int64_t rows = leading_points(op, static_cast<size_t>(row_rank(t.dag(), g)));
  return 2 * rows >= t.target().gpu.sms || spatial_points(op) / rows < kLongRow;
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  const bool row_reductions = std::any_of(g.tunable.begin(), g.tunable.end(),
                                          [&](int x) { return dag.stage(x).is_reduction(); });
  if (row_reductions && row_rank(dag, g) > 0 && rows_fill_machine(t, g))
    return rows_with_reductions(t, g);
  if (g.tunable.empty() && transpose_by_tiles(t, g)) return;
  flat_over_threads(t, g.output_stage, "");
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_direct_compute", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
