#include <algorithm>

#include "heddle/ir/simplify.h"
#include "lower/passes.h"

namespace heddle {
namespace {

constexpr int64_t kShortRow = 8;  // the longest row that has a version of its own

/// What a nest does along rows of `n` elements.
class Rows {
 public:
  Rows(const Stmt& s, const Var& n) : n_(n) { look(s, false); }

  /// Whether the nest has several rows, vectors along them, and nothing else that takes time. The
  /// version for a few elements then has a few statements for each row, and no loop.
  bool are_all() const { return several_ && vectors_ && !others_; }

 private:
  void look(const Stmt& s, bool along) {
    if (const For* loop = s.as<For>()) {
      const bool varies = uses_var(loop->extent, n_);
      const bool vector = loop->loop == LoopKind::Vectorized;
      several_ |= !varies && !along;
      vectors_ |= vector && varies;
      others_ |= !varies && (vector ? !along : along && loop->loop != LoopKind::Unrolled);
      return look(loop->body, along || varies);
    }
    (void)map_children(
        s, [&](const Stmt& c) { return look(c, along), c; }, [](const Expr& e) { return e; });
  }

  const Var& n_;
  bool several_ = false, vectors_ = false, others_ = false;
};

Stmt versions(const Stmt& s, const Var& n) {
  const int64_t least = n->size->lo, most = std::min(kShortRow, n->size->hi);
  Stmt chain;
  for (int64_t length = most; length >= least; --length) {
    const Stmt exact = simplify(substitute(s, {{n, Expr(length)}}));
    chain = chain ? make_if(n.expr() == Expr(length), exact, chain) : exact;
  }
  return most == n->size->hi ? chain : make_if(n.expr() <= Expr(most), chain, s);
}

}  // namespace

Stmt short_rows(const Stmt& s, const std::vector<Var>& sizes) {
  for (const Var& n : sizes) {
    if (n->size->lo <= kShortRow && n->size->lo < n->size->hi && Rows(s, n).are_all())
      return versions(s, n);
  }
  return s;
}

}  // namespace heddle
