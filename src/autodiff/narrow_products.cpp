#include "autodiff/narrow_products.h"

#include <algorithm>
#include <utility>

#include "autodiff/derivative.h"
#include "autodiff/gather.h"

namespace heddle::autodiff {
namespace {

/// The type of a 16-bit value that `e` converts to f32; nothing else.
std::optional<DataType> narrow_type(const Expr& e) {
  const Cast* c = e.as<Cast>();
  const bool is_it =
      c && c->dtype == f32 && c->value.dtype().is_float() && c->value.dtype().bits == 16;
  return is_it ? std::optional(c->value.dtype()) : std::nullopt;
}

/// The type of the operands of a sum of products, each of which has an axis that the other lacks.
std::optional<DataType> operand_type(const Operation& op) {
  const Reduce* r = op.bodies()[0].as<Reduce>();
  if (!r || r->combiner->kind != ReduceKind::Sum) return {};
  const Binary* mul = r->sources[0].as<Binary>();
  if (!mul || mul->op != BinaryOp::Mul || mul->dtype != f32) return {};
  const std::optional<DataType> a = narrow_type(mul->a), b = narrow_type(mul->b);
  const auto has_own = [&](const Expr& x, const Expr& other) {
    return std::ranges::any_of(op.axes(), [&](const Axis& i) {
      return uses_var(x, i.var()) && !uses_var(other, i.var());
    });
  };
  return a && a == b && has_own(mul->a, mul->b) && has_own(mul->b, mul->a) ? a : std::nullopt;
}

void add_factors(const Expr& e, std::vector<Expr>* to) {
  if (const Binary* b = e.as<Binary>(); b && b->op == BinaryOp::Mul) {
    add_factors(b->a, to);
    add_factors(b->b, to);
  } else {
    to->push_back(e);
  }
}

std::vector<Expr> factors_of(const Expr& e) {
  std::vector<Expr> all;
  add_factors(e, &all);
  return all;
}

/// Whether the body is an element of 16 bits times reads of f32 that lack one of its axes.
bool is_scaled(const Operation& op, DataType type) {
  int narrow = 0;
  for (const Expr& f : factors_of(op.bodies()[0])) {
    const bool element = narrow_type(f) == type && f.as<Cast>()->value.kind() == ExprKind::Load;
    if (element && ++narrow == 1) continue;
    if (is_const(f)) continue;
    const bool is_factor =
        f.kind() == ExprKind::Load && std::ranges::any_of(op.axes(), [&](const Axis& i) {
          return !is_const(i->extent, 1) && !uses_var(f, i.var());
        });
    if (!is_factor) return false;
  }
  return narrow == 1;
}

Expr product(const std::vector<Expr>& factors) {
  Expr all;
  for (const Expr& f : factors) all = all.defined() ? all * f : f;
  return all;
}

/// The 16-bit value that `e` converts, times `factor`, rounded: a stage over the indices at which it is
/// read. Null where those are not the dimensions of a tensor.
Expr scaled(const Expr& e, const Expr& factor, const std::vector<VarBinding>& extents,
            const Where& where) {
  const Load* load = e.as<Cast>()->value.as<Load>();
  if (!load) return {};
  std::vector<VarBinding> dims;
  for (const Expr& i : load->indices) {
    if (is_const(i)) continue;
    const auto extent =
        std::ranges::find_if(extents, [&](const VarBinding& v) { return v.var.get() == i.get(); });
    const auto same = [&](const VarBinding& v) { return v.var.get() == i.get(); };
    if (extent == extents.end() || std::ranges::any_of(dims, same)) return {};
    dims.push_back(*extent);
  }
  for (const VarBinding& v : extents) {
    const auto same = [&](const VarBinding& d) { return d.var.same_as(v.var); };
    if (uses_var(factor, v.var) && std::ranges::none_of(dims, same)) return {};
  }
  Shape shape;
  std::vector<Expr> at;
  for (const VarBinding& d : dims) {
    shape.push_back(d.value);
    at.emplace_back(d.var);
  }
  const Tensor t = tensor_of(load->buffer);
  return cast(f32, compute(
                       shape,
                       [&](const std::vector<Axis>& i) {
                         std::vector<VarBinding> by;
                         for (size_t d = 0; d < i.size(); ++d)
                           by.push_back({dims[d].var, Expr(i[d])});
                         return cast(t.dtype(), substitute(e * factor, by));
                       },
                       t.name() + ".scaled", "gradient", where)
                       .at(at));
}

}  // namespace

Expr narrow_head(const Operation& op, const Tensor& given, const Expr& head) {
  const std::optional<DataType> type = operand_type(op);
  if (!type || head.dtype() != f32) return head;
  Expr value = head;
  const Operation& from = *given.op();
  const Load* load = head.as<Load>();
  if (load && tensor_of(load->buffer).same_as(given) && !from.is_placeholder() &&
      !from.is_reduction() && from.num_outputs() == 1) {
    std::vector<VarBinding> by;
    for (size_t d = 0; d < load->indices.size(); ++d)
      by.push_back({from.axes()[d].var(), load->indices[d]});
    const Expr body = substitute(from.bodies()[0], by);
    if (is_scaled(from, *type)) return body;
    if (narrow_type(body) == type) value = body;
  }
  // What is narrow already, but no element of a tensor, such as a choice, becomes one: a product has two
  // operands that kernels load.
  const bool narrow = narrow_type(value) == type;
  if (narrow) value = value.as<Cast>()->value;
  if (narrow && value.kind() == ExprKind::Load) return cast(f32, value);
  const std::vector<Expr> at(op.axes().begin(), op.axes().end());
  const Tensor rounded = compute(
      given.shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<VarBinding> by;
        for (size_t d = 0; d < i.size(); ++d) by.push_back({op.axes()[d].var(), Expr(i[d])});
        return cast(*type, substitute(value, by));
      },
      given.name() + ".rounded", "gradient", op.where());
  return cast(f32, rounded.at(at));
}

std::optional<NarrowProduct> narrow_product(const Expr& value,
                                            const std::vector<Position>& positions,
                                            const std::vector<Loop>& loops, const Where& where) {
  std::vector<VarBinding> extents;
  for (const Position& p : positions) extents.push_back({p.var, p.extent});
  for (const Loop& l : loops) extents.push_back({l.var, l.extent});
  std::vector<Expr> narrow, outside, inside;
  for (const Expr& f : factors_of(value)) {
    const auto in_loop = [&](const Loop& l) { return uses_var(f, l.var); };
    if (narrow_type(f))
      narrow.push_back(f);
    else
      (std::ranges::any_of(loops, in_loop) ? inside : outside).push_back(f);
  }
  if (narrow.size() != 2 || narrow_type(narrow[0]) != narrow_type(narrow[1])) return {};
  if (inside.empty() && outside.empty()) return {};
  // The last factor is the operand of the product that was differentiated, the first its gradient.
  if (!inside.empty()) narrow[1] = scaled(narrow[1], product(inside), extents, where);
  if (!narrow[1].defined()) return {};
  return NarrowProduct{narrow[0] * narrow[1], product(outside)};
}

}  // namespace heddle::autodiff
