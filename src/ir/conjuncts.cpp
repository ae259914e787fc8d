#include "ir/conjuncts.h"

namespace heddle {

void add_conjuncts(const Expr& condition, std::vector<Expr>& to) {
  const Binary* b = condition.as<Binary>();
  if (!b || b->op != BinaryOp::And) {
    to.push_back(condition);
    return;
  }
  add_conjuncts(b->a, to);
  add_conjuncts(b->b, to);
}

}  // namespace heddle
