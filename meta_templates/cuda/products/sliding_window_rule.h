// The rule for windows that slide over an image on a GPU. It chooses the tile of a thread. The
// recipe is in sliding_window.cpp.
#pragma once

#include "cuda/common.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta {

/// The points of the result that one thread computes: `lanes` along the last axis, and `x` times
/// `y` along the last two other axes that the window slides along.
struct WindowTile {
  int64_t lanes = 1, x = 1, y = 1;
  int64_t threads = 128;  ///< of a block
  bool by_rows = false;   ///< the window is loaded row by row
  int64_t points() const { return lanes * x * y; }
};

/// The facts that the rule uses. An axis of extent 1 stands for one that is absent.
struct WindowProblem {
  int64_t points = 1, last = 1;  ///< of the result; along its last axis
  int64_t x = 1, y = 1;          ///< extents of the axes of the tile
  int64_t taps = 1;
  bool pools = false;                             ///< there is no filter
  int64_t taps_x = 1, taps_y = 1, taps_last = 1;  ///< extents of the window along these axes, and
                                                  ///< along the last one
  int64_t stride_x = 1, stride_y = 1, stride_last = 1;
  int64_t element_bytes = 4;  ///< of the image
  double epilogue_flops = 0;  ///< of a point, in what follows the window
  bool has_rows = false;      ///< the window is kept, does not fit as a whole, and can be loaded by
                              ///< rows
  Gpu gpu;
  GpuConstants constants = {};  ///< by which the rule judges

  /// The elements of the image that a thread keeps.
  int64_t window(const WindowTile& t) const {
    return ((t.lanes - 1) * stride_last + taps_last) * ((t.x - 1) * stride_x + taps_x) *
           ((t.y - 1) * stride_y + (t.by_rows ? 1 : taps_y));
  }
  /// Whether the accumulators, the window and the text of a thread are small enough.
  bool fits(const WindowTile& t) const;
  /// The lanes of a whole vector of the last axis, as far as a thread may have them.
  int64_t widest_lanes() const { return whole_vector(last, taps_last > 1 ? 4 : 8); }
  NamedFeatures features() const;
};

/// Estimated cycles of an SM for a filter over an image whose channels are innermost. The
/// instructions of all threads over the share of the cycles in which an SM has a warp to run, which
/// grows with the warps that its registers have room for, and the time of the memory beside it.
/// The weights are a fit to 1,400 times of an H100 (depthwise convolutions of 3x3 to 7x7, f16 and
/// f32, batch 1 to 32).
double window_cycles(const WindowProblem& p, const WindowTile& t);

/// The defaults of lanes, tile_x, tile_y, threads, and by_rows (where the window may be loaded so).
Choice sliding_window_rule(const WindowProblem& p);

}  // namespace heddle::meta
