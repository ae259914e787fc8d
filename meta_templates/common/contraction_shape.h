// Which axes of a contraction are rows, columns and batch, and which operand feeds which: what the
// choice of loops rests on, on CPUs and GPUs alike.
#pragma once

#include <functional>
#include <numeric>

#include "common/accesses.h"

namespace heddle::meta {

// What the choice of axes rests on.
struct ContractionShape {
  int v = -1, m = -1;              // positions of the vector and the row axis
  const Access* vector = nullptr;  // the operand read by vectors
  const Access* row = nullptr;     // the operand broadcast along v
  int vector_dim = -1;             // the dimension of the vector operand that v indexes alone
  int row_dim = -1;
  int64_t rows = 1, cols = 1, depth = 1;       // extents of m and v; product of the reduce extents
  int64_t group = 1;                           // consecutive rows that share a vector operand
  int64_t reuse = 1;                           // multiply-adds an element of the vector operand
  std::vector<int> batch, m_others, v_others;  // the other axes, by who depends on them
};

// Number of consecutive rows that share a vector operand: all, or those of a group where the row
// only says which (a grouped convolution: channels of floordiv(filter, filters of a group)).
inline int64_t rows_of_a_group(const Access& vector, const Axis& m) {
  int64_t rows = m.extent();
  if (!vector.depends_on(m)) return rows;
  const std::function<void(const Expr&)> look = [&](const Expr& e) {
    const auto* binary = e.as<Binary>();
    if (binary && binary->op == BinaryOp::FloorDiv && uses_var(binary->a, m.var())) {
      const auto* var = binary->a.as<VarNode>();
      const int64_t* members = as_int(binary->b);
      rows = var && members ? std::gcd(rows, *members) : 1;
    } else if (e.as<VarNode>() && uses_var(e, m.var())) {
      rows = 1;
    } else {
      for_each_child(e, look);
    }
  };
  for (const Expr& index : vector.indices) look(index);
  return rows;
}

inline bool reads_reduction(const Access& a, const Operation& op) {
  return std::any_of(op.reduce_axes().begin(), op.reduce_axes().end(),
                     [&](const Axis& k) { return a.depends_on(k); });
}

// The dimension that `axis` indexes alone with coefficient 1, or -1. Axes of `op` of extent 1, such
// as the window of a 1x1 convolution, add nothing to an index.
inline int plain_dim(const Access& a, const Axis& axis, const Operation* op = nullptr) {
  auto is_nothing = [&](const Affine::Term& t) {
    auto is_it = [&](const Axis& x) { return x.var().same_as(t.var) && x.extent() == 1; };
    return op && !t.var.same_as(axis.var()) &&
           (std::any_of(op->axes().begin(), op->axes().end(), is_it) ||
            std::any_of(op->reduce_axes().begin(), op->reduce_axes().end(), is_it));
  };
  for (size_t d = 0; d < a.indices.size(); ++d) {
    if (!a.affine[d] || a.affine[d]->coefficient(axis.var()) != 1 || a.affine[d]->constant != 0)
      continue;
    const auto& terms = a.affine[d]->terms;
    if (std::count_if(terms.begin(), terms.end(), is_nothing) + 1 == std::ssize(terms))
      return static_cast<int>(d);
  }
  return -1;
}

// Whether a window slides along `axis` over operand `a`: vectors along it are not aligned, and
// where it is strided, they are not in a row either. A copy of `a` that mends both is paid for by a
// deep reduction.
inline bool slides(const Access& a, const Axis& axis, const Operation& op, int64_t depth) {
  constexpr int64_t kDeep = 256;
  const auto& index = a.affine.back();
  const int64_t stride = index ? index->coefficient(axis.var()) : 0;
  if (stride == 0) return false;
  if (stride > 1) return true;
  return depth >= kDeep &&
         std::any_of(op.reduce_axes().begin(), op.reduce_axes().end(), [&](const Axis& k) {
           return k.extent() > 1 && index->coefficient(k.var()) != 0;
         });
}

// Vectors along an axis that fills only one, and that not to the brim, are few accumulators and as
// many loads; along one that a window slides over they are loads across lines. Where a constant
// (packed once) is read along a longer axis, vectors go there, and the results, which are few
// beside a deep reduction, are stored one by one: channels of a convolution in NCHW. -1: there is
// none.
inline int constant_vector_axis(const ComputeDag& dag, const Operation& op,
                                const std::vector<const Access*>& operands, int64_t lanes) {
  constexpr int64_t kDeep = 64;
  int64_t depth = 1;
  for (const Axis& k : op.reduce_axes()) depth *= k.extent();
  const Axis& last = op.axes().back();
  const bool windows = std::any_of(operands.begin(), operands.end(),
                                   [&](const Access* a) { return slides(*a, last, op, depth); });
  if (depth < kDeep || (last.extent() > lanes && !windows)) return -1;
  for (int i = static_cast<int>(op.axes().size()) - 2; i >= 0; --i) {
    const Axis& axis = op.axes()[static_cast<size_t>(i)];
    if (axis.extent() < 2 * lanes) continue;
    const bool reads = std::count_if(operands.begin(), operands.end(),
                                     [&](const Access* a) { return a->depends_on(axis); }) == 1;
    for (const Access* a : operands) {
      if (reads && is_constant(dag, *a) && plain_dim(*a, axis) >= 0 && !a->depends_on(last))
        return i;
    }
  }
  return -1;
}

/// `scattered`: results may be stored one by one (see constant_vector_axis).
inline ContractionShape contraction_shape(const ComputeDag& dag, int s, int64_t lanes,
                                          bool scattered = false) {
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
  if (const int i = scattered ? constant_vector_axis(dag, op, operands, lanes) : -1; i >= 0)
    sh.v = i;
  for (const Access* a : operands) {
    bool on_v = a->depends_on(axes[sh.v]);
    if (on_v && (!sh.vector || bytes_of(a->tensor) > bytes_of(sh.vector->tensor))) sh.vector = a;
    if (!on_v && (!sh.row || bytes_of(a->tensor) > bytes_of(sh.row->tensor))) sh.row = a;
  }
  // The row axis: the longest that reuses the vector operand; the innermost of equals. Any other
  // axis still gives independent accumulators.
  auto better = [&](int i, int best) {
    if (best < 0) return true;
    bool reuse = sh.vector && rows_of_a_group(*sh.vector, axes[i]) > 1,
         best_reuse = sh.vector && rows_of_a_group(*sh.vector, axes[best]) > 1;
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
  if (sh.m >= 0) {
    sh.rows = axes[sh.m].extent();
    sh.group = sh.vector ? rows_of_a_group(*sh.vector, axes[sh.m]) : sh.rows;
  }
  for (const Axis& k : op.reduce_axes()) sh.depth *= k.extent();
  if (sh.vector)
    sh.reuse = spatial_points(op) * sh.depth * sh.vector->tensor.dtype().bytes() /
               bytes_of(sh.vector->tensor);
  if (sh.vector) sh.vector_dim = plain_dim(*sh.vector, axes[sh.v], &op);
  if (sh.row && sh.m >= 0) sh.row_dim = plain_dim(*sh.row, axes[sh.m], &op);
  return sh;
}

}  // namespace heddle::meta
