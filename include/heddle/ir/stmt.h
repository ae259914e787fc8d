// Statements of the loop IR, and the function that lowering produces. The class hierarchy is like
// that of expr.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/ir/expr.h"
#include "heddle/ir/loop_kind.h"
#include "heddle/ir/tile_operation.h"

namespace heddle {

/// The kinds of statement nodes.
enum class StmtKind : uint8_t { For, Store, Allocate, If, Block, Let, Prefetch, Sync, TileOp };

/// The base of all statements. Statements are immutable and counted by reference.
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

/// A loop: for var in [0, extent). Loops always start at zero. An offset is part of the index
/// expressions.
struct For : StmtNode {
  static constexpr StmtKind kKind = StmtKind::For;
  For(Var v, Expr e, LoopKind k, Stmt b)
      : StmtNode(kKind), var(std::move(v)), extent(std::move(e)), loop(k), body(std::move(b)) {}
  const Var var;
  const Expr extent;
  const LoopKind loop;
  const Stmt body;
};

/// How a store goes to memory, and which instructions its value is expected to become: a set. A
/// hint never changes the stored value.
enum class StoreHint : uint8_t {
  None = 0,
  NonTemporal = 1,  ///< bypasses the caches: the line will not be read soon
  Async = 2,        ///< a copy from global to shared memory that a later Sync::AsyncWait completes
  DotProduct = 4,   ///< the value is expected to be sums of products in groups (dot products)
  TransposedSquare = 8,  ///< the store is expected to be one of a square transposed in registers
};
/// Hints are bits that can be combined.
constexpr StoreHint operator|(StoreHint a, StoreHint b) {
  return static_cast<StoreHint>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
/// Whether the set `hints` contains `hint`.
constexpr bool has(StoreHint hints, StoreHint hint) {
  return (static_cast<uint8_t>(hints) & static_cast<uint8_t>(hint)) != 0;
}

/// Stores `value` at `buffer[indices]`. A vector value or index stores one element for each lane.
struct Store : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Store;
  Store(Buffer b, std::vector<Expr> i, Expr v, StoreHint h)
      : StmtNode(kKind),
        buffer(std::move(b)),
        indices(std::move(i)),
        value(std::move(v)),
        hint(h) {}
  const Buffer buffer;
  const std::vector<Expr> indices;
  const Expr value;
  const StoreHint hint;
};

/// `buffer` exists, uninitialised, while `body` runs.
struct Allocate : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Allocate;
  Allocate(Buffer buf, Stmt b, int n)
      : StmtNode(kKind), buffer(std::move(buf)), body(std::move(b)), copies(n) {}
  const Buffer buffer;
  const Stmt body;
  const int copies;  ///< of shared memory, in rotation: one is filled while another is used
};

/// Runs one of two bodies.
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

/// Runs statements one after the other.
struct Block : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Block;
  explicit Block(std::vector<Stmt> s) : StmtNode(kKind), stmts(std::move(s)) {}
  const std::vector<Stmt> stmts;  ///< no element is null
};

/// Gives `var` a value within `body`.
struct Let : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Let;
  Let(Var v, Expr x, Stmt b)
      : StmtNode(kKind), var(std::move(v)), value(std::move(x)), body(std::move(b)) {}
  const Var var;
  const Expr value;
  const Stmt body;
};

/// Fetches the cache line at `indices`. It has no effect on results.
struct Prefetch : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Prefetch;
  Prefetch(Buffer b, std::vector<Expr> i)
      : StmtNode(kKind), buffer(std::move(b)), indices(std::move(i)) {}
  const Buffer buffer;
  const std::vector<Expr> indices;
};

