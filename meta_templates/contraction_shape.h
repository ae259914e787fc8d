// Which axes of a contraction are rows, columns and batch, and which operand feeds which: what the
// choice of loops rests on, on CPUs and GPUs alike.
#pragma once

#include "common.h"

namespace heddle::meta {

// What the choice of axes rests on.
struct ContractionShape {
  int v = -1, m = -1;              // positions of the vector and the row axis
  const Access* vector = nullptr;  // the operand read by vectors
  const Access* row = nullptr;     // the operand broadcast along v
  int vector_dim = -1;             // the dimension of the vector operand that v indexes alone
  int row_dim = -1;
  int64_t rows = 1, cols = 1, depth = 1;       // extents of m and v; product of the reduce extents
  std::vector<int> batch, m_others, v_others;  // the other axes, by who depends on them
};

inline bool reads_reduction(const Access& a, const Operation& op) {
  return std::any_of(op.reduce_axes().begin(), op.reduce_axes().end(),
                     [&](const Axis& k) { return a.depends_on(k); });
}

// The dimension that `axis` indexes alone with coefficient 1, or -1.
inline int plain_dim(const Access& a, const Axis& axis) {
  for (size_t d = 0; d < a.indices.size(); ++d) {
    if (a.affine[d] && a.affine[d]->terms.size() == 1 &&
        a.affine[d]->coefficient(axis.var()) == 1 && a.affine[d]->constant == 0) {
      return static_cast<int>(d);
    }
  }
  return -1;
}

inline ContractionShape contraction_shape(const ComputeDag& dag, int s, int64_t lanes) {
  const Operation& op = dag.stage(s);
  const auto& axes = op.axes();
  std::vector<const Access*> operands;
  for (const Access& a : dag.info(s).reads) {
    if (reads_reduction(a, op)) operands.push_back(&a);
  }
  ContractionShape sh;
  // The vector axis: stores should be contiguous, so the last axis unless it is too short to fill a
  // vector and another is not.
  sh.v = static_cast<int>(axes.size()) - 1;
  while (sh.v > 0 && axes[sh.v].extent() == 1) --sh.v;
  if (axes[sh.v].extent() < lanes / 2) {
    for (int i = static_cast<int>(axes.size()) - 1; i >= 0; --i) {
      bool contiguous = false;
      for (const Access* a : operands) {
        const Axis* c = contiguous_axis(*a, axes);
        contiguous |= c && c->same_as(axes[i]);
      }
      if (contiguous && axes[i].extent() >= 2 * lanes) {
        sh.v = i;
        break;
      }
    }
  }
  for (const Access* a : operands) {
    bool on_v = a->depends_on(axes[sh.v]);
    if (on_v && (!sh.vector || bytes_of(a->tensor) > bytes_of(sh.vector->tensor))) sh.vector = a;
    if (!on_v && (!sh.row || bytes_of(a->tensor) > bytes_of(sh.row->tensor))) sh.row = a;
  }
  // The row axis: the longest that reuses the vector operand; the innermost of equals. Any other
  // axis still gives independent accumulators.
  auto better = [&](int i, int best) {
    if (best < 0) return true;
    bool reuse = sh.vector && !sh.vector->depends_on(axes[i]),
         best_reuse = sh.vector && !sh.vector->depends_on(axes[best]);
    if (reuse != best_reuse) return reuse;
    return axes[i].extent() >= axes[best].extent();
  };
  for (int i = 0; i < static_cast<int>(axes.size()); ++i) {
    if (i != sh.v && axes[i].extent() > 1 && better(i, sh.m)) sh.m = i;
  }
  for (int i = 0; i < static_cast<int>(axes.size()); ++i) {
    if (i == sh.v || i == sh.m) continue;
    bool on_vector = sh.vector && sh.vector->depends_on(axes[i]),
         on_row = sh.row && sh.row->depends_on(axes[i]);
    (on_vector == on_row ? sh.batch : on_vector ? sh.v_others : sh.m_others).push_back(i);
  }
  sh.cols = axes[sh.v].extent();
  if (sh.m >= 0) sh.rows = axes[sh.m].extent();
  for (const Axis& k : op.reduce_axes()) sh.depth *= k.extent();
  if (sh.vector) sh.vector_dim = plain_dim(*sh.vector, axes[sh.v]);
  if (sh.row && sh.m >= 0) sh.row_dim = plain_dim(*sh.row, axes[sh.m]);
  return sh;
}

}  // namespace heddle::meta
