#include "ir/reads.h"

#include <unordered_set>

namespace heddle {

bool stays_inside(const Load& load, const Ranges& ranges) {
  const std::vector<Expr>& shape = load.buffer->shape;
  double elements = 1;
  for (const Expr& extent : shape) {
    const int64_t* n = as_int(extent);
    if (!n) return false;
    elements *= static_cast<double>(*n);
  }
  const bool flat = load.indices.size() == 1;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    const Interval r = range_of(load.indices[d], ranges);
    const double extent = flat ? elements : static_cast<double>(*as_int(shape[d]));
    if (r.min < 0 || !r.bounded() || static_cast<double>(r.max) >= extent) return false;
  }
  return true;
}

double tree_size(const Expr& e, TreeSizes& of_shared) {
  const bool remember = e->shared() && !SeenNodes::is_leaf(e);
  if (remember) {
    if (const auto it = of_shared.find(e.get()); it != of_shared.end()) return it->second;
  }
  double n = 1;
  for_each_child(e, [&](const Expr& child) { n += tree_size(child, of_shared); });
  if (remember) of_shared.emplace(e.get(), n);
  return n;
}

namespace {

void collect_certain(const Expr& e, FunctionRef<bool(const Expr&)> known, SeenNodes& seen,
                     std::vector<Expr>& out) {
  if (SeenNodes::is_leaf(e) || !seen.first(e) || known(e)) return;
  const Binary* b = e.as<Binary>();
  if (const Select* select = e.as<Select>()) {
    collect_certain(select->condition, known, seen, out);
  } else if (b && (b->op == BinaryOp::And || b->op == BinaryOp::Or)) {
    collect_certain(b->a, known, seen, out);
  } else {
    for_each_child(e, [&](const Expr& child) { collect_certain(child, known, seen, out); });
  }
  if (e->shared()) out.push_back(e);
}

}  // namespace

std::vector<Expr> computed_by_both(const Expr& a, const Expr& b,
                                   FunctionRef<bool(const Expr&)> known) {
  std::vector<Expr> of_a, of_b, out;
  SeenNodes seen_a, seen_b;
  collect_certain(a, known, seen_a, of_a);
  if (of_a.empty()) return out;
  collect_certain(b, known, seen_b, of_b);
  std::unordered_set<const ExprNode*> others;
  for (const Expr& e : of_b) others.insert(e.get());
  for (const Expr& e : of_a) {
    if (others.contains(e.get())) out.push_back(e);
  }
  return out;
}

bool is_large_tree(const Expr& e) {
  TreeSizes of_shared;
  return tree_size(e, of_shared) > 20000;
}

}  // namespace heddle