/// Orders the threads of a block, or its asynchronous copies. It occurs only in the bodies of GPU
/// kernels.
enum class SyncKind : uint8_t {
  Block,  ///< __syncthreads: waits until all threads of the block, or of the cluster, have arrived
  Warp,   ///< __syncwarp
  AsyncCommit,  ///< this thread's Async stores since the last commit make one group
  AsyncWait,    ///< waits until at most `pending` of this thread's groups are incomplete
  Started,      ///< waits until all blocks of the cluster have begun; it orders nothing else
  GroupFence,   ///< wgmma.fence: orders earlier accesses to registers before the next GroupMma
  GroupCommit,  ///< this warp group's GroupMma since the last commit make one group
  GridWait,   ///< griddepcontrol.wait: waits until the kernels before this one have ended, and then
              ///< lets the blocks of the next kernel begin
  Registers,  ///< setmaxnreg: each thread of the warp group gives away (pending < 0) or takes
              ///< registers until it has |pending|
  WarpGroup,  ///< bar.sync: waits until all threads of the warp group have arrived
  StoreFence,   ///< fence.proxy.async: what this thread stored in shared memory comes before the
                ///< BulkStores after the next barrier
  StoreCommit,  ///< this thread's BulkStores since the last commit make one group
  StoreWait,    ///< waits until TMA has read the tiles of all but `pending` of this thread's groups
};
/// A barrier or a wait in a GPU kernel. `pending` is the number of groups of copies that may still
/// be in flight after an AsyncWait.
struct Sync : StmtNode {
  static constexpr StmtKind kKind = StmtKind::Sync;
  Sync(SyncKind s, int p) : StmtNode(kKind), sync(s), pending(p) {}
  const SyncKind sync;
  const int pending;
};

/// An operand of a tile operation: a position in a buffer.
struct TileOperand {
  Buffer buffer;
  Expr index;  ///< of the first element, flat
};
/// An operation on tiles. It occurs only in the bodies of GPU kernels.
struct TileOp : StmtNode {
  static constexpr StmtKind kKind = StmtKind::TileOp;
  TileOp(tile::Operation o, std::vector<TileOperand> x)
      : StmtNode(kKind), op(std::move(o)), operands(std::move(x)) {}
  const tile::Operation op;
  const std::vector<TileOperand> operands;
  /// What a BulkLoad, a Mma .. needs; null where the operation is another one.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&op);
  }
};
/// The same of a statement.
template <class T>
const T* tile_operation(const Stmt& s) {
  const TileOp* op = s.as<TileOp>();
  return op ? op->as<T>() : nullptr;
}

/// Returns null where `body` is null or `extent` is the constant 0.
Stmt make_for(Var var, Expr extent, LoopKind kind, Stmt body);
/// Constructors of the other statements.
Stmt make_store(const Buffer& buffer, std::vector<Expr> indices, Expr value,
                StoreHint hint = StoreHint::None);
Stmt make_allocate(const Buffer& buffer, Stmt body, int copies = 1);
/// Folds constant conditions. Returns null where both bodies are null.
Stmt make_if(Expr condition, Stmt then_body, Stmt else_body = {});
/// Drops nulls and flattens nested blocks. Returns a single statement as it is.
Stmt make_block(std::vector<Stmt> stmts);
Stmt make_let(Var var, Expr value, Stmt body);
Stmt make_prefetch(const Buffer& buffer, std::vector<Expr> indices);
Stmt make_sync(SyncKind kind, int pending = 0);
Stmt make_tile_op(tile::Operation op, std::vector<TileOperand> operands);

/// Rebuilds `s` with `fs` applied to child statements and `fe` to child expressions.
Stmt map_children(const Stmt& s, FunctionRef<Stmt(const Stmt&)> fs,
                  FunctionRef<Expr(const Expr&)> fe);
/// Calls `fs` on every statement and `fe` on every expression of `s`, parents first.
void visit(const Stmt& s, FunctionRef<void(const Stmt&)> fs, FunctionRef<void(const Expr&)> fe);
/// Replaces variables in all expressions of `s`.
Stmt substitute(const Stmt& s, const std::vector<VarBinding>& bindings);
/// Deep equality. Variables and buffers are compared by identity.
bool equal(const Stmt& a, const Stmt& b);

/// A lowered function, the input of code generation and of the interpreter.
struct LoweredFunction {
  std::string name;
  std::vector<Buffer> args;  ///< inputs and outputs in call order
  Stmt body;
  /// Symbolic sizes (ir/sizes.h): i64 arguments after the buffers, whose shapes they are part of.
  std::vector<Var> sizes = {};
};

}  // namespace heddle
