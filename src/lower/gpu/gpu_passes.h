// The passes from the sequential form to the thread form (see lower/gpu_program.h), each in a file
// of its name. Those that return a Stmt are pure. The others fill in members of the kernel beside
// its body.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "heddle/ir/stmt.h"
#include "heddle/lower/gpu_program.h"
#include "heddle/schedule/schedule.h"

namespace heddle::gpu {

/// The first values of sums that blocks combine, by all threads, and sources of scatters where they go
/// (combined_stores.cpp). Throws a User error where the loops over sources are not the outermost ones.
Stmt combined_stores(const Stmt& s);

using Dim3 = std::array<int64_t, 3>;

/// The largest extents of the block and thread loops of a kernel. For a kernel of clusters: the
/// number of clusters along x, and the threads of all blocks of a cluster.
struct LaunchShape {
  Dim3 grid{1, 1, 1}, block{1, 1, 1};
  int64_t cluster = 1;  ///< blocks of a cluster
  /// The number of iterations of the block loops along a dimension, where it depends on symbolic
  /// sizes.
  std::array<Expr, 3> grid_of;
  int64_t threads() const { return block[0] * block[1] * block[2]; }
};
LaunchShape launch_shape(const Stmt& s);

/// Exchanges the block loops along x with those along y or z of which there may be more than 65,535,
/// as a batch of rows and keys has where both depend on the sizes of a call:
///   for i (blockIdx.z) in 0..rows*keys { for j (blockIdx.x) in 0..4 { .. } }
///     -->  for i (blockIdx.x) in 0..rows*keys { for j (blockIdx.z) in 0..4 { .. } }
void turn_grid(GpuKernel& kernel);

/// Throws a User error for a shape that no GPU can launch. `body` is the body of the kernel.
void check_launch_shape(const std::string& name, const LaunchShape& shape, const Stmt& body);

/// Sets the blocks and threads of `kernel` from a shape, in which a cluster is several blocks, and
/// the inverse.
void set_shape(GpuKernel& kernel, const LaunchShape& shape);
LaunchShape shape_of(const GpuKernel& kernel);

/// Fills in the symbolic sizes that body and tail use.
void note_sizes(GpuKernel& kernel);

/// Local buffers that all threads of a block share in the sequential form become one thread's own:
///   acc[ty*8 + i][tx*8 + j]  -->  acc[i][j]
/// where every access agrees on which thread an element belongs to; else they go to shared memory.
/// Reductions over a thread loop become butterfly shuffles (and a hop through shared memory).
Stmt distribute(const Stmt& s, const LaunchShape& shape);

/// Lets one thread run each store to memory of the block or of the grid that is outside of some
/// thread loop.
Stmt single_out_stores(const Stmt& s, const LaunchShape& shape);

/// Joins two conditions for an element or zero: select(a, select(b, x, 0), 0) becomes select(a &&
/// b, x, 0), which cp.async can execute. The pattern comes from padding within a padded tile.
Stmt join_zero_fills(const Stmt& s);

/// Rows of varying length begin anywhere, and vectors only at multiples of their lanes. So a thread
/// takes the lanes of a row that lie between such multiples:
///   for lane (vectorized) in 0..4 { if (t*4 + lane < n) { part[lane] = x[start + t*4 + lane] } }
///     -->  s = start % 4
///          if (s <= t*4 && t*4 + 4 <= n + s) { part[0:4] = x[start - s + t*4 : 4] }
///          else { for lane { if (s <= t*4 + lane && t*4 + lane < n + s) { .. } } }
/// where all loops over the row agree on which thread has which element.
Stmt align_rows(const Stmt& s);

/// Drops the condition around a masked sum where the mask implies it, so that loads of several
/// rounds are under way together:
///   if (16*o + 4*i < n) { s = s + select(t + 16*o + 4*i < n, x[..], 0) }
///     -->  s = s + select(t + 16*o + 4*i < n, x[..], 0)
Stmt drop_implied_guards(const Stmt& s);

/// Versions for the part of a row of varying length that a thread keeps, because registers need
/// constant indices:
///   local part[256]  for r in 0..ceil(n / 128) { part[r] = x[r*128 + t] }
///     -->  if (n <= 256) { local part[2]  for (unrolled) r in 0..2 { if (r < ceil(n / 128)) .. } }
///          else if (n <= 1024) { the same with 8 }  else ..  else { as it was }
Stmt keep_rounds_in_registers(const Stmt& s);

///   for k { shared x N A; fill A from k; use A }
///     -->  fill N - 1; for k { wait; fill the next; use A }
/// Runs after flatten and vectorize. Copies become asynchronous where cp.async can do them.
Stmt software_pipeline(const Stmt& s);

/// In a kernel whose tiles are loaded by TMA, one warp group loads and the others multiply (picture
/// in warp_roles.cpp), in at most as many blocks as there are multiprocessors. Other kernels stay as they are. Returns the memory
/// that the blocks need beside their arguments: sums and tickets of the tiles that several blocks
/// share.
std::vector<Buffer> warp_roles(GpuKernel& kernel, const Schedule& schedule);

/// Fills in the maps that the kernel's BulkLoads need.
void collect_maps(GpuKernel& kernel);

/// Takes a condition that is the same in all iterations of unrolled loops, whose stores load behind it, out of them.
Stmt lift_conditions(const Stmt& s);

/// Lets buffers of shared memory take the places of others that no later statement touches, where a block asks for
/// much of it.
Stmt reuse_shared(const Stmt& s);

/// Inserts barriers between phases that share memory, and only there.
Stmt insert_sync(const Stmt& s, const LaunchShape& shape);

/// Lets the kernel begin while the kernels before it run: all threads wait for these (GridWait)
/// before the first access to memory that kernels share.
///   shared x; init x; for k { y[k] = a[k] }  -->  shared x; init x; grid wait; for k { .. }
void overlap_launch(GpuKernel& kernel);

/// The same. Threads load what they read first of large `constants` into registers before they wait.
void overlap_launch(GpuKernel& kernel, const std::vector<Buffer>& constants);

/// Loads ahead of a choice what elements of tiles are computed from, where they may lie beyond the
/// sizes of the call, so that their arithmetic has no branches:
///   t[j] = i < n ? f(x[i]) : 0  -->  v = i < n ? x[i] : 0;  u = f(v);  t[j] = i < n ? u : 0
void predicate_loads(GpuKernel& kernel);

/// Loads what selects choose between before their conditions are known, where that is in bounds anyway and data
/// decide, lanes of a vector differ, or a product's epilogue chooses:
///   y[i] = m[i] > 0 ? a[i] : 0  -->  v = a[i];  y[i] = m[i] > 0 ? v : 0
void load_ahead(GpuKernel& kernel);

/// Gives each Shared buffer of the kernel its place.
void place_shared(GpuKernel& kernel);

}  // namespace heddle::gpu
