#include "cuda/products/product_view.h"

#include <functional>

#include "heddle/dag/factors.h"
#include "heddle/ir/simplify.h"

namespace heddle::meta {
namespace {

// Finds the view of one contraction.
class ViewFinder {
 public:
  explicit ViewFinder(const Operation& op) : op_(op) {}

  std::optional<ContractionView> find() {
    if (!find_loads() || !classify()) return {};
    if (view_.cols.empty() || view_.rows.empty()) return {};
    if (ContractionView::points(view_.rows) < 2 || ContractionView::points(view_.cols) < 2)
      return {};
    for (size_t i = 0; i < op_.reduce_axes().size(); ++i) {
      const int64_t* n = as_int(op_.reduce_axes()[i]->extent);
      if (!n) return {};
      view_.depth.push_back({static_cast<int>(i), 1, *n});
    }
    measure();
    return view_;
  }

 private:
  struct Known {
    Var var;
    ViewDigit digit;
    bool reduce = false;
  };

  bool find_loads() {
    const Reduce* r = op_.bodies()[0].as<Reduce>();
    if (!r || r->combiner->kind != ReduceKind::Sum || r->sources.size() != 1) return false;
    const Binary* mul = r->sources[0].as<Binary>();
    if (!mul || mul->op != BinaryOp::Mul) return false;
    loads_ = {read_of_factor(mul->a), read_of_factor(mul->b)};
    return loads_[0] && loads_[1] && loads_[0]->buffer != loads_[1]->buffer;
  }

  static bool depends(const Load* l, const Var& v) {
    return std::any_of(l->indices.begin(), l->indices.end(),
                       [&](const Expr& i) { return uses_var(i, v); });
  }

  // The constant p where `l` depends on `axis` only by floordiv(axis, p) and p divides its extent;
  // otherwise 0.
  static int64_t group_size(const Load* l, const Axis& axis) {
    int64_t size = 0;
    bool plain = true;
    const std::function<void(const Expr&)> look = [&](const Expr& e) {
      const Binary* b = e.as<Binary>();
      if (b && b->op == BinaryOp::FloorDiv && b->a.same_as(axis.var().expr()) && as_int(b->b)) {
        plain &= size == 0 || size == *as_int(b->b);
        size = *as_int(b->b);
      } else if (e.as<VarNode>() && uses_var(e, axis.var())) {
        plain = false;
      } else {
        for_each_child(e, look);
      }
    };
    for (const Expr& i : l->indices) look(i);
    return plain && size > 1 && axis.extent() % size == 0 ? size : 0;
  }

  // Assigns the axes to operands. The operand of the columns is the one with the axis along which
  // the result is contiguous.
  bool classify() {
    std::array<std::vector<ViewDigit>, 2> own;
    int last = -1;  // the operand of the last axis with more than one value
    for (size_t i = 0; i < op_.axes().size(); ++i) {
      const Axis& x = op_.axes()[i];
      if (!as_int(x->extent)) return false;
      const int at = static_cast<int>(i);
      const int64_t n = x.extent();
      const bool in_a = depends(loads_[0], x.var()), in_b = depends(loads_[1], x.var());
      if (n == 1) {
        units_.push_back({at, 1, 1});
      } else if (in_a != in_b) {
        last = in_a ? 0 : 1;
        own[static_cast<size_t>(last)].push_back({at, 1, n});
      } else if (!in_a) {
        return false;
      } else {
        last = -1;
        for (int o = 0; o < 2 && last < 0; ++o) {
          const int64_t size = group_size(loads_[static_cast<size_t>(o)], x);
          if (size == 0) continue;
          last = 1 - o;
          if (size < n) view_.batch.push_back({at, size, n / size});
          own[static_cast<size_t>(last)].push_back({at, 1, size});
        }
        if (last < 0) view_.batch.push_back({at, 1, n});
      }
    }
    if (last < 0) return false;
    cols_ = static_cast<size_t>(last);
    view_.rows = own[1 - cols_];
    view_.cols = own[cols_];
    view_.rows.insert(view_.rows.begin(), units_.begin(), units_.end());
    view_.row_operand.load = loads_[1 - cols_];
    view_.col_operand.load = loads_[cols_];
    return true;
  }

