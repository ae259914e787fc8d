#include <algorithm>

#include "heddle/ir/simplify.h"
#include "ir/linear.h"

namespace heddle {
namespace {

bool all_cancelled(const Affine& a) {
  return std::all_of(a.terms.begin(), a.terms.end(),
                     [](const Affine::Term& t) { return t.coefficient == 0; });
}

class Collector {
 public:
  /// Adds `times * e` to `out`. Returns false where `e` is not affine.
  bool collect(const Expr& e, int64_t times, Affine& out) {
    if (--budget_ < 0) return false;
    int64_t k;
    if (const IntImm* imm = e.as<IntImm>()) {
      return !__builtin_mul_overflow(imm->value, times, &k) &&
             !__builtin_add_overflow(out.constant, k, &out.constant);
    }
    if (e.kind() == ExprKind::Var) {
      for (Affine::Term& t : out.terms) {
        if (t.var.get() == e.get()) {
          return !__builtin_add_overflow(t.coefficient, times, &t.coefficient);
        }
      }
      out.terms.push_back({Var::from(e), times});
      return true;
    }
    if (const Unary* u = e.as<Unary>(); u && u->op == UnaryOp::Neg) {
      return !__builtin_mul_overflow(times, int64_t{-1}, &k) && collect(u->a, k, out);
    }
    const Binary* b = e.as<Binary>();
    if (!b) return false;
    switch (b->op) {
      case BinaryOp::Add: return collect(b->a, times, out) && collect(b->b, times, out);
      case BinaryOp::Sub:
        return collect(b->a, times, out) && !__builtin_mul_overflow(times, int64_t{-1}, &k) &&
               collect(b->b, k, out);
      case BinaryOp::Mul:
        for (const auto& [x, y] : {std::pair{&b->a, &b->b}, std::pair{&b->b, &b->a}}) {
          Affine factor;
          if (!collect(*y, 1, factor) || !all_cancelled(factor)) continue;
          return !__builtin_mul_overflow(times, factor.constant, &k) && collect(*x, k, out);
        }
        return false;
      default: return false;
    }
  }

 private:
  int budget_ = 4000;  // nodes to visit, because the tree of a graph may be exponentially larger
};

}  // namespace

int64_t Affine::coefficient(const Var& v) const {
  for (const Term& t : terms) {
    if (t.var.same_as(v)) return t.coefficient;
  }
  return 0;
}

std::optional<Affine> as_affine(const Expr& e) {
  if (!e.defined() || e.dtype() != i64) return std::nullopt;
  Affine out;
  if (!Collector().collect(e, 1, out)) return std::nullopt;
  std::erase_if(out.terms, [](const Affine::Term& t) { return t.coefficient == 0; });
  return out;
}

}  // namespace heddle
