// Figures of a loop nest on a GPU: its kernels, their launches, and the memory requests of a warp.
// They come from the same walk as those for CPUs (program_walk.h), before lowering distributes work
// over threads. Thread loops still enclose the work of a block between two barriers.
#pragma once

#include <vector>

#include "cost_model/program_walk.h"

namespace heddle::cost_model {

/// One access of a statement by a warp: 32 threads, consecutive in threadIdx.x first.
struct WarpAccess {
  const Access* access = nullptr;
  Scope scope = Scope::Argument;
  double vector_bytes = 4;  ///< bytes of a thread's load or store
  double requests = 0;      ///< requests of all warps in the kernel
  /// Global memory: sectors of 32 bytes that a request touches. Shared memory: cycles that the
  /// banks need for it.
  double transactions = 0;
  double least = 1;    ///< transactions if the bytes of the threads were adjacent
  double stride = 0;   ///< bytes from one threadIdx.x to the next
  double bytes = 0;    ///< that threads ask for, in all
  double traffic = 0;  ///< bytes that transactions move, in all
  double unique = 0;   ///< different bytes
};

struct GpuStatement {
  const Statement* s = nullptr;
  int kernel = 0;
  double blocks = 1, threads = 1;  ///< of its own loops; threads: of a block
  double serial = 1;               ///< iterations in a thread, vectors counted once
  double vector = 1, unrolled = 1;
  double phases = 0;  ///< executions of its thread loops by a block, each followed by a barrier
  bool tensor = false;
  double executions = 0;  ///< scalar
  std::vector<WarpAccess> accesses;
};

struct GpuLaunch {
  double grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  double cluster = 1;  ///< blocks of a cluster
  double pair = 1;     ///< 2 where neighbouring blocks load together what both need
  double shared_bytes = 0;
  double registers = 0;  ///< estimated registers of a thread: arrays in registers and a few more
  double resident = 1;   ///< blocks on an SM
  double waves = 1;      ///< blocks over what all SMs hold
  double syncs = 0;      ///< largest number of barriers that a block executes
  double flops = 0, tensor_flops = 0, global_bytes = 0, shared_traffic = 0;
  bool has_loader = false;  ///< persistent blocks have a warp group that loads
  double seconds = 0;       ///< estimate: the longest of memory, shared memory and arithmetic, with
                            ///< partial waves counted whole
  double blocks() const { return grid[0] * grid[1] * grid[2]; }
  double threads() const { return block[0] * block[1] * block[2]; }
};

struct GpuView {
  const Program* p = nullptr;
  const Target* target = nullptr;
  std::vector<GpuLaunch> launches;       ///< the longest first
  std::vector<GpuStatement> statements;  ///< those of most work first
};

GpuView view_on_gpu(const Program& p, const Target& target);

}  // namespace heddle::cost_model
