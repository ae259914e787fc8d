// rewrite: for i { S[i] = 0  for k { S[i] = S[i] + select(k <= i, x[k], 0) } }
//      --> local total = 0  for i { total = total + x[i]  S[i] = total }
// and the same from the end (k <= n - 1 - i), and without the point itself (k < i). Between the
// loop over i and the stores there may be further loops, whose points have a total each: vectors,
// unrolled rows.
//
// The same elements are combined in the same order. Only the identity, which the select gave where
// its condition did not hold, is combined less often, and an identity changes no result.
#include <algorithm>
#include <functional>
#include <optional>

#include "heddle/ir/simplify.h"
#include "ir/conjuncts.h"
#include "lower/passes.h"

namespace heddle::lowering {
namespace {

/// A store at the bottom of loops, and these loops, outermost first.
struct Nest {
  std::vector<const For*> loops;
  const Store* store = nullptr;
};

/// The stores of `s`, one after the other; false where there is anything else.
bool collect_nests(const Stmt& s, std::vector<const For*> loops, std::vector<Nest>& out) {
  if (const Block* b = s.as<Block>()) {
    return loops.empty() && std::all_of(b->stmts.begin(), b->stmts.end(),
                                        [&](const Stmt& c) { return collect_nests(c, {}, out); });
  }
  if (const For* f = s.as<For>()) {
    if (!as_int(f->extent)) return false;
    loops.push_back(f);
    return collect_nests(f->body, std::move(loops), out);
  }
  if (!s.as<Store>()) return false;
  out.push_back({std::move(loops), s.as<Store>()});
  return true;
}

bool all_equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); });
}

/// The parts of the loop over i.
class Scan {
 public:
  explicit Scan(const For& loop) : i_(loop) {}

  /// The rewritten loop; null where the loop cannot be rewritten.
  Stmt rewritten() {
    if (!match()) return {};
    std::vector<Stmt> first, each;
    std::vector<Buffer> totals;
    for (size_t n = 0; n < inits_.size(); ++n) {
      init_ = inits_[n];
      update_ = updates_[n];
      totals.push_back(add_total(first, each));
    }
    Stmt s = make_block({make_block(std::move(first)), make_for(i_.var, i_.extent, LoopKind::Serial,
                                                                make_block(std::move(each)))});
    for (const Buffer& total : totals) s = make_allocate(total, std::move(s));
    return s;
  }

 private:
  /// Whether a select chooses by both i and k. Most loops fail this test and are left alone.
  bool may_be_one() const {
    const Block* b = i_.body.as<Block>();
    if (i_.loop != LoopKind::Serial || !b || b->stmts.empty()) return false;
    const For* k = b->stmts.back().as<For>();
    if (!k || k->loop != LoopKind::Serial) return false;
    bool found = false;
    visit(
        k->body, [](const Stmt&) {},
        [&](const Expr& e) {
          const Select* s = found ? nullptr : e.as<Select>();
          found |= s && uses_var(s->condition, i_.var) && uses_var(s->condition, k->var);
        });
    return found;
  }

  bool match() {
    if (!may_be_one()) return false;
    // Unrolled rows and vectors each have a total, so each copy of the body is matched.
    body_ = simplify(unroll(i_.body, kMostCopies));
    const Block* b = body_.as<Block>();
    k_ = b && !b->stmts.empty() ? b->stmts.back().as<For>() : nullptr;
    if (!k_ || k_->loop != LoopKind::Serial || !as_int(k_->extent)) return false;
    for (size_t n = 0; n + 1 < b->stmts.size(); ++n) {
      if (!collect_nests(b->stmts[n], {}, inits_)) return false;
    }
    if (!collect_nests(k_->body, {}, updates_) || inits_.size() != updates_.size()) return false;
    for (size_t n = 0; n < inits_.size(); ++n) {
      init_ = inits_[n];
      update_ = updates_[n];
      const bool backward = backward_, exclusive = exclusive_;
      if (init_.loops.size() != update_.loops.size() || !same_places() || !match_value())
        return false;
      if (n > 0 && (backward != backward_ || exclusive != exclusive_)) return false;
    }
    return !inits_.empty();
  }

