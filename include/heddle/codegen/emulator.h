// Runs GPU programs (the thread form of lower/gpu_program.h) on the CPU, and finds what a GPU would
// only sometimes show: races, barriers that not all threads reach, reads of what was never written.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/lower/gpu_program.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

struct EmulatorOptions {
  /// 0: blocks and warps in order. Otherwise blocks run, and the warps of a block take their turns
  /// within a statement, in an order drawn from this seed. A program with no error gives the same
  /// result in any order.
  uint64_t seed = 0;
};

/// Runs `prepare`, then `main`, on `args` (in the order of program.args). Workspace and persistent
/// buffers start out unwritten.
///
/// All threads of a block run each statement together, those that a loop or a branch leaves out
/// being idle; blocks run one after the other. Float arithmetic is the interpreter's, each
/// operation rounded to its type. Mma multiplies exactly, adds up in double and rounds once (tf32
/// operands are truncated to 10 bits of mantissa); a GPU keeps fewer bits.
///
/// Throws an internal Error that names buffer, element, statement(s), block and thread for:
///  - an access outside of a buffer; a read of a Local, Shared or Global element never written
///  since
///    its buffer was allocated;
///  - a race: two accesses to one element of a Shared, Global or Argument buffer by two threads,
///  one
///    of them a write (of the same value or not), that nothing orders. (Of a place in shared
///    memory: buffers that lie there one after the other are one.) Sync Block orders the threads of
///    a block, Sync Warp the lanes of a warp. Shuffles and tile operations order nothing, as CUDA
///    promises nothing of memory there; neither does running in lockstep;
///  - Sync Block that not all threads of the block reach together; Sync Warp, a tile operation or a
///    shuffle with a lane missing that takes part;
///  - a touch of an element that an asynchronous copy has not finished writing. An Async store
///  writes
///    when its thread waits for its group (cp.async.wait_group; stores that were never committed
///    are never complete), and is a write of that moment: other threads see it after a Sync Block;
///  - what the contract does not allow: loops that exceed the grid, Shared buffers outside of
///    GpuKernel::shared_bytes or upon one another, fragments of the wrong type.
void emulate(const GpuProgram& program, const std::vector<NDArray>& args,
             const EmulatorOptions& options = {});

}  // namespace heddle
