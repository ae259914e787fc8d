// The tiles of matrix units: their sizes, and where their elements lie. Templates lay stages out by
// these functions, and lowering checks the loops of an instruction against the same ones.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/support/dtype.h"

namespace heddle {

/// A storage dimension: (index of dimension `dim` / divisor) % modulus; modulus 0: the quotient.
struct LayoutDigit {
  int dim = 0;
  int64_t divisor = 1, modulus = 0;
  int64_t of(int64_t index) const {
    return modulus > 0 ? index / divisor % modulus : index / divisor;
  }
};
/// Storage dimensions, outermost first.
using LayoutDigits = std::vector<LayoutDigit>;

/// Products of a warp, mma.sync.m16n8k16 and its kin (PTX ISA, "Matrix multiply-accumulate"). An
/// operand of a warp is a fragment: each lane holds some of its elements in registers of 32 bits. A
/// layout has the tile first, then lane / 4 and lane % 4, then the elements of the lane.
namespace mma {
inline constexpr int64_t kRows = 16, kCols = 8;
/// Elements of an operand in a register: 1 (f32 as tf32), 2 or 4. 0: the type is none of operands.
int elements_per_register(DataType t);
/// The steps of the depth of one product of operands of which a register holds `pack`.
constexpr int64_t depth(int64_t pack) { return 8 * pack; }

/// The sums: rows `m`, columns `n`.
LayoutDigits accumulator(int m, int n);
/// The left operand: rows `m`, depth `k`.
LayoutDigits left(int m, int k, int64_t pack);
/// The right operand: depth `k`, columns `n`.
LayoutDigits right(int k, int n, int64_t pack);
/// One value for each row, which the four lanes of the row all hold. Only lane / 4 is in it.
LayoutDigits row_values(int m);
}  // namespace mma

/// Products of the four warps of a warp group (PTX ISA, "wgmma.mma_async"). Sums, and a left
/// operand in registers, are fragments of mma; other operands are boxes of tma.
namespace wgmma {
inline constexpr int64_t kWarps = 4, kRows = 64, kRowsOfWarp = kRows / kWarps;
/// The steps of the depth of one product of operands of type `t`: 32 bytes.
inline int64_t depth(DataType t) { return 32 / t.bytes(); }
/// The tiles of a warp group have this many lines where rows of boxes run across the depth.
inline constexpr int64_t kLinesAcross = 64;
}  // namespace wgmma

/// Copies of boxes between global and shared memory (PTX ISA, "cp.async.bulk.tensor"). A tile is
/// boxes of rows of 128 bytes, one row after the other.
namespace tma {
inline constexpr int64_t kRowBytes = 128, kMostRows = 256;
/// The elements of type `t` of a row of a box.
inline int64_t row_elements(DataType t) { return kRowBytes / t.bytes(); }

/// Rows of boxes have `row` elements of one line each and run along the depth. One box has all
/// lines.
LayoutDigits along_depth(int line, int depth, int64_t row);
/// Rows of boxes have one step of the depth of `row` lines each. One box has all of the depth.
LayoutDigits across_depth(int line, int depth, int64_t row);
/// The same where boxes have `row` steps of the depth each, one box behind the other.
LayoutDigits squares(int line, int depth, int64_t row);
}  // namespace tma

/// Tile registers of CPUs (Intel AMX): rows of 64 bytes. A row of the right operand has 16 groups
/// along the depth, and each group is four bytes; a row of sums has 16 results of 32 bits.
namespace amx {
inline constexpr int64_t kRows = 16, kGroups = 16, kLanes = 16, kGroupBytes = 4, kRegisters = 8;
/// The elements of type `t` of a group.
inline int64_t group(DataType t) { return kGroupBytes / t.bytes(); }
/// The right operand, whose groups have `group` elements. Its rows may lie apart.
LayoutDigits right(int k, int n, int64_t group);
}  // namespace amx

}  // namespace heddle
