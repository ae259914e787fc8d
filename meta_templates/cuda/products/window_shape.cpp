#include "cuda/products/window_shape.h"

#include <algorithm>

#include "cuda/products/product_loops.h"
#include "cuda/products/warp_group.h"

namespace heddle::meta {
namespace {

constexpr size_t kLeastRank = 3, kMostRank = 5;
constexpr int64_t kPitchBytes = 16, kMostStride = 8;

// The limits of tensor maps by their rank (PTX, "tensor maps of im2col mode"): corners are signed
// numbers, offsets unsigned ones.
struct Limits {
  int64_t corner, offset;
};
Limits limits_of(size_t rank) {
  if (rank == 3) return {1 << 15, (1 << 16) - 1};
  if (rank == 4) return {1 << 7, (1 << 8) - 1};
  return {1 << 4, (1 << 5) - 1};
}

// An index that is one axis, or that axis and a constant.
struct Shifted {
  int axis = -1;  // among `axes`
  int64_t by = 0;
};
std::optional<Shifted> shifted(const Expr& index, const std::vector<Axis>& axes) {
  const std::optional<Affine> a = as_affine(index);
  if (!a) return {};
  Shifted out{-1, a->constant};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t c = a->coefficient(axes[i].var());
    if (c == 0) continue;
    if (c != 1 || out.axis >= 0) return {};
    out.axis = static_cast<int>(i);
  }
  return out;
}

class Windows {
 public:
  Windows(const ComputeDag& dag, const StageGroup& g, const TensorCoreShape& shape)
      : dag_(dag), g_(g), shape_(shape), op_(dag.stage(g.anchor)), view_(*shape.view()) {}

  bool fit() const {
    const int64_t row = group_box_row(shape_.pack());
    const auto whole = [](const ViewDigit& d) { return d.divisor == 1; };
    if (!view_.batch.empty() || !std::all_of(view_.rows.begin(), view_.rows.end(), whole) ||
        !std::all_of(view_.cols.begin(), view_.cols.end(), whole) || view_.depth.empty() ||
        ContractionView::points(view_.depth) <= row)
      return false;
    // Behind the channels TMA writes zeros. Those of the next tap would have to follow.
    const bool one_tap = view_.depth.back().extent == ContractionView::points(view_.depth);
    return (one_tap || view_.depth.back().extent % row == 0) && image_fits() && filters_fit();
  }

 private:
  const Axis& channels() const {
    return op_.reduce_axes()[static_cast<size_t>(view_.depth.back().axis)];
  }
  static bool whole_rows(const Tensor& t) {
    return t.extents().back() * t.dtype().bytes() % kPitchBytes == 0;
  }

  bool image_fits() const {
    const ViewOperand& o = view_.row_operand;
    const std::vector<Expr>& indices = o.load->indices;
    if (!o.along_depth || indices.size() < kLeastRank || indices.size() > kMostRank) return false;
    const std::optional<Shifted> last = shifted(indices.back(), op_.reduce_axes());
    if (!last || last->by != 0 || last->axis != view_.depth.back().axis) return false;
    const int read = producer_of(dag_, g_.anchor, o.load);
    const int source = can_be_in_memory(dag_, g_, read) ? read : padded_source(dag_, read);
    if (source < 0 || !can_be_in_memory(dag_, g_, source)) return false;
    const Tensor image = dag_.stage(source).output(0);
    if (!whole_rows(image) || image.extents().size() != indices.size()) return false;
    return windows_fit(
        image, read == source ? std::vector<int64_t>(indices.size(), 0) : shifts(dag_.stage(read)));
  }

  // What the padding `op` adds to each index.
  static std::vector<int64_t> shifts(const Operation& op) {
    std::vector<int64_t> out;
    for (const Expr& i : op.bodies()[0].as<Select>()->on_true.as<Load>()->indices)
      out.push_back(shifted(i, op.axes())->by);
    return out;
  }

