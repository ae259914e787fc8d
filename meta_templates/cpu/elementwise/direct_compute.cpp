// Direct compute: element-wise and data-movement stages that are stored in memory.
//
//   all reads element-wise (axes fused into one):
//     parallel for grain { for chunk { vectors } }
//   otherwise, or with stages that are computed per row:
//     parallel for row blocks { [attached stages]  for rows { for chunk { vectors } } }
//   or, where rows are reduced and come from memory,
//     parallel for tasks { for rows, overlapped { [attached stages]  for chunk { vectors } } }
//   a transposed read: transposed_tiles.cpp
//
// Knobs: unroll (vectors per chunk), width (elements per vector), grain (chunks per task),
// block_rows (rows per block), rows_a_task (rows per task, each reduced while the one before is
// written), prefetch_rows (distance in rows), nontemporal (stores that bypass the caches).
// direct_rule.cpp chooses the numbers.
#include <tuple>

#include "common/accesses.h"
#include "cpu/elementwise/direct_rule.h"
#include "cpu/products/transposed_tiles.h"
#include "cpu/streamed_rows.h"
#include "cpu/vectors.h"

namespace heddle::meta::cpu {
namespace {

bool matches(const ComputeDag&, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && !g.attached && g.anchor == g.output_stage &&
         g.anchor_class == StageClass::DirectCompute;
}

// Whether all axes can be fused: each read is at the stage's own point, or repeats (a bias) with a
// period of whole vectors of `width`. Rows of other lengths would need gathers at their ends. Rows
// of a few elements are fused nevertheless, because they make poor loops.
bool one_run(const ComputeDag& dag, const StageGroup& g, int64_t width) {
  if (!g.tunable.empty() || !all_elementwise(dag, g.output_stage)) return false;
  const auto& axes = dag.stage(g.output_stage).axes();
  if (axes.size() < 2 || axes.back().extent() % width == 0 || axes.back().extent() < 4 * width)
    return true;
  return std::all_of(g.inlined.begin(), g.inlined.end(),
                     [&](int s) { return all_elementwise(dag, s); });
}

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const DirectProblem& p, const Choice& choice)
      : t_(t), g_(g), p_(p), choice_(choice), s_(t.stage(g.output_stage)) {}

  void write() {
    const Param nontemporal = t_.choice("nontemporal", choice_);
    t_.when(nontemporal, 1, [&] { s_.store_nontemporal(); });
    const std::vector<Loop> axes = s_.all_axes();
    if (axes.empty()) return;
    unroll_ = t_.knob("unroll", {1, 2, 4, 8}, choice_);
    width_ = ask_vector_width(t_, p_.lanes, p_.output_computes, choice_);
    if (one_run(t_.dag(), g_, p_.lanes * (p_.output_computes ? 2 : 1))) return as_one(axes);
    std::vector<Loop> rows(axes.begin(), axes.begin() + static_cast<ptrdiff_t>(p_.row_rank));
    const bool in_rows = !rows.empty();
    if (in_rows) by_rows(std::move(rows));
    const Loop chunks = vectors(axes.back());
    if (p_.parallel && !in_rows) s_.parallel(chunks);
  }

 private:
  // Splits the loop into chunks of unrolled vectors. Returns the loop over chunks.
  Loop vectors(Loop loop) {
    auto [all_vectors, lane] = s_.split(loop, width_);
    auto [chunk, vector] = s_.split(all_vectors, unroll_);
    s_.unroll(vector);
    s_.vectorize(lane);
    return chunk;
  }

  void as_one(const std::vector<Loop>& axes) {
    const Loop chunks = vectors(s_.fuse(axes));
    if (!p_.parallel) return;
    const Param grain = t_.knob("grain", {16, 64, 256}, choice_);
    s_.parallel(s_.split(chunks, grain)[0]);
  }

  void by_rows(std::vector<Loop> rows) {
    const Param block_rows = t_.knob("block_rows", {1, 2, 4}, choice_);
    t_.alias(block_rows, "row_block");
    rows.back() = s_.split(rows.back(), block_rows)[0];
    Loop task = s_.fuse(rows), row = task;
    if (p_.reduces_rows && !p_.rows_compute) {
      const Param rows_of_task = t_.knob("rows_a_task", {1, 16, 64}, choice_);
      t_.alias(rows_of_task, "overlap_rows");
      std::tie(task, row) = std::tuple_cat(s_.split(task, rows_of_task));
      s_.software_pipeline(row);
    }
    if (p_.parallel) s_.parallel(task);
    t_.offer_place(s_, row, "rows");
    // The data that the first pass over the next rows reads from memory is prefetched while the
    // last pass writes.
    const std::vector<Access> reads = rows_read(t_.dag(), g_.output_stage, g_.inlined);
    if (!g_.tunable.empty() && !reads.empty())
      prefetch_rows(t_, s_, reads, ask_rows_ahead(t_, choice_));
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const DirectProblem& p_;
  const Choice& choice_;
  StageRef s_;
  Param unroll_, width_;
};

void build(TemplateBuilder& t, const StageGroup& g) {
  const DirectProblem problem = direct_problem(t, g);
  const int transposed = g.tunable.empty() ? transposed_axis(t.dag(), g.output_stage) : -1;
  if (transposed >= 0) return tile_transposed(t, g, transposed, problem.parallel);
  const Choice choice = t.decide("direct", problem, direct_rule);
  Recipe(t, g, problem, choice).write();
}

HEDDLE_REGISTER_META_TEMPLATE({"direct_compute", 0, matches, build});

}  // namespace
}  // namespace heddle::meta::cpu
