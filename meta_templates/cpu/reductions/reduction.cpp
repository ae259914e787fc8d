#include "cpu/reductions/reduction.h"

#include <algorithm>

#include "common/accesses.h"
#include "cpu/cpu_features.h"
#include "cpu/products/packs_once.h"
#include "cpu/reductions/reduction_rule.h"
#include "cpu/streamed_rows.h"
#include "cpu/vectors.h"

namespace heddle::meta::cpu {
namespace {

int64_t length_of(const Operation& op, const std::vector<int>& run) {
  int64_t n = 1;
  for (int k : run) n *= op.reduce_axes()[static_cast<size_t>(k)].extent();
  return n;
}

bool is_commutative(const Operation& op) {
  return op.bodies()[0].as<Reduce>()->combiner->commutative;
}

// The longest reduce axis. If it is contiguous, cutting it would keep the lanes inside each part,
// so another axis is cut if there is one.
int axis_to_cut(const Operation& op, const ReductionAxes& axes, int cores) {
  const std::vector<Axis>& reduce = op.reduce_axes();
  size_t cut = 0;
  for (size_t i = 0; i < reduce.size(); ++i) {
    if (reduce[i].extent() > reduce[cut].extent()) cut = i;
  }
  for (size_t i = 0; i < reduce.size(); ++i) {
    if (axes.along_row && static_cast<int>(i) != axes.run.back() &&
        reduce[i].extent() >= kLeastStepsACore * cores)
      cut = i;
  }
  return static_cast<int>(cut);
}

// Whether the terms of reduction `s` are those of a stage that calls transcendental functions.
bool reads_transcendentals(const ComputeDag& dag, int s) {
  const StageInfo& info = dag.info(s);
  return std::any_of(info.producers.begin(), info.producers.end(), [&](int p) {
    return !dag.stage(p).is_reduction() && has_transcendentals(dag, p) &&
           dag.info(p).points >= info.points * info.reduce_points;
  });
}

}  // namespace

ReductionAxes reduction_axes(const TemplateBuilder& t, const StageGroup& g) {
  const Operation& op = t.dag().stage(g.anchor);
  ReductionAxes axes;
  axes.run = axes.part_run = contiguous_reduce_axes(t.dag(), g.anchor);
  // Of a run that can be vectorized. Partial sums of several runs are added up across lanes once.
  const int64_t least_vectors = op.reduce_axes().size() > axes.run.size() ? 1 : 2;
  axes.along_row = !axes.run.empty() && is_commutative(op) &&
                   length_of(op, axes.run) >= least_vectors * native_lanes(t, g.anchor);
  axes.cut = axis_to_cut(op, axes, t.target().cores);
  if (axes.run.size() > 1) {
    const auto it = std::find(axes.part_run.begin(), axes.part_run.end(), axes.cut);
    if (it != axes.part_run.end())
      axes.part_run.erase(axes.part_run.begin(), std::min(it + 1, axes.part_run.end() - 1));
  }
  // The last axis with more than one row.
  axes.row_axis = static_cast<int>(op.axes().size()) - 1;
  while (axes.row_axis > 0 && op.axes()[static_cast<size_t>(axes.row_axis)].extent() == 1)
    --axes.row_axis;
  return axes;
}

// Bytes of what stage `s` reads, of stages that are inlined into it what they read.
static int64_t bytes_read(const ComputeDag& dag, int s, const StageGroup& g) {
  int64_t bytes = 0;
  const std::vector<Access>& reads = dag.info(s).reads;
  for (size_t i = 0; i < reads.size(); ++i) {
    const Access& a = reads[i];
    // Terms that read other places of one stage read it once.
    if (std::any_of(reads.begin(), reads.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const Access& b) { return b.producer == a.producer; }))
      continue;
    const bool computed = std::ranges::count(g.inlined, a.producer) > 0 ||
                          std::ranges::count(g.operands, a.producer) > 0;
    bytes += computed ? bytes_read(dag, a.producer, g) : a.tensor.size() * a.tensor.dtype().bytes();
  }
  return bytes;
}

ReductionProblem reduction_problem(const TemplateBuilder& t, const StageGroup& g,
                                   const ReductionAxes& axes) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(g.anchor);
  ReductionProblem p;
  p.target = t.target();
  p.constants = t.constants().cpu;
  p.parallel = worth_parallel_rows(t, stage_work(dag, g.anchor)) && !g.attached;
  p.attached = g.attached;
  p.along_row = axes.along_row;
  p.scalar = op.axes().empty();
  p.has_epilogue = g.output_stage != g.anchor;
  p.lanes = native_lanes(t, g.anchor);
  p.element_bytes = op.output(0).dtype().bytes();
  p.outputs = op.num_outputs();
  p.results = spatial_points(op);
  if (!p.scalar) {
    p.columns = op.axes().back().extent();
    p.rows = op.axes()[static_cast<size_t>(axes.row_axis)].extent();
    p.one_row = p.results == p.columns;
  }
  p.can_split = is_commutative(op) && !g.attached &&
                (!p.has_epilogue || p.scalar || (!p.along_row && p.one_row));
  p.row_length = length_of(op, axes.run);
  p.adds_blocks = sums_blocks_of_bytes(dag, g.anchor);
  p.row_bytes = bytes_read(dag, g.anchor, g) / std::max<int64_t>(1, p.rows);
  p.part_row_length = length_of(op, axes.part_run);
  p.cut_length = op.reduce_axes()[static_cast<size_t>(axes.cut)].extent();
  p.one_axis = op.reduce_axes().size() == 1;
  p.bytes = stage_bytes(dag, g.anchor);
  p.computes = has_transcendentals(dag, g.anchor, g.inlined);
  std::vector<int> within = g.inlined;
  within.insert(within.end(), g.operands.begin(), g.operands.end());
  p.terms_compute = calls_transcendentals(dag, g.anchor, within) ||
                    (g.attached && !g.in_chain && reads_transcendentals(dag, g.anchor));
  p.reads_again = reads_again(dag, g.anchor);
  p.beside_stores =
      g.attached && !g.places.empty() && streams_rows(t, g.places.front().stage, p.results);
  return p;
}

NamedFeatures ReductionProblem::features() const {
  NamedFeatures f = cpu_features(target);
  const auto add = [&](std::string_view name, auto value) {
    f.push_back({name, static_cast<double>(value)});
  };
  add("parallel", parallel);
  add("attached", attached);
  add("along_row", along_row);
  add("scalar", scalar);
  add("one_row", one_row);
  add("has_epilogue", has_epilogue);
  add("can_split", can_split);
  add("lanes", lanes);
  add("element_bytes", element_bytes);
  add("outputs", outputs);
  add("results", results);
  add("columns", columns);
  add("rows", rows);
  add("row_length", row_length);
  add("row_bytes", row_bytes);
  add("part_row_length", part_row_length);
  add("cut_length", cut_length);
  add("bytes", bytes);
  add("computes", computes);
  add("terms_compute", terms_compute);
  add("reads_again", reads_again);
  add("beside_stores", beside_stores);
  return f;
}

}  // namespace heddle::meta::cpu