  // The rows go through the dimensions in order (as_product finds the same).
  bool windows_fit(const Tensor& image, const std::vector<int64_t>& shift) const {
    const std::vector<Expr>& indices = view_.row_operand.load->indices;
    const Limits limits = limits_of(indices.size());
    std::vector<Axis> rows;
    for (const ViewDigit& d : view_.rows) {
      if (d.extent > 1) rows.push_back(op_.axes()[static_cast<size_t>(d.axis)]);
    }
    size_t next = 0;
    for (size_t d = 0; d + 1 < indices.size(); ++d) {
      const std::optional<Affine> a = as_affine(indices[d]);
      if (!a) return false;
      int64_t points = 1, stride = 1, offset = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        if (!uses_var(indices[d], rows[i].var())) continue;
        if (i != next || points > 1) return false;
        points = rows[i].extent();
        stride = a->coefficient(rows[i].var());
      }
      if (points > 1) ++next;
      for (const Axis& k : op_.reduce_axes()) {
        const int64_t c = a->coefficient(k.var());
        if (c < 0) return false;
        offset += c * (k.extent() - 1);
      }
      const int64_t first = a->constant + shift[d],
                    end = first + (points - 1) * stride - (image.extents()[d] - 1);
      if (d == 0 && (stride != 1 || first != 0 || offset != 0)) return false;
      if (stride < 1 || stride > kMostStride || offset > limits.offset) return false;
      if (d > 0 && (first < -limits.corner || end < -limits.corner || first >= limits.corner ||
                    end >= limits.corner))
        return false;
    }
    return next == rows.size() && shift.back() == 0;
  }

  bool filters_fit() const {
    const ViewOperand& o = view_.col_operand;
    const int source = producer_of(dag_, g_.anchor, o.load);
    if (!can_be_in_memory(dag_, g_, source) || !whole_rows(dag_.stage(source).output(0)))
      return false;
    if (o.load->indices.size() > kMostRank || (!o.along_depth && shape_.pack() != 2)) return false;
    int lines = 0;
    for (const ViewDigit& d : view_.cols) lines += d.extent > 1 ? 1 : 0;
    if (lines != 1) return false;
    std::vector<Axis> axes = op_.reduce_axes();
    const size_t taps = axes.size();
    axes.insert(axes.end(), op_.axes().begin(), op_.axes().end());
    for (const Expr& i : o.load->indices) {
      const std::optional<Shifted> s = shifted(i, axes);
      if (!s || s->by != 0) return false;
    }
    const std::optional<Shifted> last = shifted(o.load->indices.back(), axes);
    if (o.along_depth) return last->axis == view_.depth.back().axis;
    return last->axis >= static_cast<int>(taps);
  }

  const ComputeDag& dag_;
  const StageGroup& g_;
  const TensorCoreShape& shape_;
  const Operation& op_;
  const ContractionView& view_;
};

}  // namespace

bool can_be_in_memory(const ComputeDag& dag, const StageGroup& g, int s) {
  const Operation& op = dag.stage(s);
  if (op.is_placeholder()) return true;
  const auto has = [&](const std::vector<int>& list) {
    return std::find(list.begin(), list.end(), s) != list.end();
  };
  if (has(g.inlined) || has(g.operands)) return false;
  const StageInfo& info = dag.info(s);
  return info.is_output || op.is_reduction() || info.flops_per_point > 0 ||
         (info.precomputable && !has(g.tunable));
}

// Whether `op` takes all elements of what it reads at `load`: its condition holds for them.
static bool takes_all(const Operation& op, const Select& select, const Load& load) {
  const std::vector<int64_t> extents = tensor_of(load.buffer).extents();
  std::vector<VarBinding> bind;
  Ranges ranges;
  for (size_t d = 0; d < op.axes().size(); ++d) {
    const Axis& axis = op.axes()[d];
    const Var at(axis.name());
    ranges.set(at, {0, extents[d] - 1});
    bind.push_back({axis.var(), at.expr() - simplify(load.indices[d] - Expr(axis))});
  }
  return is_const(simplify(substitute(select.condition, bind), ranges), 1);
}

int padded_source(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  if (op.is_placeholder() || op.is_reduction() || op.bodies().size() != 1) return -1;
  const Select* select = op.bodies()[0].as<Select>();
  const Load* load = select ? select->on_true.as<Load>() : nullptr;
  if (!load || !is_const(select->on_false, 0) || load->indices.size() != op.axes().size())
    return -1;
  for (size_t d = 0; d < load->indices.size(); ++d) {
    const std::optional<Shifted> i = shifted(load->indices[d], op.axes());
    if (!i || (i->axis != static_cast<int>(d) && op.axes()[d].extent() > 1)) return -1;
  }
  if (!takes_all(op, *select, *load)) return -1;
  return producer_of(dag, s, load);
}

bool takes_windows(const ComputeDag& dag, const StageGroup& g, const TensorCoreShape& shape) {
  return shape.view() && !shape.copies_operands() && Windows(dag, g, shape).fit();
}

}  // namespace heddle::meta
