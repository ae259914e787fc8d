// Loops of scans, on CPUs and GPUs alike. In a scan every point combines the result of the previous
// point with one more element.
//
// The loop along the scanned axis and the reduction inside it stay in order, and lowering joins
// them to one loop (linear_scans). A scan that restarts after a fixed number of points is split
// into runs, which are rows like the others.
#pragma once

#include <vector>

#include "common/elements.h"
#include "common/loops.h"
#include "heddle/schedule/template.h"

namespace heddle::meta {

inline bool is_scan(const ComputeDag& dag, const StageGroup& g) {
  return dag.info(g.anchor).scan.has_value() && g.anchor == g.output_stage;
}

struct ScanLoops {
  std::vector<Loop> rows;     ///< loops outside of the scanned axis, and the loop over runs
  std::vector<Loop> columns;  ///< loops inside of the scanned axis
  Loop place;                 ///< loop along the scanned axis, from the beginning of a run
  Loop reduce;
  int64_t last_rows = 1;     ///< the extent of the last of `rows`
  int64_t column_count = 1;  ///< product of the extents of `columns`
  bool whole = true;         ///< whether all runs have the same length
};

/// Makes the loops of the scan that is `stage`. The scanned axis is split into runs.
inline ScanLoops scan_loops(TemplateBuilder& t, int stage) {
  const Operation& op = t.dag().stage(stage);
  const ScanInfo& scan = *t.dag().info(stage).scan;
  StageRef s = t.stage(stage);
  ScanLoops out;
  const std::vector<Loop> axes = s.all_axes();
  const auto d = static_cast<size_t>(scan.axis);
  out.rows.assign(axes.begin(), axes.begin() + scan.axis);
  out.columns.assign(axes.begin() + scan.axis + 1, axes.end());
  for (size_t i = d + 1; i < axes.size(); ++i) out.column_count *= op.axes()[i].extent();
  if (d > 0) out.last_rows = op.axes()[d - 1].extent();
  out.place = axes[d];
  out.reduce = s.reduce_axis(0);
  const int64_t n = op.axes()[d].extent();
  if (scan.block < n) {
    auto [run, place] = s.split(axes[d], scan.block);
    out.rows.push_back(run);
    out.place = place;
    out.last_rows = ceil_div(n, scan.block);
    out.whole = n % scan.block == 0;
  }
  return out;
}

}  // namespace heddle::meta
