#include "common/contraction_shape.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace heddle::meta {
namespace {

using Operands = std::vector<const Access*>;

// The number of consecutive steps along an axis that share what an operand reads. It is all steps, or
// those of a group where the axis only selects the group (a grouped convolution, whose channels
// depend on floordiv(filter, filters of a group)).
int64_t steps_of_a_group(const Access& operand, const Axis& m) {
  int64_t rows = m.extent();
  if (!operand.depends_on(m)) return rows;
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
  for (const Expr& index : operand.indices) look(index);
  return rows;
}

bool reads_reduction(const Access& a, const Operation& op) {
  return std::any_of(op.reduce_axes().begin(), op.reduce_axes().end(),
                     [&](const Axis& k) { return a.depends_on(k); });
}

// Whether a window slides along `axis` over operand `a`. Vectors along such an axis are not
// aligned, and with a stride they are not contiguous either. A copy of `a` mends both, and a deep
// reduction pays for it.
bool slides(const Access& a, const Axis& axis, const Operation& op, int64_t depth) {
  constexpr int64_t kDeep = 256;
  return std::any_of(a.affine.begin(), a.affine.end(), [&](const std::optional<Affine>& index) {
    const int64_t stride = index ? index->coefficient(axis.var()) : 0;
    if (stride == 0) return false;
    if (stride > 1) return true;
    return depth >= kDeep &&
           std::any_of(op.reduce_axes().begin(), op.reduce_axes().end(), [&](const Axis& k) {
             return k.extent() > 1 && index->coefficient(k.var()) != 0;
           });
  });
}

// The distance of what neighbours along `axis` read of the operand, in elements of one of its
// dimensions.
int64_t step_along(const Access& a, const Axis& axis) {
  int64_t step = 0;
  for (const std::optional<Affine>& index : a.affine) {
    if (index) step = std::max(step, std::abs(index->coefficient(axis.var())));
  }
  return step;
}

// Whether the operand is broadcast along vectors of the axis, `shared` elements of which may share what
// it reads. With 0 it may not depend on the axis.
bool is_broadcast(const Access& a, const Axis& axis, int64_t shared) {
  return !a.depends_on(axis) || (shared > 0 && steps_of_a_group(a, axis) % shared == 0);
}

bool one_is_read_by_vectors(const Operands& operands, const Axis& axis, int64_t shared) {
  return std::count_if(operands.begin(), operands.end(),
                       [&](const Access* a) { return !is_broadcast(*a, axis, shared); }) == 1;
}

// Whether the axis is whole vectors of one constant operand, which needs no other vector axis:
// channels in blocks of a vector.
bool is_vectors_of_constant(const ComputeDag& dag, const Operands& operands, const Axis& axis,
                            int64_t lanes, int64_t shared) {
  if (axis.extent() % lanes != 0 || !one_is_read_by_vectors(operands, axis, shared)) return false;
  return std::any_of(operands.begin(), operands.end(), [&](const Access* a) {
    return is_constant(dag, *a) && plain_dim(*a, axis) >= 0;
  });
}

// Whether windows slide over operand `a` along `axis`, across lines of its memory: every load of a vector
// gathers, and no copy of the elements of a vector is one after the other.
bool gathers_windows(const Access& a, const Axis& axis, const Operation& op) {
  const std::vector<Expr>& at = a.indices;
  return a.depends_on(axis) && plain_dim(a, axis, &op) < 0 && a.tensor.extent(-1) > 1 &&
         !uses_var(at.back(), axis.var());
}

// An axis of a constant operand, packed once, that serves as the vector axis in place of a poor
// one; -1 where there is none. A poor axis fills only part of a vector, which gives few
// accumulators and as many loads, or a window slides over it, whose loads cross cache lines. The
// results are then stored one by one, but there are few of them beside a deep reduction. An example
// is the channels of a convolution in NCHW. Of windows far apart, a vector takes as many loads as it
// has lanes, so that a shallower reduction pays, too (patches of 4x4 pixels of 3 channels). Where windows are
// gathered, an operand that is packed at each call serves as well, such as the filter of a transposed
// convolution whose gradient is computed, and where vectors would have half of their lanes or fewer, if
// each element that is packed is used often: a filter that is an argument, of images of few columns.
int constant_vector_axis(const ComputeDag& dag, const Operation& op, const Operands& operands,
                         int64_t lanes, int64_t shared) {
  constexpr int64_t kDeep = 64, kDeepOfFar = 32, kFarApart = 4, kUsedOften = 32;
  int64_t depth = 1;
  for (const Axis& k : op.reduce_axes()) depth *= k.extent();
  const Axis& last = op.axes().back();
  const bool far = std::any_of(operands.begin(), operands.end(),
                               [&](const Access* a) { return step_along(*a, last) >= kFarApart; });
  const bool windows = std::any_of(operands.begin(), operands.end(),
                                   [&](const Access* a) { return slides(*a, last, op, depth); });
  const bool gathers = std::any_of(operands.begin(), operands.end(),
                                   [&](const Access* a) { return gathers_windows(*a, last, op); });
  const auto fills_more = [&](const Access& a) {
    return 2 * last.extent() <= lanes && spatial_points(op) * depth >= kUsedOften * a.tensor.size();
  };
  if (depth < (far ? kDeepOfFar : kDeep) || (last.extent() > lanes && !windows && !gathers) ||
      is_vectors_of_constant(dag, operands, last, lanes, shared))
    return -1;
  for (int i = static_cast<int>(op.axes().size()) - 2; i >= 0; --i) {
    const Axis& axis = op.axes()[static_cast<size_t>(i)];
    if (axis.extent() < 2 * lanes) continue;
    // A tile of one vector is no better than what it replaces.
    const bool reads = one_is_read_by_vectors(operands, axis, 2 * shared);
    for (const Access* a : operands) {
      if (reads && (gathers || is_constant(dag, *a) || fills_more(*a)) &&
          plain_dim(*a, axis) >= 0 && !a->depends_on(last))
        return i;
    }
  }
  return -1;
}

// The vector axis is the last axis, so that stores are contiguous, unless that axis is too short to
// fill a vector and another one is not.
int vector_axis(const Operation& op, const Operands& operands, int64_t lanes) {
  const std::vector<Axis>& axes = op.axes();
  size_t last = axes.size() - 1;
  while (last > 0 && axes[last].extent() == 1) --last;
  if (axes[last].extent() >= lanes / 2) return static_cast<int>(last);
  for (size_t i = axes.size(); i-- > 0;) {
    const bool contiguous = std::any_of(operands.begin(), operands.end(), [&](const Access* a) {
      const Axis* c = contiguous_axis(*a, axes);
      return c && c->same_as(axes[i]);
    });
    if (contiguous && axes[i].extent() >= 2 * lanes) return static_cast<int>(i);
  }
  return static_cast<int>(last);
}

// Another axis in place of vector axis `v` where that is of a batch and lies across all operands, so
// that every load would gather: the innermost one that a packed operand has alone. Otherwise `v`.
int axis_of_one_operand(const Operation& op, const Operands& operands, int v, int64_t lanes) {
  const std::vector<Axis>& axes = op.axes();
  const Axis& batch = axes[static_cast<size_t>(v)];
  const bool gathers = std::all_of(operands.begin(), operands.end(), [&](const Access* a) {
    return a->depends_on(batch) && plain_dim(*a, batch) >= 0 &&
           plain_dim(*a, batch) + 1 != a->tensor.rank();
  });
  if (!gathers || operands.size() != 2) return v;
  for (int i = v - 1; i >= 0; --i) {
    const Axis& axis = axes[static_cast<size_t>(i)];
    const bool plain = std::any_of(operands.begin(), operands.end(),
                                   [&](const Access* a) { return plain_dim(*a, axis) >= 0; });
    if (axis.extent() >= 2 * lanes && plain && one_is_read_by_vectors(operands, axis, 0)) return i;
  }
  return v;
}

// The longest axis that reuses the vector operand; among equals the innermost. An axis along which the
// elements of the row operand lie side by side comes before longer ones, where it fills a tile: of
// images of a batch, each with its channels in planes, a tile of images would read a line of memory
// for each of its elements. Without one, any other axis still gives independent accumulators. -1 where
// there is no other axis.
int row_axis(const std::vector<Axis>& axes, const ContractionShape& sh, Columns columns) {
  constexpr int64_t kFillsTile = 6;
  const auto reuses = [&](const Axis& axis) {
    return sh.vector && steps_of_a_group(*sh.vector, axis) > 1;
  };
  const auto side_by_side = [&](const Axis& axis) {
    return columns != Columns::Together && sh.row && axis.extent() >= kFillsTile &&
           uses_var(sh.row->indices.back(), axis.var());
  };
  const Axis* best = nullptr;
  int at = -1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (static_cast<int>(i) == sh.v || axes[i].extent() <= 1) continue;
    const bool better = !best || (reuses(axes[i]) != reuses(*best) ? reuses(axes[i])
                                  : side_by_side(axes[i]) != side_by_side(*best)
                                      ? side_by_side(axes[i])
                                      : axes[i].extent() >= best->extent());
    if (!better) continue;
    best = &axes[i];
    at = static_cast<int>(i);
  }
  return at;
}

