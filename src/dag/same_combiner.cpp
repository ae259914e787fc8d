#include "dag/same_combiner.h"

#include "heddle/ir/print.h"

namespace heddle::dag {

bool same_combiner(const Combiner& a, const Combiner& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.commutative != b.commutative || a.size() != b.size()) return false;
  std::vector<VarBinding> bind;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a.lhs[i]->dtype != b.lhs[i]->dtype) return false;
    bind.push_back({b.lhs[i], a.lhs[i].expr()});
    bind.push_back({b.rhs[i], a.rhs[i].expr()});
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(a.identity[i], b.identity[i]) || !equal(a.result[i], substitute(b.result[i], bind)))
      return false;
  }
  return true;
}

}  // namespace heddle::dag
