// The tensor maps of a kernel: the boxes that TMA loads and stores.
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

// Rows of the source begin at multiples of 16 bytes, whatever the sizes.
void check_rows(const GpuKernel& kernel, const Buffer& source) {
  constexpr int64_t kPitch = 16;
  const Expr bytes = source->shape.back() * Expr(int64_t{source->dtype.bytes()});
  if (is_const(simplify(floormod(bytes, Expr(kPitch))), 0)) return;
  throw_user_error("kernel '" + kernel.name + "' loads rows of '" + source->name +
                       "' by TMA, which takes rows of a multiple of 16 bytes",
                   {},
                   "promise multiples: dim(..).multiple_of(" +
                       std::to_string(kPitch / source->dtype.bytes()) + ")");
}

}  // namespace

void collect_maps(GpuKernel& kernel) {
  kernel.maps.clear();
  visit(
      kernel.body,
      [&](const Stmt& s) {
        const TileOp* op = s.as<TileOp>();
        const auto map = op ? map_of(*op) : std::nullopt;
        if (!map || find_map(kernel, *op)) return;
        check_rows(kernel, map->source);
        kernel.maps.push_back(*map);
      },
      [](const Expr&) {});
}

}  // namespace heddle::gpu
