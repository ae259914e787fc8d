#include "codegen/llvm/loop_work.h"

#include <vector>

#include "heddle/ir/simplify.h"
#include "ir/linear.h"
#include "ir/op_class.h"

namespace heddle::codegen {
namespace {

double operations(const Expr& e);

double operations_below(const Expr& e) {
  double sum = 0;
  (void)map_children(e, [&](const Expr& child) {
    sum += operations(child);
    return child;
  });
  return sum;
}

// Of one lane, without those that compute indices.
double operations(const Expr& e) {
  if (e.kind() == ExprKind::Load || e.dtype().element() == i64) return 0;
  double own = 0;
  if (const Unary* u = e.as<Unary>()) own = is_slow(op_class(u->op)) ? kSlowOperation : 1;
  if (const Binary* b = e.as<Binary>()) own = is_slow(op_class(b->op)) ? kSlowOperation : 1;
  return own + operations_below(e);
}

class Work {
 public:
  Expr of(const For& loop) {
    const Expr times = at_first(loop.extent);
    if (!times.defined()) return number(kLeastParallelWork);  // nothing says that it is little
    first_.push_back({loop.var, make_const(loop.var->dtype, 0)});
    const Expr each = of(loop.body);
    first_.pop_back();
    return simplify(cast(f64, times) * each);
  }

 private:
  Expr of(const Stmt& s) {
    if (!s) return number(0);
    switch (s.kind()) {
      case StmtKind::For: return of(*s.as<For>());
      case StmtKind::Store: {
        const Expr& value = s.as<Store>()->value;
        return number(value.dtype().lanes * (1 + operations(value)));
      }
      case StmtKind::If: return of(*s.as<If>());
      case StmtKind::Block: {
        Expr sum = number(0);
        for (const Stmt& part : s.as<Block>()->stmts) sum = simplify(sum + of(part));
        return sum;
      }
      case StmtKind::Let: return of(*s.as<Let>());
      case StmtKind::Allocate: return of(s.as<Allocate>()->body);
      case StmtKind::Prefetch:
      case StmtKind::Sync:
      case StmtKind::TileOp: break;
    }
    return number(0);
  }

  Expr of(const If& s) {
    const Expr a = of(s.then_body), b = of(s.else_body);
    if (s.condition.dtype().is_vector() || equal(a, b)) return a;
    const Expr condition = at_first(s.condition);
    return condition.defined() ? simplify(make_select(condition, a, b)) : simplify(max(a, b));
  }

  Expr of(const Let& s) {
    const Expr known = s.value.dtype() == i64 ? at_first(s.value) : Expr();
    first_.push_back({s.var, known.defined() ? known : make_const(s.var->dtype, 0)});
    Expr all = of(s.body);
    first_.pop_back();
    return all;
  }

  // `e` in the first iteration of all loops around it; null where memory says what it is.
  Expr at_first(const Expr& e) const {
    return has_load(e) ? Expr() : simplify(substitute(e, first_));
  }
  static Expr number(double value) { return make_const(f64, value); }

  std::vector<VarBinding> first_;  ///< the values of variables of the loop
};

}  // namespace

Expr work_of(const For& loop) { return Work().of(loop); }

}  // namespace heddle::codegen
