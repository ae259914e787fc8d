// rewrite: for i { S[i] = 0  for q { S[i] = S[i] + select(p[q] == i, x[q], 0) } }
//      --> for i { S[i] = 0 }  for q { if (0 <= p[q] && p[q] < n) S[p[q]] = S[p[q]] + x[q] }
// where p and x do not depend on i. There may be several loops over i, several over q, and loops
// inside of those over q, such as vectors of columns.
//
// Each point combines the same sources in the same order. Only the identity, which the select gave
// for all other sources, is combined less often, and an identity changes no result.
#include <algorithm>
#include <optional>

#include "heddle/dag/scatter.h"
#include "heddle/ir/simplify.h"
#include "lower/passes.h"

namespace heddle::lowering {
namespace {

/// Serial loops, outermost first, around what is no such loop.
struct Loops {
  std::vector<const For*> loops;
  Stmt inside;

  explicit Loops(Stmt s, bool serial) : inside(std::move(s)) {
    for (const For* f = inside.as<For>(); f && (!serial || f->loop == LoopKind::Serial);
         f = inside.as<For>()) {
      loops.push_back(f);
      inside = f->body;
    }
  }
  Stmt around(Stmt s) const {
    for (size_t n = loops.size(); n-- > 0;)
      s = make_for(loops[n]->var, loops[n]->extent, loops[n]->loop, std::move(s));
    return s;
  }
};

/// The loops over the points of a scatter.
class Scattered {
 public:
  explicit Scattered(Stmt loops) : points_(std::move(loops), true) {}

  /// The loops over the sources behind those of the first values; null where this is no scatter.
  Stmt rewritten() {
    const Block* b = points_.inside.as<Block>();
    if (!b || b->stmts.size() < 2) return {};
    const Store* first = Loops(b->stmts[0], false).inside.as<Store>();
    if (!first || !is_const(first->value)) return {};
    std::vector<Stmt> scattered;
    // Loops over sources may have been cut where a condition changes.
    for (size_t n = 1; n < b->stmts.size(); ++n) {
      const Loops sources(b->stmts[n], false);
      const Store* update = sources.inside.as<Store>();
      if (!update || !(first->buffer == update->buffer)) return {};
      if (changes_nothing(*update, first->value)) continue;
      const Stmt stores = scattered_of(sources, *update, first->value);
      if (!stores) return {};
      scattered.push_back(stores);
    }
    if (scattered.empty()) return {};
    return make_block({points_.around(b->stmts[0]), around_others(make_block(scattered))});
  }

  /// The same where the loops are inside of one source, whose store is all that they have.
  Stmt of_source(const Expr& identity) {
    const Store* update = points_.inside.as<Store>();
    if (!update) return {};
    const Stmt stored = scattered_of(Loops(points_.inside, false), *update, identity);
    return stored ? around_others(stored) : stored;
  }

 private:
  /// Loops of points that have no place stay around the sources.
  Stmt around_others(Stmt sources) const {
    Loops others = points_;
    std::erase_if(others.loops, [&](const For* f) { return has_place(f->var); });
    return others.around(std::move(sources));
  }

  /// The loops over sources, of which each is stored where it goes; null where that is not known.
  Stmt scattered_of(const Loops& sources, const Store& update, const Expr& identity) {
    const std::vector<Var> before = found_.vars;
    const std::optional<Expr> value = updated(update, identity);
    if (!value || !names_points(update) || !(before.empty() || same_vars(before, found_.vars)))
      return {};
    std::vector<VarBinding> to;
    Expr inside;
    for (size_t n = 0; n < found_.vars.size(); ++n) {
      to.push_back({found_.vars[n], found_.places[n]});
      const Expr within =
          Expr(0) <= found_.places[n] && found_.places[n] < extent_of(found_.vars[n]);
      inside = inside.defined() ? Expr(inside && within) : within;
    }
    if (found_.rest.defined()) inside = inside && found_.rest;
    std::vector<Expr> at;
    for (const Expr& i : update.indices) at.push_back(substitute(i, to));
    Stmt store = make_store(update.buffer, at, substitute(*value, to), update.hint);
    Loops outer = sources;
    // Vectors of columns are under one condition.
    while (!outer.loops.empty() && !uses_var(inside, outer.loops.back()->var)) {
      const For& f = *outer.loops.back();
      store = make_for(f.var, f.extent, f.loop, std::move(store));
      outer.loops.pop_back();
    }
    return outer.around(make_if(inside, std::move(store)));
  }