  /// The statements of one store: the first value of its total, and the work for each i.
  Buffer add_total(std::vector<Stmt>& first, std::vector<Stmt>& each) const {
    std::vector<Expr> shape, at;
    for (const For* f : update_.loops) {
      shape.push_back(f->extent);
      at.emplace_back(f->var);
    }
    if (shape.empty()) {
      shape.emplace_back(1);
      at.emplace_back(0);
    }
    const Buffer& result = update_.store->buffer;
    const Buffer total = Buffer::make(result->name + ".total", result->dtype, shape, Scope::Local);
    // The loop runs from where the scan begins.
    const Expr place = backward_ ? i_.extent - 1 - i_.var.expr() : i_.var.expr();
    RewriteMemo memo;
    // The combined value does not depend on i, and its k is the number of the iteration.
    const Expr value = substitute(next_total(update_.store->value, make_load(total, at), memo),
                                  {{k_->var, i_.var.expr()}});
    std::vector<Expr> indices;
    for (const Expr& x : update_.store->indices)
      indices.push_back(substitute(x, {{i_.var, place}}));
    const Stmt add = make_store(total, at, value);
    const Stmt out = make_store(result, indices, make_load(total, at), update_.store->hint);
    first.push_back(within(make_store(total, at, init_.store->value)));
    each.push_back(within(exclusive_ ? make_block({out, add}) : make_block({add, out})));
    return total;
  }

  /// Whether both store to the same places, in the same loops.
  bool same_places() const {
    const Store &a = *init_.store, &b = *update_.store;
    if (!(a.buffer == b.buffer) || a.indices.size() != b.indices.size() || !is_const(a.value))
      return false;
    std::vector<VarBinding> to;
    for (size_t l = 0; l < init_.loops.size(); ++l) {
      if (!equal(init_.loops[l]->extent, update_.loops[l]->extent)) return false;
      to.push_back({init_.loops[l]->var, update_.loops[l]->var.expr()});
    }
    for (size_t d = 0; d < a.indices.size(); ++d) {
      if (uses_var(b.indices[d], k_->var) ||
          !equal(simplify(substitute(a.indices[d], to)), simplify(b.indices[d])))
        return false;
    }
    return true;
  }

  /// Finds the condition. Checks that, once the condition is decided, the value depends on k only
  /// through what the select gives, and reads the buffer only where it stores.
  bool match_value() {
    const Var self("self", update_.store->buffer->dtype);
    RewriteMemo memo;
    Expr element;
    bool one = true;
    const Expr rest = without_select(update_.store->value, self, memo, element, one);
    if (!one || !element.defined() || uses_var(rest, k_->var) || uses_var(rest, i_.var))
      return false;
    if (uses_var(element, i_.var)) return false;
    return !any_below(element, reads_buffer()) && !any_below(rest, reads_buffer());
  }

  std::function<bool(const Expr&)> reads_buffer() const {
    return [this](const Expr& e) {
      const Load* load = e.as<Load>();
      return load && load->buffer == update_.store->buffer;
    };
  }

  bool is_self(const Expr& e) const {
    const Load* load = e.as<Load>();
    return load && load->buffer == update_.store->buffer &&
           load->indices.size() == update_.store->indices.size() &&
           all_equal(load->indices, update_.store->indices);
  }

  /// `value` with the element of the buffer and the select replaced by variables.
  Expr without_select(const Expr& value, const Var& self, RewriteMemo& memo, Expr& element,
                      bool& one) {
    return memo(value, [&](const Expr& e) -> Expr {
      if (is_self(e)) return self;
      if (const std::optional<Prefix> p = prefix_of(e)) {
        backward_ = p->backward;
        exclusive_ = p->exclusive;
        one &= !element.defined() || equal(element, p->element);
        element = p->element;
        return Var("element", e.dtype());
      }
      return map_children(
          e, [&](const Expr& c) { return without_select(c, self, memo, element, one); });
    });
  }

