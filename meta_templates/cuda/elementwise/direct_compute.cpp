// Direct compute on a GPU: element-wise and data-movement stages that are stored in memory.
//
//   element by element (flat_over_threads, here):
//     for block { for t (threadIdx.x) { for vectors { 16 bytes } } }
//   a transposed read, of a stage that a kernel of its own computes for its readers (here):
//     for block { for t (threadIdx.x): along the rows that are read { a run of its own row } }
//   another transposed read: transpose.cpp      reductions along its rows: row_group.cpp
//
// Knobs: threads, vectors (16-byte accesses per thread, all in flight at once).
#include "common/loops.h"
#include "cuda/direct.h"
#include "heddle/ir/simplify.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag&, const StageGroup& g, const Target& target) {
  return target.is_cuda() && !g.attached && g.anchor == g.output_stage &&
         g.anchor_class == StageClass::DirectCompute;
}

// Whether no condition in `op` changes within aligned vectors of `v` elements along its last axis.
bool same_in_vectors(const Operation& op, int64_t v) {
  const Axis& last = op.axes().back();
  const Var vector("vector"), lane("lane");
  Ranges ranges;
  for (const Axis& a : op.axes()) ranges.set(a.var(), {0, a.extent() - 1});
  ranges.set(vector, {0, last.extent() / v - 1});
  ranges.set(lane, {0, v - 1});
  bool same = true;
  for (const Expr& body : op.bodies()) {
    visit(body, [&](const Expr& e) {
      const Select* select = e.as<Select>();
      if (!select || !uses_var(select->condition, last.var())) return;
      const Expr at =
          substitute(select->condition, {{last.var(), vector.expr() * Expr(v) + lane.expr()}});
      same &= !uses_var(simplify(at, ranges), lane);
    });
  }
  return same;
}

// The number of elements, of at most `v`, that one access of `a` can take where the last axis of `op`
// is in an index that is not linear: aligned vectors that the index maps to such vectors.
int64_t vector_of_places(const Operation& op, const Access& a, size_t d, int64_t v) {
  const Axis& last = op.axes().back();
  const Var vector("vector"), lane("lane");
  for (; v > 1; v /= 2) {
    if (v % 2 != 0 || a.tensor.extent(-1) % v != 0) return 1;
    Ranges ranges;
    for (const Axis& x : op.axes()) ranges.set(x.var(), {0, x.extent() - 1});
    ranges.set(vector, {0, last.extent() / v - 1});
    ranges.set(lane, {0, v - 1});
    const auto at = [&](const Expr& place) {
      return substitute(a.indices[d], {{last.var(), place}});
    };
    const Expr first = vector.expr() * Expr(v);
    const Expr step = simplify(at(first + lane.expr()) - at(first), ranges);
    const bool along = d + 1 == a.indices.size();
    if (equal(step, along ? lane.expr() : Expr(int64_t{0})) &&
        (!along || equal(simplify(floormod(at(first), v), ranges), Expr(int64_t{0}))))
      return v;
  }
  return 1;
}

// Whether a read is of an element of its tensor where a select does not choose it, too: it is loaded ahead then.
bool is_always_inside(const Operation& op, const Access& a) {
  Ranges ranges;
  for (const Axis& x : op.axes()) ranges.set(x.var(), {0, x.extent() - 1});
  for (size_t d = 0; d < a.indices.size(); ++d) {
    const int64_t* extent = as_int(a.tensor.shape()[d]);
    const Interval at = range_of(a.indices[d], ranges);
    if (!extent || at.min < 0 || at.max >= *extent) return false;
  }
  return true;
}

// The number of elements that one access along the last axis of `s` can take; 1 where its reads do
// not run along that axis.
int64_t row_vector(const ComputeDag& dag, int s, int64_t lanes) {
  const Axis& last = dag.stage(s).axes().back();
  int64_t v = whole_vector(last.extent(), lanes);
  const auto& reads = dag.info(s).reads;
  const bool guarded = std::any_of(reads.begin(), reads.end(), [&](const Access& a) {
    return a.guarded && !is_always_inside(dag.stage(s), a);
  });
  while (guarded && v > 1 && !same_in_vectors(dag.stage(s), v)) v /= 2;
  for (const Access& a : reads) {
    size_t rank = a.affine.size();  // without dimensions of one element behind the last one
    while (rank > 1 && is_const(a.tensor.shape()[rank - 1], 1)) --rank;
    for (size_t d = 0; d < a.affine.size(); ++d) {
      if (!a.affine[d]) {
        if (uses_var(a.indices[d], last.var())) v = vector_of_places(dag.stage(s), a, d, v);
        continue;
      }
      const int64_t along = a.affine[d]->coefficient(last.var());
      if (along == 0) continue;
      if (along != 1 || d + 1 != rank) return 1;
      // With an offset, only vectors whose length divides it are aligned.
      v = whole_vector(a.affine[d]->constant, v);
      for (const Affine::Term& t : a.affine[d]->terms) {
        if (t.var.get() != last.var().get()) v = whole_vector(t.coefficient, v);
      }
      v = whole_vector(a.tensor.extent(static_cast<int>(d)), v);
    }
  }
  return v;
}

