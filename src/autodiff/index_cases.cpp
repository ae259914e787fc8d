#include "autodiff/index_cases.h"

#include <utility>

#include "heddle/dsl/tensor.h"
#include "heddle/ir/simplify.h"
#include "ir/linear.h"
#include "ir/replace.h"

namespace heddle::autodiff {
namespace {

constexpr size_t kMostCases = 16;

/// A read at its indices under conditions.
struct Case {
  std::vector<Expr> indices, conditions;
};

struct Choice {
  Expr node, condition, yes, no;  ///< `node` is `yes` where the condition holds, else `no`
};

/// The innermost min, max or select below `e`; its `node` is null where there is none.
Choice choice_in(const Expr& e) {
  Choice found;
  for_each_child(e, [&](const Expr& c) {
    if (!found.node.defined()) found = choice_in(c);
  });
  if (found.node.defined()) return found;
  if (const Select* s = e.as<Select>()) return {e, s->condition, s->on_true, s->on_false};
  const Binary* b = e.as<Binary>();
  if (b && b->op == BinaryOp::Min) return {e, b->a <= b->b, b->a, b->b};
  if (b && b->op == BinaryOp::Max) return {e, b->a >= b->b, b->a, b->b};
  return {};
}

/// Adds the cases of dimension `d` of `from`, as long as there are not too many.
void split(const Case& from, size_t d, std::vector<Case>* to) {
  if (to->size() > kMostCases) return;
  const Choice choice = has_load(from.indices[d]) ? Choice{} : choice_in(from.indices[d]);
  if (!choice.node.defined()) {
    to->push_back(from);
    return;
  }
  for (const bool holds : {true, false}) {
    Case arm = from;
    arm.indices[d] =
        simplify(replace_equal(arm.indices[d], choice.node, holds ? choice.yes : choice.no));
    arm.conditions.push_back(holds ? choice.condition : !choice.condition);
    split(arm, d, to);
  }
}

}  // namespace

void add_cases(const ReadDerivative& d, std::vector<ReadDerivative>* cases) {
  const Load& load = *d.read.as<Load>();
  std::vector<Case> all{{load.indices, {}}};
  for (size_t dim = 0; dim < load.indices.size(); ++dim) {
    std::vector<Case> next;
    for (const Case& c : all) split(c, dim, &next);
    if (next.size() > kMostCases) {
      cases->push_back(d);
      return;
    }
    all = std::move(next);
  }
  for (const Case& c : all) {
    Expr value = d.value;
    for (const Expr& condition : c.conditions)
      value = select(simplify(condition), value, make_const(value.dtype(), 0));
    if (!is_const(value, 0)) cases->push_back({make_load(load.buffer, c.indices), value});
  }
}

}  // namespace heddle::autodiff
