// Loop nests that a matrix unit runs as one operation, as the schedule's tensorize() marks them:
//
//   tensorized for m in 0..16 { for n in 0..8 { for k in 0..16 {
//     C[..] = C[..] + f32(A[..])*f32(B[..]) } } }
//   tensorized for m in 0..16 { for k in 0..16 { A[..] = tile[..] } }     a fragment's load
//   tensorized for m in 0..16 { for n in 0..8 { C[..] = 0 } }
//
// Fragments are stages whose storage has the layouts of mma (heddle/instruction/tiles.h), the lane in
// two dimensions of its own:
//   C [..m/16][n/8]   [m%8][(n/2)%4]  [(m/8)%2][n%2]
//   A [..m/16][k/8p]  [m%8][(k/p)%4]  [(k/4p)%2][(m/8)%2][k%p]
//   B [..k/8p][n/8]   [n%8][(k/p)%4]  [(k/4p)%2][k%p]
//
// Other nests compute elements of fragments one by one, or reduce rows of them (row_nest.h). Values
// of rows are fragments too, which the four lanes of a row each have:
//   Row [..m/16]      [m%8]           [(m/8)%2]
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heddle/ir/stmt.h"
#include "instruction/unify.h"
#include "lower/select_instructions.h"

namespace heddle::gpu {

enum class Fragment : uint8_t { C, A, B, Row };

/// Which dimension of the fragment's storage holds lane / 4; the next one holds lane % 4, except
/// for Row.
size_t lane_dim(Fragment f, size_t rank);

using Fragments = std::map<const BufferNode*, Fragment>;

/// The fragments that the tensorized products of `s` name.
Fragments find_fragments(const Stmt& s);

struct TileNest {
  enum class Kind : uint8_t {
    Product,
    Load,
    Fill,
    GroupProduct,  ///< one warp's part of a wgmma (group_nest.h)
    BulkLoad,      ///< a box, or rows of windows of an image, that TMA copies
    BulkStore,     ///< a box that TMA copies to memory
  } kind = Kind::Fill;
  using Place = instructions::Place;
  Place c, a,
      b;  ///< of the tile's first element; products: all; Load: `a` is the fragment; Fill: `c`; BulkLoad: `a` is the
          ///< tile, `b` the source; BulkStore: `b` the destination
  Fragment loaded = Fragment::A;
  Expr value;           ///< Fill: what each element becomes; Load: the element at `row`, `col`
  int64_t columns = 0;  ///< Load: of the tile; 16 for B: two tiles side by side; Fill,
                        ///< GroupProduct: of the fragment, tiles of 8; BulkLoad: rows of the box
  bool a_across = false, b_across = false;  ///< GroupProduct: as in tile::GroupMma
  int row_dim = 0;  ///< BulkLoad: dimension of the source that rows of the box run along
  int pack = 0;     ///< Load, Product: operands in a register
  Var row, col;     ///< Load: the variables of the tile's rows and columns in `value`
  /// BulkLoad of windows of an image: the windows, and the place of the box within each of them. `b` is
  /// then the first element of the first window.
  std::vector<WindowDim> windows;
  std::vector<Expr> offsets;
};

/// The loops of a marked nest, and the store at the bottom.
struct MarkedNest {
  std::vector<instructions::NestLoop> loops;
  std::vector<Expr> guards;  ///< the conditions on the way
  const Store* store = nullptr;
  lowering::Around around;
};
/// A way to take a marked nest as an operation of a matrix unit or of TMA. Nullopt where it is not
/// one; `why` then receives the reason.
struct TileMatch {
  const MachineInstruction& instruction;
  std::function<std::optional<TileNest>(const MarkedNest&, std::string* why)> attempt;
};
/// All ways. They refer to `fragments`.
std::vector<TileMatch> tile_matches(const Fragments& fragments);
/// The nest of `loop` in this way.
std::optional<TileNest> try_parse(const TileMatch& match, const For& loop,
                                  const lowering::Around& around, std::string* why);
/// The operations of the nests that select_instructions has taken.
using TileNests = std::map<const StmtNode*, TileNest>;

}  // namespace heddle::gpu
