// Runs GPU programs (the thread form of lower/gpu_program.h) on the CPU, and reports errors that a
// GPU shows only sometimes: races, barriers that not all threads reach, reads of unwritten memory.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/lower/gpu_program.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

/// Options of the emulator of GPU programs.
struct EmulatorOptions {
  /// With 0, blocks and warps run in order. Otherwise the order of blocks, and of the warps of a
  /// block within a statement, is drawn from this seed. A program without errors gives the same
  /// result in any order.
  uint64_t seed = 0;
};

/// Runs `prepare`, then `main`, on `args` (in the order of program.args). Workspace and persistent
/// buffers start out unwritten.
///
/// All threads of a block run each statement together; threads that a loop or a branch leaves out
/// are idle. Blocks run one after the other. Float arithmetic is that of the interpreter, with each
/// operation rounded to its type. Mma multiplies exactly, accumulates in double and rounds once
/// (tf32 operands are truncated to 10 bits of mantissa); a GPU keeps fewer bits.
///
/// Throws an internal Error that names buffer, element, statements, block and thread for:
/// - an access outside of a buffer, and a read of a Local, Shared or Global element that was not
///   written since its buffer was allocated;
/// - a race: two accesses to one element of a Shared, Global or Argument buffer by two threads
///   without an order, of which one is a write, even of the same value. Buffers that occupy the
///   same shared memory one after the other count as one. Sync Block orders the threads of a
///   block, Sync Warp the lanes of a warp. Shuffles, tile operations and running in lockstep order
///   nothing, as in CUDA;
/// - a Sync Block that not all threads of the block reach together, and a Sync Warp, tile operation
///   or shuffle in which a participating lane is missing;
/// - an access to an element that an asynchronous copy has not finished writing. An Async store
///   writes when its thread waits for its group (cp.async.wait_group; stores that were never
///   committed never complete). It is a write of that moment: other threads see it after a Sync
///   Block;
/// - a violation of the contract: loops that exceed the grid, Shared buffers that exceed
///   GpuKernel::shared_bytes or overlap, fragments of the wrong type.
void emulate(const GpuProgram& program, const std::vector<NDArray>& args,
             const EmulatorOptions& options = {});

}  // namespace heddle
