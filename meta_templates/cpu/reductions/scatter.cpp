// Scatters on CPUs (heddle/dag/scatter.h): loops over the sources, whose stores go to places that are
// data (lower/passes/scattered_stores.cpp). The order of the sources stays, so the last one wins.
//
//   parallel for columns, a part for each thread { for i { S = 0 }  for q { vectors: S[p] += x } }
//
// Columns are those that no place depends on.
#include <vector>

#include "common/loops.h"
#include "cpu/vectors.h"
#include "heddle/dag/scatter.h"
#include "heddle/schedule/template.h"

namespace heddle::meta::cpu {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && g.anchor == g.output_stage &&
         find_scatter(dag.stage(g.anchor)).has_value();
}

bool is_among(const std::vector<int>& axes, int d) {
  return std::find(axes.begin(), axes.end(), d) != axes.end();
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const Operation& op = t.dag().stage(g.anchor);
  const ScatterInfo info = *find_scatter(op);
  StageRef s = t.stage(g.anchor);
  const std::vector<Loop> axes = s.all_axes();
  std::vector<Loop> points, columns, sources;
  const int rank = static_cast<int>(axes.size());
  for (const int d : info.axes) points.push_back(axes[static_cast<size_t>(d)]);
  for (size_t n = 0; n < op.reduce_axes().size(); ++n)
    sources.push_back(s.reduce_axis(static_cast<int>(n)));
  double work = 4 * static_cast<double>(t.dag().info(g.anchor).reduce_points);
  for (int d = 0; d < rank; ++d) {
    const int64_t* extent = as_int(op.axes()[static_cast<size_t>(d)]->extent);
    if (extent && !is_among(info.axes, d)) work *= static_cast<double>(*extent);
  }
  const bool parallel = worth_parallel(t, work);
  // The innermost column that no place depends on has vectors, which divide it.
  const int64_t lanes = native_lanes(t, g.anchor);
  std::vector<Loop> inner;
  for (int d = 0; d < rank; ++d) {
    if (is_among(info.axes, d)) continue;
    const Loop axis = axes[static_cast<size_t>(d)];
    const bool vectors = d == rank - 1 && is_among(info.columns, d) &&
                         as_int(op.axes()[static_cast<size_t>(d)]->extent) &&
                         op.axes()[static_cast<size_t>(d)].extent() % lanes == 0;
    if (!vectors) {
      columns.push_back(axis);
      continue;
    }
    auto [all, lane] = s.split(axis, lanes);
    s.vectorize(lane);
    const int64_t count = op.axes()[static_cast<size_t>(d)].extent() / lanes;
    auto [part, vector] = s.split(all, ceil_div(count, parallel ? t.target().cores : 1));
    columns.push_back(part);
    inner = {vector, lane};
  }
  s.reorder(joined(joined(columns, points), joined(sources, inner)));
  if (columns.empty()) return;
  const Loop all = s.fuse(columns);
  if (parallel) s.parallel(all);
}

HEDDLE_REGISTER_META_TEMPLATE({"scatter", 6, matches, build});

}  // namespace
}  // namespace heddle::meta::cpu
