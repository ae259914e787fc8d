#include "heddle/ir/print.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <ostream>
#include <unordered_map>

#include "ir/combined_store.h"
#include "ir/reads.h"

namespace heddle {
namespace {

// The precedence of an operator. An operand of lower precedence gets parentheses.
enum Precedence {
  kLowest,
  kOr,
  kAnd,
  kBitOr,
  kBitXor,
  kBitAnd,
  kEquality,
  kRelation,
  kShift,
  kSum,
  kProduct,
  kUnary,
  kAtom
};

/// The precedence of an infix operator; kAtom for those that print as a call.
Precedence precedence(BinaryOp op) {
  switch (op) {
    case BinaryOp::Or: return kOr;
    case BinaryOp::And: return kAnd;
    case BinaryOp::BitOr: return kBitOr;
    case BinaryOp::BitXor: return kBitXor;
    case BinaryOp::BitAnd: return kBitAnd;
    case BinaryOp::Eq:
    case BinaryOp::Ne: return kEquality;
    case BinaryOp::Lt:
    case BinaryOp::Le: return kRelation;
    case BinaryOp::Shl:
    case BinaryOp::Shr: return kShift;
    case BinaryOp::Add:
    case BinaryOp::Sub: return kSum;
    case BinaryOp::Mul:
    case BinaryOp::Div:
    case BinaryOp::Mod: return kProduct;
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
    case BinaryOp::Min:
    case BinaryOp::Max:
    case BinaryOp::Pow:
    case BinaryOp::Atan2: return kAtom;
  }
  return kAtom;
}

template <class T>
std::string shortest(T value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  std::string s(text, end);
  if (std::isfinite(value) && s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string float_text(DataType t, double value) {
  const bool single = t == f32;
  std::string digits = t.bits == 64 ? shortest(value) : shortest(static_cast<float>(value));
  if (!std::isfinite(value) || t.bits <= 16) return to_string(t) + "(" + digits + ")";
  return single ? digits + "f" : digits;
}

/// The nodes of a graph that get a name. None do where the tree of the graph is short enough to
/// read.
class SharedNames {
 public:
  explicit SharedNames(const Expr& root) {
    if (!root.defined() || tree_size(root, sizes_) <= kReadable) return;
    for (const auto& [node, of_tree] : sizes_) named_.emplace(node, of_tree > kWorthAName ? -1 : 0);
  }
  /// Null where `e` has no name. -1 means that it gets its name here; any other number is its name.
  int* of(const Expr& e) {
    if (named_.empty()) return nullptr;
    const auto it = named_.find(e.get());
    return it != named_.end() && it->second != 0 ? &it->second : nullptr;
  }
  int next() { return ++last_; }

 private:
  static constexpr double kReadable = 1000, kWorthAName = 3;

  TreeSizes sizes_;  ///< of shared nodes
  std::unordered_map<const ExprNode*, int> named_;
  int last_ = 0;
};

class Printer {
 public:
  std::string take() { return std::move(out_); }
  void root(const Expr& e, int min_precedence = kLowest, bool typed = true) {
    names_.emplace(e);
    expr(e, min_precedence, typed);
    names_.reset();
  }

  /// `typed` says whether a constant shows its type where that is not i64. Next to an operand that
  /// is not constant the type is evident.
  void expr(const Expr& e, int min_precedence = kLowest, bool typed = true);
  void node(const Expr& e, int min_precedence, bool typed);
  void tile_op(const TileOp& t);
  void sync(const Sync& n);
  void stmt(const Stmt& s, int indent, bool tail = true);
  void function(const LoweredFunction& f);

 private:
  void list(const std::vector<Expr>& exprs, bool typed = true) {
    for (size_t i = 0; i < exprs.size(); ++i) {
      if (i) out_ += ", ";
      expr(exprs[i], kLowest, typed);
    }
  }
  void call(const std::string& name, std::initializer_list<const Expr*> args, bool typed) {
    out_ += name + "(";
    bool first = true;
    for (const Expr* a : args) {
      if (!first) out_ += ", ";
      first = false;
      expr(*a, kLowest, typed);
    }
    out_ += ")";
  }
  void access(const Buffer& buffer, const std::vector<Expr>& indices) {
    out_ += buffer->name + "[";
    list(indices, false);
    out_ += "]";
  }
  void integer(const IntImm& imm, bool typed);
  void unary(const Unary& u);
  void binary(const Binary& b, int min_precedence);
  void reduce(const Reduce& r);
  void declaration(const Buffer& buffer) {
    out_ += buffer->name + ": " + to_string(buffer->dtype) + "[";
    list(buffer->shape);
    out_ += "]";
  }
  void line(int indent) { out_.append(static_cast<size_t>(indent) * 2, ' '); }
  void body(const Stmt& s, int indent) {
    out_ += " {\n";
    stmt(s, indent + 1);
    line(indent);
    out_ += "}\n";
  }
  /// Prints a scope around `s`, without braces where no statement follows that they would exclude.
  void scope(const Stmt& s, int indent, bool tail) {
    if (!tail) return body(s, indent);
    out_ += "\n";
    stmt(s, indent);
  }
  void if_chain(const If& s, int indent);

  std::string out_;
  std::optional<SharedNames> names_;  ///< of the expression that is being printed
};

void Printer::integer(const IntImm& imm, bool typed) {
  if (imm.dtype.is_bool()) {
    out_ += imm.value ? "true" : "false";
    return;
  }
  const std::string digits = imm.dtype == u64 ? std::to_string(static_cast<uint64_t>(imm.value))
                                              : std::to_string(imm.value);
  out_ += typed && imm.dtype != i64 ? to_string(imm.dtype) + "(" + digits + ")" : digits;
}

void Printer::unary(const Unary& u) {
  out_ += to_string(u.op);
  if (u.op == UnaryOp::Neg || u.op == UnaryOp::Not || u.op == UnaryOp::BitNot) {
    expr(u.a, kUnary + (u.a.kind() == ExprKind::Unary ? 1 : 0));
  } else {
    out_ += "(";
    expr(u.a);
    out_ += ")";
  }
}

void Printer::binary(const Binary& b, int min_precedence) {
  const bool typed_a = is_const(b.b), typed_b = is_const(b.a);
  const Precedence p = precedence(b.op);
  if (p == kAtom) {
    out_ += std::string(to_string(b.op)) + "(";
    expr(b.a, kLowest, typed_a);
    out_ += ", ";
    expr(b.b, kLowest, typed_b);
    out_ += ")";
    return;
  }
  const bool parens = p < min_precedence;
  if (parens) out_ += "(";
  // && and || are associative as printed; a + (b + c) is not the same float as a + b + c.
  const bool either_way = b.op == BinaryOp::And || b.op == BinaryOp::Or;
  expr(b.a, p + (p == kEquality || p == kRelation ? 1 : 0), typed_a);
  const int64_t* c = as_int(b.b);
  if (b.op == BinaryOp::Add && c && *c < 0 && *c != INT64_MIN && b.b.kind() == ExprKind::IntImm) {
    out_ += " - " + std::to_string(-*c);
  } else {
    const bool tight = b.op == BinaryOp::Mul || b.op == BinaryOp::Div;
    out_ += tight ? to_string(b.op) : std::string(" ") + to_string(b.op) + " ";
    expr(b.b, p + (either_way ? 0 : 1), typed_b);
  }
  if (parens) out_ += ")";
}

void Printer::reduce(const Reduce& r) {
  switch (r.combiner->kind) {
    case ReduceKind::Sum: out_ += "sum("; break;
    case ReduceKind::Prod: out_ += "prod("; break;
    case ReduceKind::Min: out_ += "min("; break;
    case ReduceKind::Max: out_ += "max("; break;
    case ReduceKind::Any: out_ += "any("; break;
    case ReduceKind::All: out_ += "all("; break;
    case ReduceKind::Custom: out_ += r.combiner->name + "("; break;
  }
  const bool tuple = r.sources.size() > 1;
  if (tuple) out_ += "{";
  list(r.sources);
  if (tuple) out_ += "}";
  out_ += r.axes.size() == 1 ? ", " : ", {";
  for (size_t i = 0; i < r.axes.size(); ++i) out_ += (i ? ", " : "") + r.axes[i].name();
  out_ += r.axes.size() == 1 ? ")" : "})";
  if (tuple) out_ += "[" + std::to_string(r.index) + "]";
}

// A long graph is printed with names: (t1 := x*x + c) where a node is first met, t1 from then on.
void Printer::expr(const Expr& e, int min_precedence, bool typed) {
  int* name = e.defined() && names_ ? names_->of(e) : nullptr;
  if (!name) return node(e, min_precedence, typed);
  if (*name > 0) {
    out_ += "t" + std::to_string(*name);
    return;
  }
  *name = names_->next();
  out_ += "(t" + std::to_string(*name) + " := ";
  node(e, kLowest, typed);
  out_ += ")";
}

void Printer::node(const Expr& e, int min_precedence, bool typed) {
  if (!e.defined()) {
    out_ += "null";
    return;
  }
  switch (e.kind()) {
    case ExprKind::IntImm: return integer(*e.as<IntImm>(), typed);
    case ExprKind::FloatImm: out_ += float_text(e.dtype(), e.as<FloatImm>()->value); return;
    case ExprKind::Var: out_ += e.as<VarNode>()->name; return;
    case ExprKind::Cast: return call(to_string(e.dtype().element()), {&e.as<Cast>()->value}, true);
    case ExprKind::Unary: return unary(*e.as<Unary>());
    case ExprKind::Binary: return binary(*e.as<Binary>(), min_precedence);
    case ExprKind::Select: {
      const Select* s = e.as<Select>();
      const bool both = is_const(s->on_true) && is_const(s->on_false);
      return call("select", {&s->condition, &s->on_true, &s->on_false}, both);
    }
    case ExprKind::Load: return access(e.as<Load>()->buffer, e.as<Load>()->indices);
    case ExprKind::Reduce: return reduce(*e.as<Reduce>());
    case ExprKind::Ramp: {
      const Ramp* r = e.as<Ramp>();
      const Expr lanes = static_cast<int64_t>(e.dtype().lanes);
      return call("ramp", {&r->base, &r->stride, &lanes}, is_const(r->base));
    }
    case ExprKind::Shuffle: {
      const Expr lanes = static_cast<int64_t>(e.as<Shuffle>()->lane_xor);
      return call("shuffle_xor", {&e.as<Shuffle>()->value, &lanes}, typed);
    }
    case ExprKind::Broadcast:
      return call("x" + std::to_string(e.dtype().lanes), {&e.as<Broadcast>()->value}, typed);
  }
}

void Printer::if_chain(const If& s, int indent) {
  out_ += "if ";
  root(s.condition);
  out_ += " {\n";
  stmt(s.then_body, indent + 1);
  line(indent);
  out_ += "}";
  if (!s.else_body) {
    out_ += "\n";
  } else if (const If* next = s.else_body.as<If>()) {
    out_ += " else ";
    if_chain(*next, indent);
  } else {
    out_ += " else";
    body(s.else_body, indent);
  }
}

namespace {

// The name of an operation on tiles.
struct TileText {
  const TileOp& op;

  static std::string number(int x) { return std::to_string(x); }
  template <class Product>
  static std::string shape(const Product& x) {
    return ".m" + number(x.m) + "n" + number(x.n) + "k" + number(x.k);
  }
  static std::string size(const tile::Box& b) { return number(b.rows) + "x" + number(b.columns); }
  static std::string dim(const tile::Box& b) { return ".d" + number(b.row_dim); }

  std::string operator()(const tile::Mma& x) const { return "mma" + shape(x); }
  std::string operator()(const tile::RoundTf32& x) const {
    return "round_tf32.x" + number(x.registers);
  }
  std::string operator()(const tile::LoadMatrix& x) const {
    return "ldmatrix.x" + number(x.matrices) + (x.transposed ? ".trans" : "");
  }
  std::string operator()(const tile::BulkLoad& x) const {
    return "bulk_load." + size(x.box) + (x.windows.empty() ? dim(x.box) : ".windows") +
           (x.by_pair ? ".pair" : "");
  }
  std::string operator()(const tile::GroupMma& x) const {
    return "wgmma" + shape(x) + (x.a_across ? ".ta" : "") + (x.b_across ? ".tb" : "") +
           (x.begins ? ".begins" : "");
  }
  std::string operator()(const tile::GroupWait& x) const {
    return "wgmma.wait " + number(x.pending) + " ";
  }
  std::string operator()(const tile::BarrierInit& x) const {
    return "barrier.init " + number(x.arrivals);
  }
  std::string operator()(const tile::BarrierExpect& x) const {
    return "barrier.expect " + number(x.bytes);
  }
  std::string operator()(const tile::BarrierArrive& x) const {
    return std::string("barrier.arrive") + (x.at_pair ? ".pair" : "");
  }
  std::string operator()(const tile::BarrierWait&) const { return "barrier.wait"; }
  std::string operator()(const tile::BulkStore& x) const {
    return "bulk_store." + size(x.box) + dim(x.box);
  }
  std::string operator()(const tile::LastArrival& x) const {
    const int64_t* all = as_int(op.operands[2].index);
    return (x.only_last ? "last_to_arrive of " : "last_arrival of ") +
           (all ? std::to_string(*all) : "several");
  }
};

}  // namespace

void Printer::tile_op(const TileOp& t) {
  out_ += std::visit(TileText{t}, t.op);
  for (size_t i = 0; i < t.operands.size(); ++i) {
    out_ += i ? ", " : " ";
    access(t.operands[i].buffer, {t.operands[i].index});
  }
  out_ += "\n";
}

void Printer::sync(const Sync& n) {
  switch (n.sync) {
    case SyncKind::Block: out_ += "sync block\n"; return;
    case SyncKind::Warp: out_ += "sync warp\n"; return;
    case SyncKind::Started: out_ += "sync started\n"; return;
    case SyncKind::AsyncCommit: out_ += "async commit\n"; return;
    case SyncKind::AsyncWait: out_ += "async wait " + std::to_string(n.pending) + "\n"; return;
    case SyncKind::GroupFence: out_ += "group fence\n"; return;
    case SyncKind::GroupCommit: out_ += "group commit\n"; return;
    case SyncKind::GridWait: out_ += "grid wait\n"; return;
    case SyncKind::Registers: out_ += "registers " + std::to_string(n.pending) + "\n"; return;
    case SyncKind::WarpGroup: out_ += "sync warp group\n"; return;
    case SyncKind::StoreFence: out_ += "store fence\n"; return;
    case SyncKind::StoreCommit: out_ += "store commit\n"; return;
    case SyncKind::StoreWait: out_ += "store wait " + std::to_string(n.pending) + "\n"; return;
  }
}

void Printer::stmt(const Stmt& s, int indent, bool tail) {
  if (!s) return;
  if (const Block* block = s.as<Block>()) {
    for (size_t i = 0; i < block->stmts.size(); ++i) {
      stmt(block->stmts[i], indent, tail && i + 1 == block->stmts.size());
    }
    return;
  }
  line(indent);
  switch (s.kind()) {
    case StmtKind::For: {
      const For* f = s.as<For>();
      if (f->loop != LoopKind::Serial) out_ += std::string(to_string(f->loop)) + " ";
      out_ += "for " + f->var->name + " in 0..";
      expr(f->extent, kAtom);
      return body(f->body, indent);
    }
    case StmtKind::Store: {
      const Store* n = s.as<Store>();
      if (has(n->hint, StoreHint::NonTemporal)) out_ += "nontemporal ";
      if (has(n->hint, StoreHint::Async)) out_ += "async ";
      if (has(n->hint, kCombined)) out_ += "combined ";
      if (has(n->hint, StoreHint::DotProduct)) out_ += "dot_product ";
      if (has(n->hint, StoreHint::TransposedSquare)) out_ += "transposed_square ";
      access(n->buffer, n->indices);
      out_ += " = ";
      root(n->value, kLowest, false);
      out_ += "\n";
      return;
    }
    case StmtKind::Allocate: {
      const Allocate* n = s.as<Allocate>();
      out_ += n->buffer->scope == Scope::Local    ? "local "
              : n->buffer->scope == Scope::Shared ? "shared "
                                                  : "global ";
      if (n->copies > 1) out_ += std::to_string(n->copies) + " x ";
      declaration(n->buffer);
      return scope(n->body, indent, tail);
    }
    case StmtKind::If: return if_chain(*s.as<If>(), indent);
    case StmtKind::Let: {
      const Let* n = s.as<Let>();
      out_ += "let " + n->var->name + " = ";
      root(n->value);
      return scope(n->body, indent, tail);
    }
    case StmtKind::Prefetch: {
      const Prefetch* n = s.as<Prefetch>();
      out_ += "prefetch ";
      access(n->buffer, n->indices);
      out_ += "\n";
      return;
    }
    case StmtKind::Sync: return sync(*s.as<Sync>());
    case StmtKind::TileOp: return tile_op(*s.as<TileOp>());
    case StmtKind::Block: return;
  }
}

void Printer::function(const LoweredFunction& f) {
  out_ += "func " + f.name + "(";
  for (size_t i = 0; i < f.args.size(); ++i) {
    if (i) out_ += ", ";
    declaration(f.args[i]);
  }
  out_ += ")";
  body(f.body, 0);
}

}  // namespace

std::string to_string(const Expr& e) {
  Printer p;
  p.root(e);
  return p.take();
}

std::string to_string(const Stmt& s, int indent) {
  Printer p;
  p.stmt(s, indent);
  return p.take();
}

std::string to_string(const LoweredFunction& f) {
  Printer p;
  p.function(f);
  return p.take();
}

std::ostream& operator<<(std::ostream& os, const Expr& e) { return os << to_string(e); }
std::ostream& operator<<(std::ostream& os, const Stmt& s) { return os << to_string(s); }

}  // namespace heddle
