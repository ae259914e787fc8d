// Statements of the loop IR, and the function that lowering produces. The class hierarchy is like
// that of expr.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/ir/expr.h"

namespace heddle {

/// The kinds of statement nodes.
enum class StmtKind : uint8_t { For, Store, Allocate, If, Block, Let, Prefetch, Sync, TileOp };

/// How the iterations of a loop run. The block and thread kinds bind the loop to an index of a GPU
/// grid. Where their iterations run one after the other, they give the same result (see
/// lower/gpu_program.h). `Tensorized` marks the outermost loop of a tile that a matrix unit
/// computes at once. A loop of kind Cluster2, Cluster4 or Cluster8 runs over blockIdx.x. Two, four
/// or eight blocks run each iteration together and share the iterations of its threadIdx.x loops. A
/// `LastBlock` loop has one iteration, which the last block to finish of the kernel before it runs.
/// `SoftwarePipelined` is a serial loop whose iterations may begin before the previous one has
/// ended (lower/passes/row_pipeline.cpp). A `PersistentX` loop runs over blockIdx.x, with as many
/// blocks as the GPU holds at a time: each block runs its share of the iterations, one after the
/// other. The two iterations of a `PairX` loop inside of it run in two neighbouring blocks at the
/// same time, which load together what both need. `StreamX` is PersistentX, but where the last
/// round has too few iterations for all blocks, several blocks share each of them: every block runs
/// a part of the reduction (stream-K, Osama et al. 2023). In `AlternateX` and `AlternateStreamX`,
/// which are PersistentX and StreamX besides, the two warp groups of a block take turns: one
/// multiplies while the other one stores (ping-pong).
enum class LoopKind : uint8_t {
  Serial,
  Parallel,
  Vectorized,
  Unrolled,
  BlockX,
  BlockY,
  BlockZ,
  ThreadX,
  ThreadY,
  ThreadZ,
  Tensorized,
  Cluster2,
  Cluster4,
  Cluster8,
  LastBlock,
  SoftwarePipelined,
  PersistentX,
  PairX,
  StreamX,
  AlternateX,
  AlternateStreamX,
};
/// The name of a kind, as it is printed.
const char* to_string(LoopKind kind);
/// Whether as many blocks as the GPU holds at a time run the iterations of the loop.
constexpr bool is_persistent(LoopKind k) {
  return k == LoopKind::PersistentX || (k >= LoopKind::StreamX && k <= LoopKind::AlternateStreamX);
}
/// Whether the loop is bound to clusters of blocks, to a block index, or to a thread index.
constexpr bool is_cluster(LoopKind k) { return k >= LoopKind::Cluster2 && k <= LoopKind::Cluster8; }
constexpr bool is_block(LoopKind k) {
  return (k >= LoopKind::BlockX && k <= LoopKind::BlockZ) || is_cluster(k) || is_persistent(k);
}
/// The number of blocks that run one iteration of the loop together; 1 without a cluster.
constexpr int cluster_size(LoopKind k) {
  return is_cluster(k) ? 2 << (static_cast<int>(k) - static_cast<int>(LoopKind::Cluster2)) : 1;
}
constexpr bool is_thread(LoopKind k) { return k >= LoopKind::ThreadX && k <= LoopKind::ThreadZ; }
/// 0, 1, 2 for the x, y, z of a block or thread loop.
constexpr int grid_dim(LoopKind k) {
  if (is_cluster(k) || is_persistent(k)) return 0;
  return static_cast<int>(k) - static_cast<int>(is_block(k) ? LoopKind::BlockX : LoopKind::ThreadX);
}

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

/// An operation of a whole warp on a tile. It occurs only in the bodies of GPU kernels, where all
/// 32 lanes of the warp run it together. Fragments have the register layout of PTX (mma.sync,
/// ldmatrix).
enum class TileOpKind : uint8_t {
  LoadMatrix,  ///< {to: local, from: shared}: loads `count` matrices of 8 rows of 16 bytes. `from`
               ///< of lane l is the address of row l % 8 of matrix l / 8. Each lane receives 32
               ///< bits of each matrix: element l % 4 of row l / 4.
  RoundTf32,   ///< {x: local}: rounds `count` f32 registers of each lane, from x on, to tf32 (to
               ///< nearest, ties away from zero). Without it Mma truncates f32 operands.
  Mma,  ///< {d, a, b}: d += a * b for an m x n x k tile. Each operand names the registers of a
        ///< lane.
  // sm_90. Barriers are elements of u64 in shared memory (mbarrier). Tiles are in shared memory, in
  // boxes of rows of 128 bytes: as operands name them, one row after the other; in memory, with
  // the 16-byte pieces of a row swizzled (the 128-byte swizzle of TMA and wgmma).
  BulkLoad,   ///< {tile, source, coordinates.., [barrier]}: one thread copies a box of m rows of n
              ///< elements by TMA. The coordinates, one a dimension of the source, are those of its
              ///< first element; rows run along dimension k of the source. Zeros beyond its ends.
              ///< The barrier, the last operand where there is one, counts the bytes of the box.
              ///< `count` 1: each block of a pair loads one half of the rows, for both blocks.
              ///< With `windows` (TMA's im2col form) rows are m windows of an image, in row-major
              ///< order over batch and `windows`. The coordinates are those of the first element of
              ///< the first window; an offset within the window for each dimension of `windows`
              ///< follows them.
  GroupMma,   ///< {d: local, a, b}: d += a * b (with bit 2 of `count` d = a * b), m x n x k, by a
              ///< warp group (wgmma): asynchronous until GroupWait. `a` may be a local fragment of
              ///< 16-bit floats. Bits 0, 1: rows of boxes of a, b run along rows, columns, not k.
  GroupWait,  ///< {d: local}: until at most k groups of GroupMma are incomplete. `count`
              ///< registers from d on are accumulators that are then complete.
  BarrierInit,    ///< {barrier}: one thread; each of its phases takes `count` arrivals
  BarrierExpect,  ///< {barrier}: one arrival, and `count` bytes more that the phase waits for
  BarrierArrive,  ///< {barrier}: one arrival; `count` 1: at the barriers of both blocks of a pair
  BarrierWait,    ///< {barrier, barrier with the parity as its index}: until the phase of that
                  ///< parity is complete
  BulkStore,  ///< {tile, destination, coordinates..}: one thread copies a box to memory by TMA, as
              ///< BulkLoad does from there. Nothing is written beyond the ends.
  LastArrival,  ///< {last: local, ticket, number of arrivals: an index, first part, end of the
                ///< parts}: all threads of a warp group. `last` becomes 1 in the last warp group
                ///< that arrives at the ticket, else 0. That one then sees the parts, which the
                ///< others stored before. The ticket is 0 before the first and after the last
                ///< arrival. With k 1 a warp group arrives only if it is the last one.
};
/// An operand of a tile operation: a position in a buffer.
struct TileOperand {
  Buffer buffer;
  Expr index;  ///< of the first element, flat
};
/// A tile operation. Fields that an operation does not use are 0.
struct TileOp : StmtNode {
  static constexpr StmtKind kKind = StmtKind::TileOp;
  TileOp(TileOpKind o, std::vector<TileOperand> x, int m_, int n_, int k_, int c, bool t,
         std::vector<WindowDim> w = {})
      : StmtNode(kKind),
        op(o),
        operands(std::move(x)),
        m(m_),
        n(n_),
        k(k_),
        count(c),
        transposed(t),
        windows(std::move(w)) {}
  const TileOpKind op;
  const std::vector<TileOperand> operands;
  const int m, n,
      k;  ///< Mma: 16 x 8 x 16 (f16, bf16), 16 x 8 x 8 (tf32: f32 operands), 16 x 8 x 32 (i8);
          ///< GroupMma: 64 x 8..256 x 16, 8 (tf32) or 32 (i8)
  const int count;        ///< LoadMatrix: 1, 2 or 4 matrices; RoundTf32: registers
  const bool transposed;  ///< LoadMatrix: each 8x8 matrix of 16-bit elements is transposed
  const std::vector<WindowDim> windows;  ///< BulkLoad
};

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
Stmt make_mma(TileOperand d, TileOperand a, TileOperand b, int m, int n, int k);
Stmt make_load_matrix(TileOperand to, TileOperand from, int count, bool transposed);
Stmt make_round_tf32(TileOperand x, int count);
/// An operation on barriers, boxes or warp groups.
Stmt make_group_op(TileOpKind op, std::vector<TileOperand> operands, int m, int n, int k, int count,
                   std::vector<WindowDim> windows = {});

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
