// Reverse accumulation over the graph of an expression. The arms of a select are differentiated on
// their own and their results are put into a select, so that a derivative that is infinite where an
// arm is not taken is never multiplied by 0.
#include "autodiff/derivative.h"

#include <algorithm>
#include <unordered_map>

#include "autodiff/local_rules.h"
#include "heddle/dsl/tensor.h"

namespace heddle::autodiff {

Expr both_of(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return logical_and(a, b);
}

Expr sum_of(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return a + b;
}

Expr product_of(const Expr& a, const Expr& b) {
  if (!a.defined() || !b.defined() || is_const(a, 0) || is_const(b, 0)) return {};
  if (is_const(a, 1)) return b;
  if (is_const(b, 1)) return a;
  return a * b;
}

namespace {

using Derivatives = std::vector<ReadDerivative>;

class Active {
 public:
  explicit Active(Wanted wanted) : wanted_(wanted) {}

  bool operator()(const Expr& e) {
    if (!e.dtype().is_float()) return false;
    if (const Load* load = e.as<Load>()) return wanted_(*load);
    if (SeenNodes::is_leaf(e)) return false;
    if (const auto it = known_.find(e.get()); it != known_.end()) return it->second;
    bool any = false;
    for_each_child(e, [&](const Expr& c) { any = any || (*this)(c); });
    return known_.emplace(e.get(), any).first->second;
  }

 private:
  Wanted wanted_;
  std::unordered_map<const ExprNode*, bool> known_;
};

void add_to(Derivatives* all, const Expr& read, const Expr& value) {
  if (!value.defined() || is_const(value, 0)) return;
  for (ReadDerivative& d : *all) {
    if (!equal(d.read, read)) continue;
    d.value = sum_of(d.value, value);
    return;
  }
  all->push_back({read, value});
}

/// The derivatives of a select from those of its arms.
Derivatives selected(const Expr& condition, const Derivatives& yes, const Derivatives& no) {
  Derivatives result;
  std::vector<bool> used(no.size(), false);
  for (const ReadDerivative& d : yes) {
    Expr other = make_const(d.value.dtype(), 0);
    for (size_t i = 0; i < no.size(); ++i) {
      if (used[i] || !equal(no[i].read, d.read)) continue;
      used[i] = true;
      other = no[i].value;
    }
    result.push_back({d.read, select(condition, d.value, other)});
  }
  for (size_t i = 0; i < no.size(); ++i) {
    if (!used[i])
      result.push_back(
          {no[i].read, select(condition, make_const(no[i].value.dtype(), 0), no[i].value)});
  }
  return result;
}

class Differentiator {
 public:
  explicit Differentiator(Wanted wanted) : active_(wanted) {}

  Derivatives run(const Expr& e, const Expr& head, const Expr& itself) {
    Derivatives result;
    if (!active_(e)) return result;
    std::vector<Expr> order;
    std::unordered_map<const ExprNode*, bool> listed;
    list(e, &listed, &order);
    std::unordered_map<const ExprNode*, Expr> adjoint{{e.get(), head}};
    for (size_t n = order.size(); n-- > 0;) {
      const Expr& node = order[n];
      const auto it = adjoint.find(node.get());
      if (it == adjoint.end() || !it->second.defined()) continue;
      const Expr g = it->second;
      if (node.kind() == ExprKind::Load) {
        add_to(&result, node, g);
      } else if (const Select* s = node.as<Select>()) {
        for (const ReadDerivative& d :
             selected(s->condition, run(s->on_true, g, {}), run(s->on_false, g, {})))
          add_to(&result, d.read, d.value);
      } else {
        const Expr value = node.same_as(e) && itself.defined() ? itself : node;
        for (const OperandDerivative& d : operand_derivatives(node, g, value)) {
          if (!active_(d.operand)) continue;
          Expr& sum = adjoint[d.operand.get()];
          sum = sum_of(sum, d.value);
        }
      }
    }
    return result;
  }

 private:
  /// The nodes that carry a derivative, operands first. The arms of selects are not entered.
  void list(const Expr& e, std::unordered_map<const ExprNode*, bool>* listed,
            std::vector<Expr>* order) {
    if (!active_(e) || !listed->emplace(e.get(), true).second) return;
    if (e.kind() != ExprKind::Select && e.kind() != ExprKind::Load)
      for_each_child(e, [&](const Expr& c) { list(c, listed, order); });
    // Rules may pass a derivative on to the operand of an operand, which is listed by then.
    order->push_back(e);
  }

  Active active_;
};

}  // namespace

bool is_differentiable(const Expr& e, Wanted wanted) { return Active(wanted)(e); }

std::vector<ReadDerivative> differentiate(const Expr& e, const Expr& head, const Expr& itself,
                                          Wanted wanted) {
  return Differentiator(wanted).run(e, head, itself);
}

}  // namespace heddle::autodiff
