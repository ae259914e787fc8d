// Operations of GPU kernels on tiles, each with what it needs beside its operands, which are listed
// in braces. Those of a warp are run by all 32 lanes together. Fragments have the register layouts
// of PTX (heddle/instruction/tiles.h).
//
// On sm_90, barriers are elements of u64 in shared memory (mbarrier). Tiles are in shared memory, in
// boxes of rows of 128 bytes: as operands name them, one row after the other; in memory, with the
// 16-byte pieces of a row swizzled (the 128-byte swizzle of TMA and wgmma).
#pragma once

#include <variant>
#include <vector>

#include "heddle/ir/buffer.h"

namespace heddle::tile {

/// {to: local, from: shared}: loads 1, 2 or 4 matrices of 8 rows of 16 bytes. `from` of lane l is
/// the address of row l % 8 of matrix l / 8. Each lane receives 32 bits of each matrix: element l %
/// 4 of row l / 4. Each 8x8 matrix of 16-bit elements may be transposed.
struct LoadMatrix {
  int matrices;
  bool transposed;
  bool operator==(const LoadMatrix&) const = default;
};
/// {x: local}: rounds f32 registers of each lane, from x on, to tf32 (to nearest, ties away from
/// zero). Without it Mma truncates f32 operands.
struct RoundTf32 {
  int registers;
  bool operator==(const RoundTf32&) const = default;
};
/// {d, a, b}: d += a * b for an m x n x k tile. Each operand names the registers of a lane.
struct Mma {
  int m, n, k;
  bool operator==(const Mma&) const = default;
};
/// A box of TMA: `rows` rows of `columns` elements.
struct Box {
  int rows, columns;
  int row_dim;  ///< the dimension in memory that rows run along; elements run along the last one
  bool operator==(const Box&) const = default;
};
/// {tile, source, coordinates.., [barrier]}: one thread copies a box by TMA. The coordinates, one a
/// dimension of the source, are those of its first element. Zeros beyond its ends. The barrier, the
/// last operand where there is one, counts the bytes of the box. With `windows` (TMA's im2col form)
/// rows are windows of an image, in row-major order over batch and `windows`. The coordinates are
/// those of the first element of the first window; an offset within the window for each dimension of
/// `windows` follows them.
struct BulkLoad {
  Box box;
  bool by_pair;  ///< each block of a pair loads one half of the rows, for both blocks
  std::vector<WindowDim> windows;
  bool operator==(const BulkLoad&) const = default;
  int rows_at_once() const { return by_pair ? box.rows / 2 : box.rows; }
};
/// {d: local, a, b}: d += a * b, m x n x k, by a warp group (wgmma): asynchronous until GroupWait.
/// `a` may be a local fragment of 16-bit floats.
struct GroupMma {
  int m, n, k;
  bool a_across, b_across;  ///< rows of boxes run along rows of a or columns of b, and not along k
  bool begins;              ///< d = a * b
  bool operator==(const GroupMma&) const = default;
};
/// {d: local}: until at most `pending` groups of GroupMma are incomplete. `registers` from d on are
/// accumulators that are then complete.
struct GroupWait {
  int pending, registers;
  bool operator==(const GroupWait&) const = default;
};
/// {barrier}: one thread; each of its phases takes `arrivals`.
struct BarrierInit {
  int arrivals;
  bool operator==(const BarrierInit&) const = default;
};
/// {barrier}: one arrival, and more bytes that the phase waits for.
struct BarrierExpect {
  int bytes;
  bool operator==(const BarrierExpect&) const = default;
};
/// {barrier}: one arrival, or one at the barriers of both blocks of a pair.
struct BarrierArrive {
  bool at_pair;
  bool operator==(const BarrierArrive&) const = default;
};
/// {barrier, barrier with the parity as its index}: until the phase of that parity is complete.
struct BarrierWait {
  bool operator==(const BarrierWait&) const = default;
};
/// {tile, destination, coordinates..}: one thread copies a box to memory by TMA, as BulkLoad does
/// from there. Nothing is written beyond the ends.
struct BulkStore {
  Box box;
  bool operator==(const BulkStore&) const = default;
};
/// {last: local, ticket, number of arrivals: an index, first part, end of the parts}: all threads of
/// a warp group. `last` becomes 1 in the last warp group that arrives at the ticket, else 0. That
/// one then sees the parts, which the others stored before. The ticket is 0 before the first and
/// after the last arrival.
struct LastArrival {
  bool only_last;  ///< a warp group arrives only if it is the last one
  bool operator==(const LastArrival&) const = default;
};

using Operation =
    std::variant<LoadMatrix, RoundTf32, Mma, BulkLoad, GroupMma, GroupWait, BarrierInit,
                 BarrierExpect, BarrierArrive, BarrierWait, BulkStore, LastArrival>;

}  // namespace heddle::tile
