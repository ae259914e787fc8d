#include <algorithm>
#include <unordered_map>

#include "heddle/ir/simplify.h"
#include "lower/passes.h"

namespace heddle::lowering {
namespace {

// Whether the store and the load access the same element.
template <class A>
bool same_place(const A& a, const Store& b) {
  if (!(a.buffer == b.buffer) || a.indices.size() != b.indices.size()) return false;
  for (size_t d = 0; d < a.indices.size(); ++d) {
    if (!equal(a.indices[d], b.indices[d])) return false;
  }
  return true;
}

using Counts = std::unordered_map<const ExprNode*, int>;  // of shared nodes

// How often `e` reads the place that `s` writes; 2 stands for any larger number. Returns -1 where
// `e` reads the buffer at any other place, or under a select, where the value would be computed in
// vain.
int reads_of(const Expr& e, const Store& s, Counts& counts) {
  if (const auto it = counts.find(e.get()); it != counts.end()) return it->second;
  if (const Load* load = e.as<Load>(); load && load->buffer == s.buffer)
    return same_place(*load, s) ? 1 : -1;
  int n = 0;
  for_each_child(e, [&](const Expr& c) {
    const int r = reads_of(c, s, counts);
    n = r < 0 || n < 0 ? -1 : std::min(2, n + r);
  });
  if (n > 0 && e.kind() == ExprKind::Select) n = -1;
  if (e->shared()) counts.emplace(e.get(), n);
  return n;
}

int reads_of(const Expr& e, const Store& s) {
  Counts counts;
  return reads_of(e, s, counts);
}

Expr put(const Expr& e, const Store& s, RewriteMemo& memo) {
  return memo(e, [&](const Expr& x) {
    if (const Load* load = x.as<Load>(); load && same_place(*load, s)) return s.value;
    return map_children(x, [&](const Expr& c) { return put(c, s, memo); });
  });
}

}  // namespace

Stmt merge_updates(const Stmt& s) {
  if (!s) return s;
  Stmt r = map_children(
      s, [](const Stmt& c) { return merge_updates(c); }, [](const Expr& e) { return e; });
  const Block* block = r.as<Block>();
  if (!block) return r;
  std::vector<Stmt> out;
  for (const Stmt& c : block->stmts) {
    const Store* now = c.as<Store>();
    const Store* last = out.empty() ? nullptr : out.back().as<Store>();
    // The merged value is evaluated once, so it may be read only once. It must not change other
    // reads of the later statement, so that statement may read no other element of the buffer.
    if (now && last && same_place(*last, *now) && reads_of(now->value, *last) == 1) {
      RewriteMemo memo;
      out.back() = make_store(now->buffer, now->indices, put(now->value, *last, memo), now->hint);
    } else {
      out.push_back(c);
    }
  }
  return out.size() == block->stmts.size() ? r : make_block(std::move(out));
}

}  // namespace heddle::lowering