  /// Whether the update combines a point with the identity.
  static bool changes_nothing(const Store& update, const Expr& identity) {
    const auto is_point = [&](const Expr& e) {
      const Load* load = e.as<Load>();
      return load && load->buffer == update.buffer && same_place(*load, update);
    };
    const Binary* b = update.value.as<Binary>();
    return is_point(update.value) || (b && ((is_point(b->a) && equal(b->b, identity)) ||
                                            (is_point(b->b) && equal(b->a, identity))));
  }

  static bool same_vars(const std::vector<Var>& a, const std::vector<Var>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Var& x, const Var& y) { return x.same_as(y); });
  }

  /// The value of the store once the select is decided; nothing where there is no such select.
  std::optional<Expr> updated(const Store& update, const Expr& identity) {
    std::vector<Var> vars;
    for (const For* f : points_.loops) vars.push_back(f->var);
    int selects = 0;
    bool right = true;
    RewriteMemo memo;
    const Expr value = decide(update.value, memo, [&](const Expr& e) -> Expr {
      if (const Load* load = e.as<Load>(); load && load->buffer == update.buffer) {
        right &= same_place(*load, update);
        return e;
      }
      const std::optional<internal::ChosenSource> s = internal::chosen_source(e);
      if (!s || !equal(s->otherwise, identity)) return {};
      internal::PlacesOf places = internal::places_of(s->condition, vars);
      if (places.vars.empty()) return {};
      ++selects;
      right &= !reads(s->value, update.buffer);
      for (const Var& v : places.vars) right &= !uses_var(s->value, v);
      found_ = std::move(places);
      return s->value;
    });
    return selects == 1 && right ? std::optional(value) : std::nullopt;
  }

  static Expr decide(const Expr& e, RewriteMemo& memo, FunctionRef<Expr(const Expr&)> replace) {
    return memo(e, [&](const Expr& x) -> Expr {
      if (const Expr there = replace(x); there.defined()) return there;
      return map_children(x, [&](const Expr& c) { return decide(c, memo, replace); });
    });
  }

  /// Whether each loop with a place counts along one index of the store, and no other.
  bool names_points(const Store& update) const {
    return std::all_of(found_.vars.begin(), found_.vars.end(), [&](const Var& v) {
      int uses = 0;
      for (const Expr& i : update.indices) {
        if (uses_var(i, v)) uses += uses_var(simplify(i - v.expr()), v) ? 2 : 1;
      }
      return uses == 1;
    });
  }

  static bool same_place(const Load& a, const Store& b) {
    return std::equal(a.indices.begin(), a.indices.end(), b.indices.begin(), b.indices.end(),
                      [](const Expr& x, const Expr& y) { return equal(x, y); });
  }
  static bool reads(const Expr& e, const Buffer& buffer) {
    return any_below(e, [&](const Expr& x) {
      const Load* load = x.as<Load>();
      return load && load->buffer == buffer;
    });
  }
  bool has_place(const Var& v) const {
    return std::any_of(found_.vars.begin(), found_.vars.end(),
                       [&](const Var& f) { return f.same_as(v); });
  }
  Expr extent_of(const Var& v) const {
    for (const For* f : points_.loops) {
      if (f->var.same_as(v)) return f->extent;
    }
    return {};
  }

  Loops points_;
  internal::PlacesOf found_;
};

}  // namespace

Stmt scattered_source(const For& points, const Expr& identity) {
  return Scattered(Stmt(&points)).of_source(identity);
}

Stmt scattered_stores(const Stmt& s) {
  if (!s) return s;
  if (s.as<For>()) {
    if (Stmt scattered = Scattered(s).rewritten()) return scattered;
  }
  return map_children(
      s, [](const Stmt& c) { return scattered_stores(c); }, [](const Expr& e) { return e; });
}

}  // namespace heddle::lowering
