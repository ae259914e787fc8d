// The result of lowering a schedule for a GPU: kernels that are launched one after the other.
//
// Two forms of the loop IR meet here. Up to the pass that distributes work over threads the program
// is *sequential*: block and thread loops run like serial ones, so the interpreter is its oracle:
//
//   for bx in 0..M/128 (blockIdx.x) {
//     local acc[128][128]                          all threads' accumulators
//     for ty (threadIdx.y), tx (threadIdx.x) { acc[ty*8 + i][tx*8 + j] = 0 }
//     for k { for t (threadIdx.x) { As[..] = A[..] } ... }
//
// A loop nest over threads is a *phase*: what a block does between two barriers. In the bodies of
// GpuKernels (the *thread form*) each thread runs the body once:
//   - a block loop binds its variable to blockIdx; a thread loop binds its variable to threadIdx
//     and, where its extent is less than that of the block, runs its body only in the threads below
//     it;
//   - Local buffers belong to one thread, Shared ones to the block, Global ones and arguments to
//     all;
//   - statements outside of thread loops are run by every thread of the block;
//   - Sync, Shuffle, TileOp and Async stores have the meaning of their CUDA counterparts;
//   - every access has one flat index; vector accesses are contiguous.
//
// A cluster of n blocks acts as one block of n times as many threads. threadIdx.x loops run over
// the threads of all its blocks, those of the first block first. Sync Block is a barrier of the
// cluster. Each block has a copy of all shared memory: a store goes to every copy (sm_90's
// distributed shared memory), and a load reads the block's own. Each block counts the arrival of
// Async stores. An AsyncWait, which all threads reach once, waits until all elements of the buffers
// that were stored in this way since the last one have arrived.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle {

/// One kernel of a GPU program in thread form, and its launch.
struct GpuKernel {
  std::string name;
  std::vector<Buffer> args;  ///< arguments and workspace that the body reads or writes, in order
  Stmt body;
  std::array<int64_t, 3> grid{
      1, 1, 1};  ///< blocks along x, y, z; the largest numbers where they depend on sizes
  /// The number of blocks along a dimension in terms of `sizes`, where it depends on symbolic
  /// sizes. Else null.
  std::array<Expr, 3> grid_of;
  std::array<int64_t, 3> block{1, 1, 1};  ///< threads along x, y, z
  int64_t cluster = 1;  ///< blocks of a cluster, along x; block loops along x count clusters
  int64_t pair = 1;  ///< 2: blocks run in pairs (LoopKind::PairX); block loops along x count pairs
  /// Run by the last block to finish `body`. It sees everything that the other blocks wrote. May be
  /// null.
  Stmt tail;
  Buffer tickets;  ///< counter of a kernel with a tail: one u32, zero before and after; the last
                   ///< argument
  /// The place of each Shared buffer of the body. Buffers of the two arms of an If may overlap.
  struct SharedSlot {
    Buffer buffer;
    int64_t offset;  ///< in bytes, a multiple of 16
  };
  std::vector<SharedSlot> shared;
  int64_t shared_bytes = 0;  ///< bytes of all of them together
  /// The source of a BulkLoad, which is a parameter of the kernel after the args. TMA reads boxes
  /// of `rows` rows of 128 bytes. Rows run along dimension `row_dim`.
  struct TensorMap {
    Buffer source;
    int row_dim = 0;
    int64_t rows = 0;
    std::vector<WindowDim> windows;  ///< rows are windows of the source, where there are any
    bool operator==(const TensorMap&) const = default;
  };
  std::vector<TensorMap> maps;
  /// Whether all threads wait for the kernels before this one (SyncKind::GridWait) before they
  /// access memory that these write or read, so that a launch may begin before they have ended.
  bool overlaps = false;
  /// Whether rows that begin anywhere are read by vectors (the pass align_rows).
  bool aligns_rows = false;
  /// The symbolic sizes that the body or the tail uses. They are i64 parameters after args and
  /// maps.
  std::vector<Var> sizes;
  /// Kernels that one launch runs side by side (lower/gpu/memory/join_kernels.h); usually none. The
  /// first blocks of the grid, which has one dimension, are those of the first part, and so on.
  /// Each part counts its own blocks and threads. Threads of a block beyond those of its part leave
  /// at once. The args are those of all parts, one part after the other, and `body` is null.
  std::vector<GpuKernel> parts = {};
};

/// The kernels after one pass of lower_gpu, and what the pass cost.
struct GpuPassRecord {
  std::string name;
  double ms = 0;
  std::vector<GpuKernel> main, prepare;  ///< filled only with LowerOptions::keep_passes
};

/// Like LoweredProgram: `main` takes the arguments of the program, then the buffers of
/// `persistent`, which `prepare` computes from the constant arguments.
struct GpuProgram {
  std::string name;
  std::vector<Buffer> args;
  std::vector<GpuKernel> main, prepare;
  std::vector<Buffer> workspace;  ///< Global temporaries, and counters of tails
  std::vector<Buffer> persistent;
  std::vector<int> constant_args;  ///< positions among `args`
  std::vector<Var> sizes;          ///< symbolic sizes, which a call gives
  std::vector<GpuPassRecord> passes;
};

/// The map that a BulkLoad or BulkStore needs; nullopt for other operations.
std::optional<GpuKernel::TensorMap> map_of(const TileOp& op);
/// The map of the kernel that is this one; null where it has none.
const GpuKernel::TensorMap* find_map(const GpuKernel& kernel, const TileOp& op);

/// The text of a kernel and of a program, for `heddle explain` and tests.
std::string to_string(const GpuKernel& kernel);
std::string to_string(const GpuProgram& program);
/// The kernels after a pass, which kept them.
std::string to_string(const GpuPassRecord& pass);

}  // namespace heddle
