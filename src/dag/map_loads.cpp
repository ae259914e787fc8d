#include "dag/map_loads.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace heddle::dag {
namespace {

using Memo = std::unordered_map<const ExprNode*, Expr>;

/// Whether both read the same element, so that what reads it needs no copy.
bool same_read(const Load& a, const Expr& other) {
  const Load* b = other.as<Load>();
  return b != nullptr && a.buffer == b->buffer &&
         std::ranges::equal(a.indices, b->indices,
                            [](const Expr& x, const Expr& y) { return x.same_as(y); });
}

Expr map_loads(const Expr& e, FunctionRef<Expr(const Load&)> fn, Memo& memo) {
  if (const auto it = memo.find(e.get()); it != memo.end()) return it->second;
  Expr out = map_children(e, [&](const Expr& c) { return map_loads(c, fn, memo); });
  if (const Load* load = out.as<Load>()) {
    Expr now = fn(*load);
    if (!same_read(*load, now)) out = std::move(now);
  }
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