// The elements of a vector where an element takes so many operations that threads which are few
// compute longer than they read: so few that each multiprocessor has several warps.
int64_t spread_vector(const StageInfo& info, int64_t points, int64_t v, const Gpu& gpu) {
  constexpr int64_t kManyOperations = 16, kThreadsOfSm = 128;
  if (info.flops < kManyOperations * points) return v;
  while (v > 1 && v % 2 == 0 && points / v < kThreadsOfSm * gpu.sms) v /= 2;
  return v;
}

// Features of element-wise work.
struct FlatProblem {
  int64_t vectors = 1;  // number of vectors of all elements
  Gpu gpu;
  NamedFeatures features() const {
    return {{"vectors", static_cast<double>(vectors)},
            {"sms", static_cast<double>(gpu.sms)},
            {"block_threads", static_cast<double>(most_block_threads(gpu))}};
  }
};

// Chooses threads and vectors.
Choice flat_rule(const FlatProblem& p) {
  // Threads of a block; fewer where large blocks would leave multiprocessors without one.
  constexpr int64_t kThreads = 256, kFewThreads = 128;
  // Vectors of a thread, all in flight, as long as every multiprocessor still has this many blocks.
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

bool rows_over_threads(TemplateBuilder& t, int stage, const std::string& prefix) {
  // The least number of neighbours, and of elements that a thread stores: whole sectors of memory.
  constexpr int64_t kLeastThreads = 32, kLeastRun = 8, kSectorBytes = 32;
  constexpr int64_t kThreads = 128, kMostThreads = 512;
  const Operation& op = t.dag().stage(stage);
  const int along = transposed_axis(t.dag(), stage);
  if (along < 0 || op.axes()[static_cast<size_t>(along)].extent() < kLeastThreads ||
      op.axes().back().extent() % kLeastRun != 0)
    return false;
  StageRef s = t.stage(stage);
  const int64_t run = whole_vector(
      op.axes().back().extent(), std::max(kLeastRun, kSectorBytes / op.output(0).dtype().bytes()));
  std::vector<Loop> axes = s.all_axes();
  auto [runs, in_run] = s.split(axes.back(), run);
  auto [vectors, vector] = s.split(in_run, whole_vector(run, access_lanes(t.dag(), stage)));
  const Loop row = axes[static_cast<size_t>(along)];
  axes.back() = runs;
  axes.erase(axes.begin() + along);
  axes.push_back(row);
  s.reorder(joined(axes, {vectors, vector}));
  s.vectorize(vector);
  s.unroll(vectors);
  const int64_t most = std::min(kMostThreads, most_block_threads(t.target().gpu));
  const Param threads = t.knob(prefix + "threads", powers_of_two(64, most),
                               std::min(kThreads, most), "neighbours of what is read");
  auto [block, thread] = s.split(s.fuse(axes), threads);
  s.bind(block, LoopKind::BlockX);
  s.bind(thread, LoopKind::ThreadX);
  return true;
}

void flat_over_threads(TemplateBuilder& t, int stage, const std::string& prefix) {
  const ComputeDag& dag = t.dag();
  StageRef s = t.stage(stage);
  std::vector<Loop> axes = s.all_axes();
  if (axes.empty()) return;  // one value: one thread
  const int64_t points = spatial_points(dag.stage(stage));
  const int64_t lanes = access_lanes(dag, stage);
  const bool fused = all_elementwise(dag, stage);
  const int64_t longest = fused ? whole_vector(points, lanes) : row_vector(dag, stage, lanes);
  const int64_t v = spread_vector(dag.info(stage), points, longest, t.target().gpu);
  Loop vectors;
  if (fused) {
    auto [o, i] = s.split(s.fuse(axes), v);
    s.vectorize(i);
    vectors = o;
  } else {
    // Vectors stay within a row, so that broadcast operands are vectors too.
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

// Whether the rows are enough for all multiprocessors. Otherwise their reductions are cut into
// parts at the root.
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