// The largest operand that depends on the vector axis, and the largest that is broadcast along vectors
// of it.
void find_operands(const std::vector<Axis>& axes, const Operands& operands, int64_t shared,
                   ContractionShape& sh) {
  for (const Access* a : operands) {
    const Axis& v = axes[static_cast<size_t>(sh.v)];
    const Access*& mine = is_broadcast(*a, v, shared) ? sh.row : sh.vector;
    if (!mine || bytes_of(a->tensor) > bytes_of(mine->tensor)) mine = a;
  }
}

// Sorts the axes that are neither rows nor vectors by the operands that depend on them.
void sort_other_axes(const std::vector<Axis>& axes, ContractionShape& sh) {
  for (int i = 0; i < static_cast<int>(axes.size()); ++i) {
    if (i == sh.v || i == sh.m) continue;
    const Axis& axis = axes[static_cast<size_t>(i)];
    const bool on_vector = sh.vector && sh.vector->depends_on(axis);
    const bool on_row = sh.row && sh.row->depends_on(axis);
    (on_vector == on_row ? sh.batch : on_vector ? sh.v_others : sh.m_others).push_back(i);
  }
}

}  // namespace

int plain_dim(const Access& a, const Axis& axis, const Operation* op) {
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

ContractionShape contraction_shape(const ComputeDag& dag, int s, int64_t lanes, Columns columns) {
  const Operation& op = dag.stage(s);
  const std::vector<Axis>& axes = op.axes();
  Operands operands;
  for (const Access& a : dag.info(s).reads) {
    if (reads_reduction(a, op)) operands.push_back(&a);
  }
  ContractionShape sh;
  const int64_t shared = columns == Columns::InGroups ? lanes : 0;
  sh.v = columns == Columns::Together ? -1 : constant_vector_axis(dag, op, operands, lanes, shared);
  if (sh.v < 0) sh.v = vector_axis(op, operands, lanes);
  if (columns != Columns::Together) sh.v = axis_of_one_operand(op, operands, sh.v, lanes);
  const Axis& v = axes[static_cast<size_t>(sh.v)];
  find_operands(axes, operands, shared, sh);
  sh.m = row_axis(axes, sh, columns);
  sort_other_axes(axes, sh);
  sh.cols = v.extent();
  sh.col_group = sh.row ? steps_of_a_group(*sh.row, v) : sh.cols;
  for (const Axis& k : op.reduce_axes()) sh.depth *= k.extent();
  if (sh.vector) {
    sh.reuse = spatial_points(op) * sh.depth * sh.vector->tensor.dtype().bytes() /
               bytes_of(sh.vector->tensor);
    sh.vector_dim = plain_dim(*sh.vector, v, &op);
  }
  if (sh.m < 0) return sh;
  const Axis& m = axes[static_cast<size_t>(sh.m)];
  sh.rows = m.extent();
  sh.group = sh.vector ? steps_of_a_group(*sh.vector, m) : sh.rows;
  if (sh.row) sh.row_dim = plain_dim(*sh.row, m, &op);
  return sh;
}

}  // namespace heddle::meta
