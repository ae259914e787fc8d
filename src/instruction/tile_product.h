// Loop nests that add the product of two tiles to a third, as a schedule's tensorize() marks them:
//
//   tensorized for k in ..  { for k .. {                          any loops of the reduction
//     for mt in 0..2 { for nt in 0..2 {                           tiles that stay in registers
//       for m in 0..16 { for g in 0..16 { unrolled for j in 0..2 { vectorized for n in 0..16 {
//         C[c + n] = C[c + n] + f32(A[a + j]) * f32(B[b + n*2 + j])
//   } } } } } } } }
//
// where the rows of a tile are a constant distance apart in the indices c, a and b. A tile of AMX
// has up to 16 rows of 64 bytes. The rows of B consist of groups along the reduction (two 16-bit
// floats, four bytes). Loops of one iteration may be missing, and g and j may be one loop.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "heddle/instruction/tiles.h"
#include "heddle/ir/stmt.h"

namespace heddle::instructions {

/// The configuration that ldtilecfg loads.
using TileConfig = std::array<uint8_t, 64>;

struct TileProduct {
  struct Operand {
    Buffer buffer;
    Expr at;           ///< index of the first element, with the loops inside of a tile at 0
    int64_t step = 0;  ///< elements from a row of a tile to the next
  };
  /// Loops over tiles: of rows, which C and A depend on, or of columns, which C and B depend on.
  struct Tiles {
    std::vector<const For*> loops;
    int count() const;
    /// The variables at tile `i`.
    std::vector<VarBinding> at(int i) const;
  };
  Operand c, a, b;
  std::vector<const For*> reduce;  ///< outermost first: the marked loop, and others
  Tiles row_tiles, col_tiles;
  int64_t rows = 1;    ///< rows of A and C
  int64_t groups = 1;  ///< groups of 4 bytes in a row of A, which are the rows of B
  int lanes = 1;       ///< lanes of C, and groups in a row of B

  /// Registers are numbered with those of C first, by rows, then those of A and of B. At least one
  /// of the two operands is held while the other one passes through.
  int c_register(int row, int col) const;
  int a_register(int row) const;
  int b_register(int col) const;
  static constexpr int kRegisters = static_cast<int>(amx::kRegisters);
  bool holds_columns() const;  ///< whether tiles of B are held and those of A pass through
  TileConfig config() const;
};

/// `why` receives the reason where the nest of the marked `loop` is not such a product.
bool match_tile_product(const For& loop, TileProduct* product, std::string* why);

/// Whether `s` only sets to zero the elements of C that `p` adds to.
bool clears_tiles(const Stmt& s, const TileProduct& p);

}  // namespace heddle::instructions
