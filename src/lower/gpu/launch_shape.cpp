#include <algorithm>

#include "heddle/ir/simplify.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

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
    n = std::max(n, extent.max);
    shape->cluster = std::max<int64_t>(shape->cluster, cluster_size(f->loop));
  }
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

}  // namespace heddle::gpu
