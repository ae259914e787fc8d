#include "dag/map_loads.h"

#include <unordered_map>

namespace heddle::dag {
namespace {

using Memo = std::unordered_map<const ExprNode*, Expr>;

Expr map_loads(const Expr& e, FunctionRef<Expr(const Load&)> fn, Memo& memo) {
  if (const auto it = memo.find(e.get()); it != memo.end()) return it->second;
  Expr out = map_children(e, [&](const Expr& c) { return map_loads(c, fn, memo); });
  if (const Load* load = out.as<Load>()) out = fn(*load);
  memo.emplace(e.get(), out);
  return out;
}

}  // namespace

std::vector<Expr> map_loads(const std::vector<Expr>& bodies, FunctionRef<Expr(const Load&)> fn) {
  Memo memo;
  std::vector<Expr> out;
  for (const Expr& body : bodies) out.push_back(map_loads(body, fn, memo));
  return out;
}

}  // namespace heddle::dag