  // Determines the order of the depth, and the layout of the operands.
  void measure() {
    std::vector<VarBinding> bind;
    Ranges ranges;
    std::vector<Expr> value(op_.axes().size(), Expr(0));
    const auto know = [&](const ViewDigit& d, bool reduce) {
      const Var v("digit");
      ranges.set(v, {0, d.extent - 1});
      known_.push_back({v, d, reduce});
      return v.expr() * Expr(d.divisor);
    };
    for (const auto* list : {&view_.batch, &view_.rows, &view_.cols}) {
      for (const ViewDigit& d : *list) {
        Expr& of_axis = value[static_cast<size_t>(d.axis)];
        of_axis = of_axis + know(d, false);
      }
    }
    for (size_t i = 0; i < value.size(); ++i) bind.push_back({op_.axes()[i].var(), value[i]});
    for (const ViewDigit& d : view_.depth) {
      const Axis& k = op_.reduce_axes()[static_cast<size_t>(d.axis)];
      bind.push_back({k.var(), know(d, true)});
    }
    std::array<std::optional<Affine>, 2>
        flat;  // flat indices of the operands of rows and of columns
    const std::array<const Load*, 2> loads{view_.row_operand.load, view_.col_operand.load};
    for (size_t o = 0; o < 2; ++o) {
      Expr at(0);
      for (size_t d = 0; d < loads[o]->indices.size(); ++d)
        at = at * loads[o]->buffer->shape[d] + substitute(loads[o]->indices[d], bind);
      flat[o] = as_affine(simplify(at, ranges));
    }
    order_depth(flat[loads[0]->buffer.num_elements() >= loads[1]->buffer.num_elements() ? 0 : 1]);
    lie(flat[0], view_.rows, &view_.row_operand);
    lie(flat[1], view_.cols, &view_.col_operand);
  }

  const Known& known(const ViewDigit& d, bool reduce) const {
    return *std::find_if(known_.begin(), known_.end(), [&](const Known& k) {
      return k.reduce == reduce && k.digit.axis == d.axis && k.digit.divisor == d.divisor &&
             k.digit.extent == d.extent;
    });
  }
  int64_t stride(const Affine& a, const ViewDigit& d, bool reduce) const {
    return a.coefficient(known(d, reduce).var);
  }

  // Puts the longest strides of the larger operand outermost.
  void order_depth(const std::optional<Affine>& a) {
    if (!a) return;
    std::stable_sort(view_.depth.begin(), view_.depth.end(),
                     [&](const ViewDigit& x, const ViewDigit& y) {
                       if (x.extent == 1 || y.extent == 1) return x.extent == 1 && y.extent > 1;
                       return stride(*a, x, true) > stride(*a, y, true);
                     });
  }

  // The longest vector, at most `lanes`, for an operand that is contiguous along the last of
  // `digits`. It must cut each contiguous run into whole vectors that begin at multiples of its
  // length.
  int64_t vector(const Affine& a, const std::vector<ViewDigit>& digits, bool reduce,
                 int64_t lanes) const {
    int64_t run = 1;
    std::vector<Var> in_run;
    for (size_t i = digits.size(); i-- > 0;) {
      if (digits[i].extent == 1) continue;
      if (stride(a, digits[i], reduce) != run) break;
      run *= digits[i].extent;
      in_run.push_back(known(digits[i], reduce).var);
    }
    const auto fits = [&](int64_t v) {
      if (run % v != 0 || a.constant % v != 0) return false;
      return std::all_of(a.terms.begin(), a.terms.end(), [&](const Affine::Term& t) {
        return t.coefficient % v == 0 ||
               std::any_of(in_run.begin(), in_run.end(),
                           [&](const Var& x) { return x.same_as(t.var); });
      });
    };
    int64_t v = lanes;
    while (v > 1 && !fits(v)) v /= 2;
    return v;
  }

  void lie(const std::optional<Affine>& a, const std::vector<ViewDigit>& lines, ViewOperand* out) {
    if (!a) return;
    const int64_t lanes = 16 / out->load->dtype.bytes();
    const int64_t depth = vector(*a, view_.depth, true, lanes),
                  line = vector(*a, lines, false, lanes);
    out->along_depth = depth >= line;
    out->vector = std::max(depth, line);
  }

