// The reads and writes of the buffers that a kernel allocates, and the loops around them.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "heddle/ir/stmt.h"
#include "lower/gpu/tiles/tile_nest.h"

namespace heddle::gpu {

struct OpenLoop {
  Var var;
  LoopKind kind;
  int64_t extent;  ///< the largest
};

bool uses_any_thread(const Expr& e, const std::vector<OpenLoop>& loops);

/// Whether `condition` is false for all iterations of the loop over `v` but the first.
bool only_first_passes(const Expr& condition, const Var& v, const std::vector<OpenLoop>& loops);

/// One read or write of a buffer, with the loops opened since its allocation.
struct BufferAccess {
  std::vector<Expr> indices;
  bool write;
  std::vector<OpenLoop> loops;
  bool tile = false;                  ///< a warp accesses the whole fragment together
  std::vector<Expr> conditions = {};  ///< under which it happens
  std::vector<OpenLoop> around = {};  ///< loops opened outside of the allocation

  /// The loop of this variable. Null where it is opened outside of the allocation, or where no loop
  /// has the variable.
  const OpenLoop* loop(const VarNode* v) const;
  /// The loop over the threads of dimension `dim` of the block; null where there is none.
  const OpenLoop* thread_loop(int dim) const;
};

struct BufferUse {
  const Allocate* allocate = nullptr;
  std::vector<OpenLoop> around;  ///< thread loops that enclose the allocation
  std::vector<BufferAccess> accesses;
};

/// Buffers are made for the uses in this order, and sums are written in the order of the buffers
/// that they read. By addresses, the text of a kernel would differ from run to run.
struct ByCreation {
  bool operator()(const BufferNode* a, const BufferNode* b) const { return a->id < b->id; }
};
using BufferUses = std::map<const BufferNode*, BufferUse, ByCreation>;

/// Finds the uses of all buffers that `s` allocates. `nests` has its marked loops, and `reductions` are
/// those that reduce over threads, after which all threads have the result. The result points into `s`.
BufferUses find_buffer_uses(const Stmt& s, const TileNests& nests,
                            const std::set<const StmtNode*>& reductions);

}  // namespace heddle::gpu
