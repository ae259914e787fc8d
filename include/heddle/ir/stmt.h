// Statements of the loop IR, and the function that lowering produces. Same scheme as expr.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/ir/expr.h"

namespace heddle {

enum class StmtKind : uint8_t { For, Store, Allocate, If, Block, Let, Prefetch };

enum class LoopKind : uint8_t { Serial, Parallel, Vectorized, Unrolled };
const char* to_string(LoopKind kind);

class StmtNode {
 public:
  const StmtKind kind;
  void acquire() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(this);
  }

 protected:
  explicit StmtNode(StmtKind k) : kind(k) {}
  ~StmtNode() = default;

 private:
  static void destroy(const StmtNode* node);
  mutable std::atomic<uint32_t> refs_{0};
};

/// A handle to an immutable statement; null means "do nothing".
class Stmt {
 public:
  Stmt() = default;
  explicit Stmt(const StmtNode* node) : node_(node) {
    if (node_) node_->acquire();
  }
  Stmt(const Stmt& o) : Stmt(o.node_) {}
  Stmt(Stmt&& o) noexcept : node_(o.node_) { o.node_ = nullptr; }
  Stmt& operator=(Stmt o) noexcept {
    std::swap(node_, o.node_);
    return *this;
  }
  ~Stmt() {
    if (node_) node_->release();
  }
  explicit operator bool() const { return node_ != nullptr; }
  const StmtNode* get() const { return node_; }
  const StmtNode* operator->() const { return node_; }
  StmtKind kind() const { return node_->kind; }
  template <class T>
  const T* as() const {
    return node_ && node_->kind == T::kKind ? static_cast<const T*>(node_) : nullptr;
  }
  bool same_as(const Stmt& o) const { return node_ == o.node_; }

 private:
  const StmtNode* node_ = nullptr;
};

/// for var in [0, extent): loops always start at zero (an offset is part of the index expressions).
struct For : StmtNode {
  static constexpr StmtKind kKind = StmtKind::For;
  For(Var v, Expr e, LoopKind k, Stmt b)
      : StmtNode(kKind), var(std::move(v)), extent(std::move(e)), loop(k), body(std::move(b)) {}
  const Var var;
  const Expr extent;
  const LoopKind loop;
  const Stmt body;
};

struct Store : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Store;
  Store(Buffer b, std::vector<Expr> i, Expr v, bool nt)
      : StmtNode(kKind),
        buffer(std::move(b)),
        indices(std::move(i)),
        value(std::move(v)),
        nontemporal(nt) {}
  const Buffer buffer;
  const std::vector<Expr> indices;
  const Expr value;
  const bool nontemporal;  ///< a hint: the line will not be read soon
};

/// `buffer` exists, uninitialised, while `body` runs.
struct Allocate : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Allocate;
  Allocate(Buffer buf, Stmt b) : StmtNode(kKind), buffer(std::move(buf)), body(std::move(b)) {}
  const Buffer buffer;
  const Stmt body;
};

struct If : StmtNode {
  static constexpr StmtKind kKind = StmtKind::If;
  If(Expr c, Stmt t, Stmt e)
      : StmtNode(kKind),
        condition(std::move(c)),
        then_body(std::move(t)),
        else_body(std::move(e)) {}
  const Expr condition;
  const Stmt then_body, else_body;  ///< either may be null
};

struct Block : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Block;
  explicit Block(std::vector<Stmt> s) : StmtNode(kKind), stmts(std::move(s)) {}
  const std::vector<Stmt> stmts;  ///< none null
};

struct Let : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Let;
  Let(Var v, Expr x, Stmt b)
      : StmtNode(kKind), var(std::move(v)), value(std::move(x)), body(std::move(b)) {}
  const Var var;
  const Expr value;
  const Stmt body;
};

/// Touches the cache line at `indices`; no effect on results.
struct Prefetch : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Prefetch;
  Prefetch(Buffer b, std::vector<Expr> i)
      : StmtNode(kKind), buffer(std::move(b)), indices(std::move(i)) {}
  const Buffer buffer;
  const std::vector<Expr> indices;
};

/// Null when `body` is null or `extent` is the constant 0.
Stmt make_for(Var var, Expr extent, LoopKind kind, Stmt body);
Stmt make_store(const Buffer& buffer, std::vector<Expr> indices, Expr value,
                bool nontemporal = false);
Stmt make_allocate(const Buffer& buffer, Stmt body);
/// Folds constant conditions; null when both bodies are.
Stmt make_if(Expr condition, Stmt then_body, Stmt else_body = {});
/// Drops nulls and flattens nested blocks; a single statement comes back as itself.
Stmt make_block(std::vector<Stmt> stmts);
Stmt make_let(Var var, Expr value, Stmt body);
Stmt make_prefetch(const Buffer& buffer, std::vector<Expr> indices);

/// Rebuilds `s` with `fs` applied to child statements and `fe` to child expressions.
Stmt map_children(const Stmt& s, FunctionRef<Stmt(const Stmt&)> fs,
                  FunctionRef<Expr(const Expr&)> fe);
/// Calls `fs` on every statement and `fe` on every expression of `s`, parents first.
void visit(const Stmt& s, FunctionRef<void(const Stmt&)> fs, FunctionRef<void(const Expr&)> fe);
Stmt substitute(const Stmt& s, const std::vector<VarBinding>& bindings);
bool equal(const Stmt& a, const Stmt& b);

/// A lowered function: what code generation and the interpreter take.
struct LoweredFunction {
  std::string name;
  std::vector<Buffer> args;  ///< inputs and outputs in call order
  Stmt body;
};

}  // namespace heddle
