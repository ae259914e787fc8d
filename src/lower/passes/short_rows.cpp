#include <algorithm>

#include "heddle/ir/simplify.h"
#include "lower/passes.h"

namespace heddle::lowering {
namespace {

constexpr int64_t kShortRow = 8;  // the longest row that has a version of its own
constexpr int64_t kVectors = 8;   // rows of fewer whole vectors have a version for their number

/// What a nest does along rows of `n` elements.
class Rows {
 public:
  Rows(const Stmt& s, const Var& n) : n_(n) { look(s, false); }

  /// Whether the nest has several rows, vectors along them, and nothing else that takes time. The
  /// version for a few elements then has a few statements for each row, and no loop.
  bool are_all() const { return are_unrolled() && !others_; }

  /// Whether the nest has several rows and vectors along them, and no loop of constant length
  /// inside of a row. The version for some vectors then has no loop inside of a row.
  bool are_unrolled() const { return several_ && vectors_ && !loops_; }

 private:
  void look(const Stmt& s, bool along) {
    if (const For* loop = s.as<For>()) {
      const bool varies = uses_var(loop->extent, n_);
      const bool vector = loop->loop == LoopKind::Vectorized;
      several_ |= !varies && !along;
      vectors_ |= vector && varies;
      loops_ |= !varies && along && !vector && loop->loop != LoopKind::Unrolled;
      others_ |= !varies && vector && !along;
      return look(loop->body, along || varies);
    }
    (void)map_children(
        s, [&](const Stmt& c) { return look(c, along), c; }, [](const Expr& e) { return e; });
  }

  const Var& n_;
  bool several_ = false, vectors_ = false, loops_ = false, others_ = false;
};

/// Versions by the number of whole vectors of `lanes` elements, and `s` for longer rows. What is
/// left of a vector is a variable of its own.
Stmt by_vectors(const Stmt& s, const Var& n, int64_t lanes) {
  Stmt chain = s;
  const int64_t least = n->size->lo / lanes, most = std::min(kVectors - 1, n->size->hi / lanes);
  for (int64_t count = most; count >= least; --count) {
    const Var tail(n->name + ".tail", SizeRange{0, lanes - 1});
    const Stmt version = simplify(substitute(s, {{n, tail.expr() + Expr(count * lanes)}}));
    chain = make_if(n.expr() / Expr(lanes) == Expr(count),
                    make_let(tail, n.expr() % Expr(lanes), version), chain);
  }
  return chain;
}

/// Versions for rows of few elements, and `longer` for the others.
Stmt by_elements(const Stmt& s, const Var& n, const Stmt& longer) {
  const int64_t least = n->size->lo, most = std::min(kShortRow, n->size->hi);
  Stmt chain;
  for (int64_t length = most; length >= least; --length) {
    const Stmt exact = simplify(substitute(s, {{n, Expr(length)}}));
    chain = chain ? make_if(n.expr() == Expr(length), exact, chain) : exact;
  }
  return most == n->size->hi ? chain : make_if(n.expr() <= Expr(most), chain, longer);
}

}  // namespace

Stmt short_rows(const Stmt& s, const std::vector<Var>& sizes, int64_t lanes) {
  for (const Var& n : sizes) {
    const Rows rows(s, n);
    if (n->size->lo == n->size->hi || !rows.are_unrolled()) continue;
    const bool varies = lanes > 0 && n->size->lo / lanes < n->size->hi / lanes;
    const Stmt longer = varies ? by_vectors(s, n, lanes) : s;
    return rows.are_all() && n->size->lo <= kShortRow ? by_elements(s, n, longer) : longer;
  }
  return s;
}

}  // namespace heddle::lowering
