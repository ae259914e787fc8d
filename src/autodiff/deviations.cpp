#include "autodiff/deviations.h"

#include <algorithm>

#include "heddle/dsl/tensor.h"
#include "heddle/ir/simplify.h"

namespace heddle::autodiff {
namespace {

class Deviations {
 public:
  explicit Deviations(const std::vector<Loop>& loops) : loops_(loops) {}

  bool are_summed(const Expr& e) const {
    if (const Unary* u = e.as<Unary>()) return u->op == UnaryOp::Neg && are_summed(u->a);
    const Binary* b = e.as<Binary>();
    if (!b || !b->dtype.is_float()) return false;
    switch (b->op) {
      case BinaryOp::Add: return are_summed(b->a) && are_summed(b->b);
      case BinaryOp::Sub: return is_deviation(b->a, b->b) || (are_summed(b->a) && are_summed(b->b));
      case BinaryOp::Mul:
        return (is_constant(b->a) && are_summed(b->b)) || (is_constant(b->b) && are_summed(b->a));
      case BinaryOp::Div: return is_constant(b->b) && are_summed(b->a);
      default: return false;
    }
  }

 private:
  bool is_constant(const Expr& e) const {
    return std::ranges::none_of(loops_, [&](const Loop& l) { return uses_var(e, l.var); });
  }

  /// What a load of one element of a stage reads there; null where it is none.
  static Expr read_by(const Expr& e) {
    const Load* load = e.as<Load>();
    const Operation* op = load ? tensor_of(load->buffer).op() : nullptr;
    if (!op || op->is_placeholder() || op->num_outputs() != 1) return {};
    std::vector<VarBinding> by;
    for (size_t d = 0; d < load->indices.size(); ++d)
      by.push_back({op->axes()[d].var(), load->indices[d]});
    return substitute(op->bodies()[0], by);
  }

  /// Whether `mean` is the mean of `element` over the loops.
  bool is_deviation(const Expr& element, const Expr& mean) const {
    if (!is_constant(mean)) return false;
    double count = 1;
    for (const Loop& l : loops_) {
      const int64_t* extent = as_int(l.extent);
      if (!extent) return false;
      count *= static_cast<double>(*extent);
    }
    const Expr body = read_by(mean);
    const Binary* scaled = body.defined() ? body.as<Binary>() : nullptr;
    const FloatImm* by = scaled ? scaled->b.as<FloatImm>() : nullptr;
    return by && scaled->op == BinaryOp::Div && by->value == count &&
           is_sum(read_by(scaled->a), element);
  }

  /// Whether `e` is the sum of `element` over the loops.
  bool is_sum(const Expr& e, const Expr& element) const {
    const Reduce* r = e.defined() ? e.as<Reduce>() : nullptr;
    if (!r || r->combiner->kind != ReduceKind::Sum || r->axes.size() != loops_.size()) return false;
    std::vector<VarBinding> by;
    for (size_t l = 0; l < loops_.size(); ++l) {
      if (!equal(r->axes[l]->extent, loops_[l].extent)) return false;
      by.push_back({r->axes[l].var(), loops_[l].var.expr()});
    }
    return equal(simplify(substitute(r->sources[0], by)), simplify(element));
  }

  const std::vector<Loop>& loops_;
};

}  // namespace

bool sums_deviations(const Expr& value, const std::vector<Loop>& loops) {
  return !loops.empty() && Deviations(loops).are_summed(value);
}

}  // namespace heddle::autodiff
