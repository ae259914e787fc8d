#include "cpu/products/contraction.h"

#include <algorithm>

#include "cpu/vectors.h"

namespace heddle::meta::cpu {
namespace {

bool contains(const std::vector<int>& stages, int s) {
  return std::find(stages.begin(), stages.end(), s) != stages.end();
}

constexpr int64_t kShortestRun = 4;  // elements; with a shorter run, each step reads a line again

int longest_reduction(const Operation& op) {
  size_t longest = 0;
  for (size_t i = 0; i < op.reduce_axes().size(); ++i) {
    if (op.reduce_axes()[i].extent() > op.reduce_axes()[longest].extent()) longest = i;
  }
  return static_cast<int>(longest);
}

// The lanes of a vector of results: half of a native one where that would lie in several groups of
// columns, which are wider (a convolution with groups of 24 channels).
int64_t lanes_of_groups(const ComputeDag& dag, int stage, int64_t native) {
  const ContractionShape whole = contraction_shape(dag, stage, native, Columns::InGroups),
                         half = contraction_shape(dag, stage, native / 2, Columns::InGroups);
  const bool in_groups = half.v == whole.v && whole.col_group == whole.cols &&
                         half.col_group < half.cols && half.col_group > native;
  return in_groups ? native / 2 : native;
}

}  // namespace

Contraction::Contraction(const TemplateBuilder& t, const StageGroup& g)
    : group(g),
      dag(t.dag()),
      op(dag.stage(g.anchor)),
      lanes(lanes_of_groups(dag, g.anchor, native_lanes(t, g.anchor))),
      shape(contraction_shape(dag, g.anchor, lanes, Columns::InGroups)),
      narrow(narrow_product(op)),
      grouped(grouped_reduction(op, shape)),
      longest(longest_reduction(op)) {
  channels_in_planes = grouped && shape.m >= 0 && shape.row_dim < 0 && is_stored(*shape.row) &&
                       grouped->row_dim + 1 != shape.row->tensor.rank() &&
                       !has_channels_in_blocks() && !reads_vectors_across();
  block_axis = find_block_axis();
  if (!narrow || !grouped) return;
  for (int64_t size : cpu::dot_sizes(*narrow, t.target())) {
    if (grouped->extent >= size) dot_sizes.push_back(size);
  }
}

bool Contraction::has_channels_in_blocks() const {
  const Axis* along = row_reduction();
  return along && along->extent() >= kShortestRun && plain_dim(*shape.row, *along, &op) >= 0;
}

bool Contraction::reads_vectors_across() const {
  if (!shape.vector || shape.vector_dim < 0 || shape.vector_dim != contiguous_dim(*shape.vector))
    return false;
  const auto step_of = [&](const Axis& k) {
    const int dim = k.extent() == 1 ? -1 : plain_dim(*shape.vector, k, &op);
    return dim < 0 ? 0 : stride(*shape.vector, dim);
  };
  const auto axis = static_cast<size_t>(grouped->axis);
  const int64_t own = step_of(op.reduce_axes()[axis]);
  return std::ranges::any_of(op.reduce_axes(), [&](const Axis& k) {
    const int64_t other = step_of(k);
    return other > 0 && other < own;
  });
}

int Contraction::find_block_axis() const {
  const bool one_vector = shape.row && shape.vector && shape.m >= 0 && shape.cols == lanes;
  if (!one_vector || shape.v_others.empty() || chained() || group.attached) return -1;
  const int axis = shape.v_others.back();
  const Axis& blocks = op.axes()[static_cast<size_t>(axis)];
  const bool goes_on = blocks.extent() > 1 && plain_dim(*shape.vector, blocks) >= 0;
  return goes_on && is_constant(*shape.vector) ? axis : -1;
}

bool Contraction::has_dot(int64_t size) const {
  return std::find(dot_sizes.begin(), dot_sizes.end(), size) != dot_sizes.end();
}

int64_t Contraction::extents(const std::vector<int>& axes) const {
  int64_t n = 1;
  for (int i : axes) n *= op.axes()[static_cast<size_t>(i)].extent();
  return n;
}

bool Contraction::is_constant(const Access& a) const { return meta::is_constant(dag, a); }

bool Contraction::is_stored(const Access& a) const {
  return !contains(group.operands, a.producer) && !contains(group.inlined, a.producer);
}

int64_t Contraction::bytes_a_batch(const Access& a) const {
  int64_t bytes = bytes_of(a.tensor);
  for (int i : shape.batch) bytes /= op.axes()[static_cast<size_t>(i)].extent();
  return bytes;
}

int64_t Contraction::bytes_a_row(const Access& a) const {
  const Axis& k = op.reduce_axes()[static_cast<size_t>(innermost_reduce(false))];
  const int dim = plain_dim(a, k, &op);
  const int64_t step = dim < 0 || is_stored(a) ? a.tensor.extents().back() : stride(a, dim);
  return step * a.tensor.dtype().bytes();
}

int64_t Contraction::stride(const Access& a, int dim) const {
  if (is_stored(a)) {
    int64_t step = 1;
    for (int d = dim + 1; d < a.tensor.rank(); ++d) step *= a.tensor.extent(d);
    return step;
  }
  const StageInfo& info = dag.info(a.producer);
  if (info.reads.size() != 1) return -1;
  const Access& source = info.reads[0];
  const Var axis = dag.stage(a.producer).axes()[static_cast<size_t>(dim)].var();
  int64_t step = 0;
  for (size_t d = 0; d < source.affine.size(); ++d) {
    if (!source.affine[d]) return -1;
    const int64_t factor = source.affine[d]->coefficient(axis);
    const int64_t inner = factor == 0 ? 0 : stride(source, static_cast<int>(d));
    if (inner < 0) return -1;
    step += factor * inner;
  }
  return step;
}

int Contraction::contiguous_dim(const Access& a) const {
  for (int d = a.tensor.rank() - 1; d >= 0; --d) {
    if (a.tensor.extent(d) > 1 && stride(a, d) == 1) return d;
  }
  return a.tensor.rank() > 0 && stride(a, a.tensor.rank() - 1) == 1 ? a.tensor.rank() - 1 : -1;
}

const Axis* Contraction::row_reduction() const {
  if (is_stored(*shape.row)) return contiguous_axis(*shape.row, op.reduce_axes());
  const int dim = contiguous_dim(*shape.row);
  for (const Axis& k : op.reduce_axes()) {
    if (dim >= 0 && plain_dim(*shape.row, k, &op) == dim) return &k;
  }
  return nullptr;
}

int Contraction::innermost_reduce(bool channels_last) const {
  if (channels_last) return grouped->axis;
  const std::vector<Axis>& reduce = op.reduce_axes();
  size_t last = reduce.size() - 1;
  // The window of a 1x1 convolution is skipped, because it is not a loop.
  while (last > 0 && reduce[last].extent() == 1) --last;
  const Axis* along = shape.row ? row_reduction() : nullptr;
  for (size_t i = 0; along && i < reduce.size(); ++i) {
    if (reduce[i].same_as(*along) && along->extent() >= kShortestRun) last = i;
  }
  return static_cast<int>(last);
}

}  // namespace heddle::meta::cpu
