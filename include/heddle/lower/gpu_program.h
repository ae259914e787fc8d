// What lowering makes of a schedule for a GPU: kernels, to be launched one after the other.
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
//     and, where its extent is less than the block's, runs its body only in the threads below it;
//   - Local buffers belong to one thread, Shared ones to the block, Global ones and arguments to
//     all;
//   - what lies outside of thread loops is run by every thread of the block, alike;
//   - Sync, Shuffle, TileOp and Async stores do what CUDA's counterparts do;
//   - every access has one flat index; vector accesses are contiguous.
//
// A cluster of n blocks stands in for one block of n times as many threads: threadIdx.x loops run
// over the threads of all its blocks, those of the first block first, Sync Block is a barrier of
// the cluster, and each block has a copy of all shared memory, to which every store goes (into the
// memory of the other blocks, sm_90's distributed shared memory); loads read the block's own.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle {

struct GpuKernel {
  std::string name;
  std::vector<Buffer> args;  ///< arguments and workspace that the body reads or writes, in order
  Stmt body;
  std::array<int64_t, 3> grid{1, 1, 1};   ///< blocks along x, y, z
  std::array<int64_t, 3> block{1, 1, 1};  ///< threads along x, y, z
  int64_t cluster = 1;  ///< blocks of a cluster, along x; block loops along x count clusters
  /// What the last block to finish `body` does then, with all that the others wrote; may be null.
  Stmt tail;
  Buffer tickets;  ///< where there is a tail: one u32, zero before and after; the last argument
  /// Where each Shared buffer of the body lies. Those of the two arms of an If may overlap.
  struct SharedSlot {
    Buffer buffer;
    int64_t offset;  ///< in bytes, a multiple of 16
  };
  std::vector<SharedSlot> shared;
  int64_t shared_bytes = 0;  ///< of all of them together
};

/// Like LoweredProgram: `main` takes the arguments of the program, then the buffers of
/// `persistent`, which `prepare` computes from the constant arguments.
struct GpuProgram {
  std::string name;
  std::vector<Buffer> args;
  std::vector<GpuKernel> main, prepare;
  std::vector<Buffer> workspace;  ///< Global temporaries of `main` and `prepare`, and tickets
  std::vector<Buffer> persistent;
  std::vector<int> constant_args;  ///< positions among `args`
};

std::string to_string(const GpuKernel& kernel);
std::string to_string(const GpuProgram& program);

}  // namespace heddle
