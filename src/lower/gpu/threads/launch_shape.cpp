#include <algorithm>

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

// The largest number of threads of a block on all CUDA devices.
constexpr int64_t kMaxThreads = 1024, kWarpLanes = 32;

// Combines a loop over blocks with those along its dimension, which have at most `most` iterations
// so far.
void note_blocks(const For& f, int64_t most, LaunchShape* shape) {
  Expr& of = shape->grid_of[static_cast<size_t>(grid_dim(f.loop))];
  const bool sized = is_symbolic(f.extent);
  if (!sized && !of.defined()) return;
  const Expr before = of.defined() ? of : Expr(most);
  const Expr here = sized ? f.extent : Expr(largest_extent(f.extent));
  of = equal(before, here) ? here : simplify(max(before, here));
}

void collect(const Stmt& s, const Ranges& ranges, LaunchShape* shape) {
  if (!s) return;
  const For* f = s.as<For>();
  if (!f) {
    map_children(
        s,
        [&](const Stmt& c) {
          collect(c, ranges, shape);
          return c;
        },
        [](const Expr& e) { return e; });
    return;
  }
  const Interval extent = range_of(f->extent, ranges);
  if (is_block(f->loop) || is_thread(f->loop)) {
    Dim3& dims = is_block(f->loop) ? shape->grid : shape->block;
    int64_t& n = dims[static_cast<size_t>(grid_dim(f->loop))];
    if (is_block(f->loop)) note_blocks(*f, n, shape);
    n = std::max(n, extent.max);
    shape->cluster = std::max<int64_t>(shape->cluster, f->loop.cluster);
  }
  // The lanes of a warp compute the nest, and its loops may be the only ones of theirs.
  if (f->loop.instruction == InstructionName("lanes"))
    shape->block[0] = std::max<int64_t>(shape->block[0], kWarpLanes);
  Ranges inside = ranges;
  inside.set(f->var, {0, std::max<int64_t>(0, extent.max - 1)});
  collect(f->body, inside, shape);
}

}  // namespace

LaunchShape launch_shape(const Stmt& s) {
  LaunchShape shape;
  collect(s, {}, &shape);
  return shape;
}

void check_launch_shape(const std::string& name, const LaunchShape& shape, const Stmt& body) {
  if (shape.block[0] % shape.cluster != 0 ||
      (shape.cluster > 1 && shape.block[0] / shape.cluster % 32 != 0)) {
    throw_user_error("kernel '" + name + "' shares threadIdx.x of " +
                         std::to_string(shape.block[0]) + " among clusters of " +
                         std::to_string(shape.cluster) + " blocks",
                     {}, "give each block of a cluster whole warps");
  }
  const int64_t threads = shape.threads() / shape.cluster;
  if (threads > kMaxThreads) {
    throw_user_error("kernel '" + name + "' would have " + std::to_string(threads) +
                         " threads in a block; there can be " + std::to_string(kMaxThreads),
                     {}, "bind shorter loops to threads");
  }
  visit(
      body,
      [&](const Stmt& s) {
        const Allocate* a = s.as<Allocate>();
        if (shape.cluster == 1 || !a || a->copies == 1) return;
        throw_user_error("kernel '" + name + "' of clusters keeps " + std::to_string(a->copies) +
                             " copies of '" + a->buffer->name +
                             "', and asynchronous copies do not reach the other blocks",
                         {}, "leave out multi_buffer, or the clusters");
      },
      [](const Expr&) {});
}

void set_shape(GpuKernel& kernel, const LaunchShape& shape) {
  kernel.grid = shape.grid;
  kernel.block = shape.block;
  kernel.cluster = shape.cluster;
  kernel.grid[0] *= shape.cluster;
  kernel.grid_of = shape.grid_of;
  if (kernel.grid_of[0].defined() && shape.cluster > 1)
    kernel.grid_of[0] = simplify(kernel.grid_of[0] * Expr(shape.cluster));
  kernel.block[0] /= shape.cluster;
}

void note_sizes(GpuKernel& kernel) {
  kernel.sizes.clear();
  std::vector<Var> computed;  // sizes that the kernel computes from others
  visit(
      make_block({kernel.body, kernel.tail}),
      [&](const Stmt& s) {
        if (const Let* let = s.as<Let>()) computed.push_back(let->var);
      },
      [&](const Expr& e) {
        if (e.kind() == ExprKind::Var) add_sizes(e, &kernel.sizes);
      });
  std::erase_if(kernel.sizes, [&](const Var& v) {
    return std::any_of(computed.begin(), computed.end(),
                       [&](const Var& c) { return c.same_as(v); });
  });
}

LaunchShape shape_of(const GpuKernel& kernel) {
  LaunchShape shape{kernel.grid, kernel.block, kernel.cluster, kernel.grid_of};
  shape.grid[0] /= kernel.cluster;
  if (shape.grid_of[0].defined() && kernel.cluster > 1)
    shape.grid_of[0] = simplify(floordiv(shape.grid_of[0], Expr(kernel.cluster)));
  shape.block[0] *= kernel.cluster;
  return shape;
}

}  // namespace heddle::gpu
