#include "heddle/ir/stmt.h"

#include "heddle/support/error.h"

namespace heddle {
namespace {

/// Applies `fn` to each element of `in`. Returns whether any changed.
template <class T, class F>
bool map_all(const std::vector<T>& in, std::vector<T>& out, F fn) {
  bool changed = false;
  out.reserve(in.size());
  for (const T& x : in) {
    out.push_back(fn(x));
    changed |= !out.back().same_as(x);
  }
  return changed;
}

void check_indices(const Buffer& buffer, const std::vector<Expr>& indices, const char* what) {
  HEDDLE_ICHECK(buffer, std::string(what) + " of a null buffer");
  HEDDLE_ICHECK(indices.size() == buffer->shape.size() || indices.size() == 1,
                std::string(what) + " of '" + buffer->name + "', which has " +
                    std::to_string(buffer->shape.size()) + " dimensions, at " +
                    std::to_string(indices.size()) + " indices");
  for (const Expr& i : indices) {
    HEDDLE_ICHECK(i.dtype().element() == i64, std::string(what) + " of '" + buffer->name +
                                                  "' at an index of type " + to_string(i.dtype()));
  }
}

int lanes_of(const std::vector<Expr>& indices) {
  int lanes = 1;
  for (const Expr& i : indices) lanes = i.dtype().lanes > lanes ? i.dtype().lanes : lanes;
  return lanes;
}

bool all_equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

bool equal_blocks(const Block& a, const Block& b) {
  if (a.stmts.size() != b.stmts.size()) return false;
  for (size_t i = 0; i < a.stmts.size(); ++i) {
    if (!equal(a.stmts[i], b.stmts[i])) return false;
  }
  return true;
}

bool equal_tile_ops(const TileOp& a, const TileOp& b) {
  if (a.op != b.op || a.operands.size() != b.operands.size()) return false;
  for (size_t i = 0; i < a.operands.size(); ++i) {
    if (!(a.operands[i].buffer == b.operands[i].buffer) ||
        !equal(a.operands[i].index, b.operands[i].index))
      return false;
  }
  return true;
}

}  // namespace

void StmtNode::destroy(const StmtNode* node) {
  switch (node->kind) {
    case StmtKind::For: delete static_cast<const For*>(node); return;
    case StmtKind::Store: delete static_cast<const Store*>(node); return;
    case StmtKind::Allocate: delete static_cast<const Allocate*>(node); return;
    case StmtKind::If: delete static_cast<const If*>(node); return;
    case StmtKind::Block: delete static_cast<const Block*>(node); return;
    case StmtKind::Let: delete static_cast<const Let*>(node); return;
    case StmtKind::Prefetch: delete static_cast<const Prefetch*>(node); return;
    case StmtKind::Sync: delete static_cast<const Sync*>(node); return;
    case StmtKind::TileOp: delete static_cast<const TileOp*>(node); return;
  }
}

Stmt make_for(Var var, Expr extent, LoopKind kind, Stmt body) {
  HEDDLE_ICHECK(var && extent.defined() && extent.dtype() == i64,
                "a loop needs a variable and an i64 extent");
  if (!body || is_const(extent, 0)) return {};
  return Stmt(new For(std::move(var), std::move(extent), kind, std::move(body)));
}

Stmt make_store(const Buffer& buffer, std::vector<Expr> indices, Expr value, StoreHint hint) {
  check_indices(buffer, indices, "store");
  HEDDLE_ICHECK(value.defined(), "store of a null value to '" + buffer->name + "'");
  const int lanes = lanes_of(indices);
  if (is_const(value) && value.dtype().element() != buffer->dtype) {
    value = cast(buffer->dtype, std::move(value));
  }
  if (lanes > 1 && value.dtype().is_scalar()) value = make_broadcast(std::move(value), lanes);
  HEDDLE_ICHECK(value.dtype() == buffer->dtype.with_lanes(lanes),
                "store of " + to_string(value.dtype()) + " to '" + buffer->name +
                    "', which takes " + to_string(buffer->dtype.with_lanes(lanes)) + " here");
  return Stmt(new Store(buffer, std::move(indices), std::move(value), hint));
}

Stmt make_allocate(const Buffer& buffer, Stmt body, int copies) {
  HEDDLE_ICHECK(buffer && copies >= 1, "allocation of a null buffer");
  if (!body) return {};
  return Stmt(new Allocate(buffer, std::move(body), copies));
}

Stmt make_if(Expr condition, Stmt then_body, Stmt else_body) {
  HEDDLE_ICHECK(condition.defined() && condition.dtype().element() == boolean,
                "the condition of an if is a bool");
  HEDDLE_ICHECK(condition.dtype().is_scalar() || (then_body.as<Store>() && !else_body),
                "an if with a vector condition has one store, whose lanes it masks");
  if (const int64_t* c = as_int(condition)) return *c ? then_body : else_body;
  if (!then_body && !else_body) return {};
  return Stmt(new If(std::move(condition), std::move(then_body), std::move(else_body)));
}

Stmt make_block(std::vector<Stmt> stmts) {
  bool flat = true;
  for (const Stmt& s : stmts) flat = flat && s && s.kind() != StmtKind::Block;
  if (!flat) {
    std::vector<Stmt> out;
    out.reserve(stmts.size());
    for (Stmt& s : stmts) {
      if (const Block* b = s.as<Block>()) {
        out.insert(out.end(), b->stmts.begin(), b->stmts.end());
      } else if (s) {
        out.push_back(std::move(s));
      }
    }
    stmts = std::move(out);
  }
  if (stmts.empty()) return {};
  if (stmts.size() == 1) return std::move(stmts.front());
  return Stmt(new Block(std::move(stmts)));
}

Stmt make_let(Var var, Expr value, Stmt body) {
  HEDDLE_ICHECK(var && value.defined() && var->dtype == value.dtype(),
                "a let needs a variable and a value of its type");
  if (!body) return {};
  return Stmt(new Let(std::move(var), std::move(value), std::move(body)));
}

Stmt make_prefetch(const Buffer& buffer, std::vector<Expr> indices) {
  check_indices(buffer, indices, "prefetch");
  return Stmt(new Prefetch(buffer, std::move(indices)));
}

Stmt make_sync(SyncKind kind, int pending) {
  HEDDLE_ICHECK(pending >= 0 || kind == SyncKind::Registers, "a wait for fewer than no groups");
  return Stmt(new Sync(kind, pending));
}

Stmt make_tile_op(tile::Operation op, std::vector<TileOperand> operands) {
  HEDDLE_ICHECK(!operands.empty(), "an operation on tiles has operands");
  for (const TileOperand& o : operands) {
    HEDDLE_ICHECK(o.buffer && o.index.defined() && o.index.dtype() == i64,
                  "an operand of a tile operation is a buffer and a flat index");
  }
  if (const auto* x = std::get_if<tile::RoundTf32>(&op))
    HEDDLE_ICHECK(operands[0].buffer->dtype == f32 && x->registers > 0, "tf32 is made of f32");
  if (const auto* x = std::get_if<tile::LoadMatrix>(&op))
    HEDDLE_ICHECK(x->matrices == 1 || x->matrices == 2 || x->matrices == 4,
                  "ldmatrix loads 1, 2 or 4 matrices");
  return Stmt(new TileOp(std::move(op), std::move(operands)));
}

/// An operation on tiles whose operands' indices are mapped.
static Stmt map_operands(const Stmt& s, FunctionRef<Expr(const Expr&)> fe) {
  const TileOp* n = s.as<TileOp>();
  std::vector<TileOperand> operands;
  bool changed = false;
  for (const TileOperand& o : n->operands) {
    operands.push_back({o.buffer, fe(o.index)});
    changed |= !operands.back().index.same_as(o.index);
  }
  if (!changed) return s;
  return make_tile_op(n->op, std::move(operands));
}

Stmt map_children(const Stmt& s, FunctionRef<Stmt(const Stmt&)> fs,
                  FunctionRef<Expr(const Expr&)> fe) {
  if (!s) return s;
  switch (s.kind()) {
    case StmtKind::For: {
      const For* n = s.as<For>();
      Expr extent = fe(n->extent);
      Stmt body = fs(n->body);
      if (extent.same_as(n->extent) && body.same_as(n->body)) return s;
      return make_for(n->var, std::move(extent), n->loop, std::move(body));
    }
    case StmtKind::Store: {
      const Store* n = s.as<Store>();
      std::vector<Expr> indices;
      const bool changed = map_all(n->indices, indices, fe);
      Expr value = fe(n->value);
      if (!changed && value.same_as(n->value)) return s;
      return make_store(n->buffer, std::move(indices), std::move(value), n->hint);
    }
    case StmtKind::Allocate: {
      const Allocate* n = s.as<Allocate>();
      Stmt body = fs(n->body);
      return body.same_as(n->body) ? s : make_allocate(n->buffer, std::move(body), n->copies);
    }
    case StmtKind::If: {
      const If* n = s.as<If>();
      Expr condition = fe(n->condition);
      Stmt t = n->then_body ? fs(n->then_body) : Stmt();
      Stmt f = n->else_body ? fs(n->else_body) : Stmt();
      if (condition.same_as(n->condition) && t.same_as(n->then_body) && f.same_as(n->else_body)) {
        return s;
      }
      return make_if(std::move(condition), std::move(t), std::move(f));
    }
    case StmtKind::Block: {
      const Block* n = s.as<Block>();
      std::vector<Stmt> stmts;
      return map_all(n->stmts, stmts, fs) ? make_block(std::move(stmts)) : s;
    }
    case StmtKind::Let: {
      const Let* n = s.as<Let>();
      Expr value = fe(n->value);
      Stmt body = fs(n->body);
      if (value.same_as(n->value) && body.same_as(n->body)) return s;
      return make_let(n->var, std::move(value), std::move(body));
    }
    case StmtKind::Prefetch: {
      const Prefetch* n = s.as<Prefetch>();
      std::vector<Expr> indices;
      return map_all(n->indices, indices, fe) ? make_prefetch(n->buffer, std::move(indices)) : s;
    }
    case StmtKind::Sync: return s;
    case StmtKind::TileOp: return map_operands(s, fe);
  }
  return s;
}

void visit(const Stmt& s, FunctionRef<void(const Stmt&)> fs, FunctionRef<void(const Expr&)> fe) {
  if (!s) return;
  fs(s);
  const auto visit_all = [&](const std::vector<Expr>& v) {
    for (const Expr& e : v) visit(e, fe);
  };
  switch (s.kind()) {
    case StmtKind::For:
      visit(s.as<For>()->extent, fe);
      visit(s.as<For>()->body, fs, fe);
      return;
    case StmtKind::Store:
      visit_all(s.as<Store>()->indices);
      visit(s.as<Store>()->value, fe);
      return;
    case StmtKind::Allocate: visit(s.as<Allocate>()->body, fs, fe); return;
    case StmtKind::If:
      visit(s.as<If>()->condition, fe);
      visit(s.as<If>()->then_body, fs, fe);
      visit(s.as<If>()->else_body, fs, fe);
      return;
    case StmtKind::Block:
      for (const Stmt& child : s.as<Block>()->stmts) visit(child, fs, fe);
      return;
    case StmtKind::Let:
      visit(s.as<Let>()->value, fe);
      visit(s.as<Let>()->body, fs, fe);
      return;
    case StmtKind::Prefetch: visit_all(s.as<Prefetch>()->indices); return;
    case StmtKind::Sync: return;
    case StmtKind::TileOp:
      for (const TileOperand& o : s.as<TileOp>()->operands) visit(o.index, fe);
      return;
  }
}

Stmt substitute(const Stmt& s, const std::vector<VarBinding>& bindings) {
  return map_children(
      s, [&](const Stmt& child) { return substitute(child, bindings); },
      [&](const Expr& e) { return substitute(e, bindings); });
}

bool equal(const Stmt& a, const Stmt& b) {
  if (a.same_as(b)) return true;
  if (!a || !b || a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case StmtKind::For: {
      const For *x = a.as<For>(), *y = b.as<For>();
      return x->var.same_as(y->var) && x->loop == y->loop && equal(x->extent, y->extent) &&
             equal(x->body, y->body);
    }
    case StmtKind::Store: {
      const Store *x = a.as<Store>(), *y = b.as<Store>();
      return x->buffer == y->buffer && x->hint == y->hint && all_equal(x->indices, y->indices) &&
             equal(x->value, y->value);
    }
    case StmtKind::Allocate: {
      const Allocate *x = a.as<Allocate>(), *y = b.as<Allocate>();
      return x->buffer == y->buffer && x->copies == y->copies && equal(x->body, y->body);
    }
    case StmtKind::If: {
      const If *x = a.as<If>(), *y = b.as<If>();
      return equal(x->condition, y->condition) && equal(x->then_body, y->then_body) &&
             equal(x->else_body, y->else_body);
    }
    case StmtKind::Block: return equal_blocks(*a.as<Block>(), *b.as<Block>());
    case StmtKind::Let: {
      const Let *x = a.as<Let>(), *y = b.as<Let>();
      return x->var.same_as(y->var) && equal(x->value, y->value) && equal(x->body, y->body);
    }
    case StmtKind::Prefetch: {
      const Prefetch *x = a.as<Prefetch>(), *y = b.as<Prefetch>();
      return x->buffer == y->buffer && all_equal(x->indices, y->indices);
    }
    case StmtKind::Sync: {
      const Sync *x = a.as<Sync>(), *y = b.as<Sync>();
      return x->sync == y->sync && x->pending == y->pending;
    }
    case StmtKind::TileOp: return equal_tile_ops(*a.as<TileOp>(), *b.as<TileOp>());
  }
  return false;
}

}  // namespace heddle