  const Operation& op_;
  std::array<const Load*, 2> loads_{};
  size_t cols_ = 0;
  std::vector<ViewDigit> units_;
  std::vector<Known> known_;
  ContractionView view_;
};

// The digits of all spatial axes as variables: an index of a group and of what is in it is a sum of both.
class Digits {
 public:
  Digits(const Operation& op, const ContractionView& view) {
    std::vector<Expr> value(op.axes().size(), Expr(0));
    for (const auto* list : {&view.batch, &view.rows, &view.cols}) {
      for (const ViewDigit& d : *list) {
        const Var v("digit");
        known_.emplace_back(d, v);
        ranges_.set(v, {0, d.extent - 1});
        Expr& of_axis = value[static_cast<size_t>(d.axis)];
        of_axis = of_axis + v.expr() * Expr(d.divisor);
      }
    }
    for (size_t i = 0; i < value.size(); ++i) by_.push_back({op.axes()[i].var(), value[i]});
    for (const Axis& k : op.reduce_axes()) ranges_.set(k.var(), {0, k.extent() - 1});
  }

  // The dimension of operand `o` (with the rows or columns `lines`) that reduce axis `k` indexes, alone or
  // with digits of the batch, so that `vector` elements from each multiple of it lie side by side where it
  // is innermost; -1 where there is none.
  int depth_dimension(const ViewOperand& o, const std::vector<ViewDigit>& lines, const Axis& k,
                      int64_t vector) const {
    const std::vector<Expr>& indices = o.load->indices;
    int found = -1;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (!uses_var(indices[d], k.var())) continue;
      if (found >= 0 || !is_of_depth(indices[d], lines, k, vector)) return -1;
      found = static_cast<int>(d);
    }
    return found;
  }

 private:
  bool is_of_depth(const Expr& index, const std::vector<ViewDigit>& lines, const Axis& k,
                   int64_t vector) const {
    const std::optional<Affine> a = as_affine(simplify(substitute(index, by_), ranges_));
    if (!a || a->coefficient(k.var()) != 1 || a->constant % vector != 0) return false;
    return std::ranges::all_of(a->terms, [&](const Affine::Term& t) {
      return t.var.same_as(k.var()) || (t.coefficient % vector == 0 && is_batch(t.var, lines));
    });
  }

  bool is_batch(const Var& v, const std::vector<ViewDigit>& lines) const {
    const auto it =
        std::ranges::find_if(known_, [&](const auto& x) { return x.second.same_as(v); });
    if (it == known_.end()) return false;  // another reduce axis
    const ViewDigit& digit = it->first;
    return digit.extent == 1 || std::ranges::none_of(lines, [&](const ViewDigit& x) {
             return x.axis == digit.axis && x.divisor == digit.divisor && x.extent == digit.extent;
           });
  }

  std::vector<std::pair<ViewDigit, Var>> known_;
  std::vector<VarBinding> by_;
  Ranges ranges_;
};

// Elements of `t` in 16 bytes, or fewer that divide `extent`.
int64_t whole_vector_of(DataType t, int64_t extent) {
  int64_t vector = 16 / t.bytes();
  while (extent % vector != 0) vector /= 2;
  return vector;
}

}  // namespace

std::optional<ContractionView> contraction_view(const Operation& op) {
  return ViewFinder(op).find();
}

std::optional<DepthInnermost> depth_innermost(const Operation& op, const ContractionView& view) {
  const std::array<const ViewOperand*, 2> operands{&view.row_operand, &view.col_operand};
  const Digits digits(op, view);
  DepthInnermost out;
  int64_t longest = 1;
  for (const ViewDigit& d : view.depth) {
    const Axis& k = op.reduce_axes()[static_cast<size_t>(d.axis)];
    const auto dim = [&](const ViewOperand& o, const std::vector<ViewDigit>& lines) {
      return digits.depth_dimension(o, lines, k, whole_vector_of(o.load->dtype, d.extent));
    };
    const std::array<int, 2> dims{dim(*operands[0], view.rows), dim(*operands[1], view.cols)};
    if (d.extent <= longest || dims[0] < 0 || dims[1] < 0) continue;
    longest = d.extent;
    out.axis = d.axis;
    out.dims = dims;
  }
  if (out.axis < 0) return {};
  out.view = view;
  std::stable_partition(out.view.depth.begin(), out.view.depth.end(),
                        [&](const ViewDigit& d) { return d.axis != out.axis; });
  const bool same_order =
      view.depth.back().axis == out.axis || longest == ContractionView::points(view.depth);
  for (size_t o = 0; o < 2; ++o) {
    const ViewOperand& old = *operands[o];
    const int64_t vector = whole_vector_of(old.load->dtype, longest);
    out.copied[o] = !old.along_depth || !same_order || old.vector < vector;
    if (out.copied[o])
      (o == 0 ? out.view.row_operand : out.view.col_operand) = {old.load, true, vector};
  }
  if (!out.copied[0] && !out.copied[1]) return {};
  return out;
}

}  // namespace heddle::meta
