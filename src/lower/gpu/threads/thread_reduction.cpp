#include "lower/gpu/threads/thread_reduction.h"

#include <algorithm>

#include "heddle/ir/simplify.h"
#include "ir/combined_store.h"

namespace heddle::gpu {
namespace {

Expr replace_loads(const Expr& e, const std::vector<std::pair<Expr, Expr>>& map,
                   RewriteMemo& memo) {
  return memo(e, [&](const Expr& x) {
    for (const auto& [from, to] : map) {
      if (equal(x, from)) return to;
    }
    return map_children(x, [&](const Expr& c) { return replace_loads(c, map, memo); });
  });
}

bool uses_any(const std::vector<Expr>& list, const Var& v) {
  return std::any_of(list.begin(), list.end(), [&](const Expr& e) { return uses_var(e, v); });
}

// The part of  lhs op rhs  for either order of operands. The part may be any expression.
std::optional<Expr> simple_part(const Expr& value, const Expr& self) {
  const Binary* b = value.as<Binary>();
  if (!b) return {};
  switch (b->op) {
    case BinaryOp::Add:
    case BinaryOp::Mul:
    case BinaryOp::Min:
    case BinaryOp::Max:
    case BinaryOp::And:
    case BinaryOp::Or: break;
    default: return {};
  }
  if (equal(b->a, self)) return b->b;
  if (equal(b->b, self)) return b->a;
  return {};
}

bool is_load(const Expr& e) { return e.kind() == ExprKind::Load; }

bool reads(const Expr& e, const Buffer& buffer) {
  return any_below(e, [&](const Expr& x) {
    const Load* load = x.as<Load>();
    return load && load->buffer == buffer;
  });
}

// The stores at the bottom of a loop's body, and the values of the lets around them.
struct Bottom {
  std::vector<VarBinding> lets;
  std::vector<Stmt> stmts;
};
Bottom bottom_of(Stmt body) {
  Bottom out;
  while (const Let* l = body.as<Let>()) {
    out.lets.push_back({l->var, l->value});
    body = l->body;
  }
  if (const Block* b = body.as<Block>()) {
    out.stmts = b->stmts;
  } else {
    out.stmts = {body};
  }
  return out;
}

// What each component stores, and its previous value.
struct Values {
  std::vector<Expr> stored, selves;
};

// Matches one component with a built-in operator: C[i] = C[i] + part.
bool take_operator(ThreadReduction* r, const Values& values) {
  if (r->components.size() != 1) return false;
  auto& c = r->components[0];
  const std::optional<Expr> part = simple_part(values.stored[0], values.selves[0]);
  if (!part || reads(*part, c.to)) return false;
  c.part = *part;
  const BinaryOp op = values.stored[0].as<Binary>()->op;
  r->combine.push_back(make_binary(op, c.lhs.expr(), c.rhs.expr()));
  return true;
}

// The parts of a user's combiner: the loads of the partial results, one for each component, in the
// order in which their buffers were made.
std::vector<Expr> parts_of(const std::vector<Expr>& values, const Var& thread) {
  std::vector<Expr> parts;
  for (const Expr& v : values) {
    visit(v, [&](const Expr& e) {
      if (e.kind() != ExprKind::Load || !uses_var(e, thread)) return;
      for (const Expr& p : parts) {
        if (equal(p, e)) return;
      }
      parts.push_back(e);
    });
  }
  std::sort(parts.begin(), parts.end(), [](const Expr& a, const Expr& b) {
    return a.as<Load>()->buffer->id < b.as<Load>()->buffer->id;
  });
  return parts;
}

bool take_combiner(ThreadReduction* r, const Values& values) {
  const std::vector<Expr> parts = parts_of(values.stored, r->thread);
  if (parts.size() != r->components.size()) return false;
  std::vector<std::pair<Expr, Expr>> map;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].dtype() != r->components[k].to->dtype) return false;
    r->components[k].part = parts[k];
    map.emplace_back(values.selves[k], r->components[k].lhs.expr());
    map.emplace_back(parts[k], r->components[k].rhs.expr());
  }
  for (const Expr& v : values.stored) {
    RewriteMemo memo;
    r->combine.push_back(replace_loads(v, map, memo));
    const Expr& made = r->combine.back();
    if (uses_var(made, r->thread)) return false;
    for (const auto& c : r->components) {
      if (reads(made, c.to)) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<ThreadReduction> as_thread_reduction(const For& loop) {
  ThreadReduction r;
  r.thread = loop.var;
  Stmt body = loop.body;
  if (const If* i = body.as<If>()) {
    const bool of_row = !uses_var(i->condition, loop.var) && !any_below(i->condition, is_load);
    if (i->else_body || !of_row) return {};
    r.condition = i->condition;
    body = i->then_body;
  }
  const Bottom bottom = bottom_of(body);
  Values values;
  for (const Stmt& x : bottom.stmts) {
    const Store* st = x.as<Store>();
    if (!st || has(st->hint, kCombined) || uses_any(st->indices, loop.var)) return {};
    const DataType t = st->buffer->dtype;
    r.components.push_back({st->buffer, st->indices, {}, Var("lhs", t), Var("rhs", t)});
    values.stored.push_back(substitute(st->value, bottom.lets));
    values.selves.push_back(make_load(st->buffer, st->indices));
  }
  if (r.components.size() != std::max<size_t>(1, bottom.lets.size())) return {};
  if (take_operator(&r, values) || take_combiner(&r, values)) return r;
  return {};
}

}  // namespace heddle::gpu