  /// `value` with the element of the buffer replaced by `total`, and with the select decided.
  Expr next_total(const Expr& value, const Expr& total, RewriteMemo& memo) const {
    return memo(value, [&](const Expr& e) -> Expr {
      if (is_self(e)) return total;
      if (const std::optional<Prefix> p = prefix_of(e)) return p->element;
      return map_children(e, [&](const Expr& c) { return next_total(c, total, memo); });
    });
  }

  /// A select that gives the elements before i (or up to i), and the identity elsewhere.
  struct Prefix {
    bool backward = false, exclusive = false;
    Expr element;
  };

  /// `e` as such a select. Its condition may be a conjunction: the simplifier makes `k <= i && 1 <=
  /// k` of an element that is itself a select. Conditions that do not compare k with i stay with
  /// the element.
  std::optional<Prefix> prefix_of(const Expr& e) const {
    const Select* s = e.as<Select>();
    if (!s || !equal(s->on_false, init_.store->value)) return std::nullopt;
    std::vector<Expr> conditions;
    add_conjuncts(s->condition, conditions);
    std::optional<Prefix> found;
    Expr rest;
    for (const Expr& c : conditions) {
      std::optional<Prefix> p = found ? std::nullopt : direction_of(c);
      if (p) {
        found = std::move(p);
      } else {
        rest = rest.defined() ? Expr(rest && c) : c;
      }
    }
    if (found)
      found->element = rest.defined() ? make_select(rest, s->on_true, s->on_false) : s->on_true;
    return found;
  }

  /// How the condition compares k with i, where it holds for all k from the first to that of i.
  std::optional<Prefix> direction_of(const Expr& condition) const {
    const Binary* c = condition.as<Binary>();
    if (!c || (c->op != BinaryOp::Le && c->op != BinaryOp::Lt) || c->a.dtype() != i64)
      return std::nullopt;
    // k <= bound
    const int64_t strict = c->op == BinaryOp::Lt ? 1 : 0;
    const Expr bound = simplify(c->b - c->a + k_->var.expr() - Expr(strict));
    const int64_t reached = *as_int(k_->extent);
    const Expr ahead = simplify(bound - i_.var.expr());
    if (is_const(ahead, 0) || is_const(ahead, -1)) {
      const bool exclusive = is_const(ahead, -1);
      if (range_of(i_.extent, {}).max > reached + (exclusive ? 1 : 0)) return std::nullopt;
      return Prefix{false, exclusive, {}};
    }
    const Expr from_end = simplify(bound + i_.var.expr() - i_.extent + Expr(1));
    if (!is_const(from_end, 0) && !is_const(from_end, -1)) return std::nullopt;
    const bool exclusive = is_const(from_end, -1);
    const int64_t* n = as_int(i_.extent);
    if (!n || *n > reached + (exclusive ? 1 : 0)) return std::nullopt;
    return Prefix{true, exclusive, {}};
  }

  Stmt within(Stmt s) const {
    for (size_t l = update_.loops.size(); l-- > 0;) {
      const For& f = *update_.loops[l];
      s = make_for(f.var, f.extent, f.loop, std::move(s));
    }
    return s;
  }

  static constexpr int kMostCopies = 1024;
  const For& i_;
  Stmt body_;  ///< the unrolled body of i_; the members below point into it
  const For* k_ = nullptr;
  std::vector<Nest> inits_, updates_;
  Nest init_, update_;  ///< the current pair
  bool backward_ = false, exclusive_ = false;
};

}  // namespace

Stmt linear_scans(const Stmt& s) {
  if (!s) return s;
  if (const For* f = s.as<For>()) {
    if (Stmt linear = Scan(*f).rewritten()) return linear;
  }
  return map_children(
      s, [](const Stmt& c) { return linear_scans(c); }, [](const Expr& e) { return e; });
}

}  // namespace heddle::lowering
