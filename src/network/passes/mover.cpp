#include "network/passes/mover.h"

#include <algorithm>

#include "dag/rewrites/rewrite_parts.h"
#include "ir/linear.h"

namespace heddle::network {

const Load* moved_read(const Operation& op) {
  if (op.is_placeholder() || op.is_reduction() || op.num_outputs() != 1) return nullptr;
  const Load* load = op.bodies()[0].as<Load>();
  if (load == nullptr) return nullptr;
  return std::any_of(load->indices.begin(), load->indices.end(), has_load) ? nullptr : load;
}

std::vector<Expr> read_through(const Operation& mover, std::span<const Expr> indices,
                               const Ranges& ranges) {
  std::vector<VarBinding> bindings;
  for (size_t d = 0; d < mover.axes().size(); ++d)
    bindings.push_back({mover.axes()[d].var(), indices[d]});
  std::vector<Expr> out;
  for (const Expr& index : moved_read(mover)->indices)
    out.push_back(simplify(substitute(index, bindings), ranges));
  return out;
}

Ranges ranges_of(const Operation& op) {
  Ranges ranges;
  for (const std::vector<Axis>* list : {&op.axes(), &op.reduce_axes()}) {
    for (const Axis& a : *list)
      ranges.set(a.var(), {0, std::max<int64_t>(0, a.largest_extent() - 1)});
  }
  return ranges;
}

int composed_indices(std::span<const Expr> indices) {
  return static_cast<int>(std::count_if(indices.begin(), indices.end(), [](const Expr& e) {
    return e.kind() != ExprKind::Var && as_int(e) == nullptr;
  }));
}

bool any_division(std::span<const Expr> indices) {
  return std::any_of(indices.begin(), indices.end(), [](const Expr& e) {
    return any_below(e, [](const Expr& x) {
      const Binary* b = x.as<Binary>();
      return b != nullptr && (b->op == BinaryOp::FloorDiv || b->op == BinaryOp::FloorMod);
    });
  });
}

bool keeps_order(const Operation& mover) {
  const Load* load = moved_read(mover);
  if (load == nullptr) return false;
  const Tensor from = tensor_of(load->buffer), to = mover.output(0);
  if (!from || from.size() != to.size() || to.size() == 0) return false;
  std::vector<Expr> own;
  std::vector<VarBinding> single;  // axes of one element, which stay at 0
  for (const Axis& a : mover.axes()) {
    own.emplace_back(a);
    if (a.extent() == 1) single.push_back({a.var(), Expr(0)});
  }
  const Expr difference = dag::flatten(std::vector<Expr>(load->indices), from.extents()) -
                          dag::flatten(own, to.extents());
  return is_const(simplify(substitute(difference, single), ranges_of(mover)), 0);
}

FreshAxes::FreshAxes(const Operation& op) {
  for (const Axis& a : op.axes()) {
    axes.emplace_back(a.name(), a->extent, AxisKind::Spatial);
    bindings.push_back({a.var(), axes.back()});
  }
}

UsedAxes::UsedAxes(const Operation& op, const Expr& e) {
  for (const Axis& a : op.axes()) {
    if (!uses_var(e, a.var())) continue;
    axes.emplace_back(a.name(), a->extent, AxisKind::Spatial);
    bindings.push_back({a.var(), axes.back()});
    indices.emplace_back(a);
  }
}

}  // namespace heddle::network
