#include "lower/gpu/tiles/fragment_load.h"

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"

namespace heddle::gpu {
namespace {

std::vector<Expr> at(const std::vector<Expr>& indices, const TileNest& t, const Expr& row,
                     const Expr& col) {
  std::vector<Expr> out;
  for (const Expr& i : indices) out.push_back(substitute(i, {{t.row, row}, {t.col, col}}));
  return out;
}

// Loads each register of a lane from its own element.
Stmt load_elements(const TileNest& t, const Expr& source, const FragmentPlace& place,
                   const Expr& lane) {
  const bool is_a = t.loaded == Fragment::A;
  std::vector<Expr> to = place.indices;
  const size_t last = to.size() - 1;
  const Expr first_tile = to[place.tile_dim];
  std::vector<Stmt> out;
  for (int64_t second = 0; second < (is_a ? 2 : t.columns / 8); ++second) {
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t i = 0; i < t.pack; ++i) {
        const Expr s = floordiv(lane, Expr(4)) + Expr(8 * second),
                   k = floormod(lane, Expr(4)) * Expr(int64_t{t.pack}) +
                       Expr(4 * t.pack * half + i);
        to[last] = Expr(i);
        to[is_a ? last - 2 : last - 1] = Expr(half);
        (is_a ? to[last - 1] : to[place.tile_dim]) =
            is_a ? Expr(second) : first_tile + Expr(second);
        const Expr value = substitute(source, {{t.row, is_a ? s : k}, {t.col, is_a ? k : s}});
        out.push_back(make_store(place.registers, to, value));
      }
    }
  }
  return make_block(std::move(out));
}

// ldmatrix: lane l points at row l % 8 of matrix l / 8, of 8 rows of 16 bytes. With h elements in
// 16 bytes, A's matrices are (rows, columns): (0, 0), (8, 0), (0, h), (8, h); B's two lie one below
// the other. Rows of the matrices run along what is contiguous in shared memory; where that is not
// the fragment's k, they are transposed, which ldmatrix does with 16-bit elements only: lanes then
// read their elements one by one.
Stmt load(const TileNest& t, const Expr& source, const FragmentPlace& to, const Expr& lane) {
  const Load* load = source.as<Load>();
  const bool is_a = t.loaded == Fragment::A;
  const Expr row8 = floormod(lane, Expr(8)), second = floormod(floordiv(lane, Expr(8)), Expr(2)),
             fourth = floordiv(lane, Expr(16));
  auto address = [&](const Expr& row, const Expr& col) {
    return flat_index(load->buffer, at(load->indices, t, row, col));
  };
  auto step = [&](const Expr& row, const Expr& col) {
    const Expr d = simplify(address(row, col) - address(Expr(0), Expr(0)));
    return as_int(d) && *as_int(d) == 1;
  };
  // The reduction runs along the columns of A and along the rows of B.
  const bool along_rows = step(Expr(1), Expr(0)), along_cols = step(Expr(0), Expr(1));
  HEDDLE_ICHECK(along_rows || along_cols,
                "the tile '" + load->buffer->name + "' is contiguous along neither dimension");
  const bool transposed = is_a ? !along_cols : !along_rows;
  if (transposed && t.pack != 2) return load_elements(t, source, to, lane);
  const Expr half(int64_t{4 * t.pack});
  Expr row, col;
  if (is_a) {
    row = transposed ? second * Expr(8) : row8 + second * Expr(8);
    col = transposed ? row8 + fourth * Expr(8) : fourth * half;
  } else {
    row = transposed ? row8 + second * Expr(8) : second * half;
    // The second pair of matrices belongs to the next 8 columns.
    const Expr next = t.columns == 16 ? fourth * Expr(8) : Expr(0);
    col = transposed ? next : row8 + next;
  }
  Ranges lanes;
  lanes.set(Var::from(lane), {0, 31});
  return make_tile_op(tile::LoadMatrix{is_a || t.columns == 16 ? 4 : 2, transposed},
                      {{to.registers, flat_index(to.registers, to.indices)},
                       {load->buffer, simplify(address(row, col), lanes)}});
}

}  // namespace

Stmt load_fragment(const TileNest& t, const Expr& source, const FragmentPlace& to,
                   const Expr& lane) {
  const Stmt s = load(t, source, to, lane);
  if (t.pack > 1) return s;
  const int registers = t.loaded == Fragment::A || t.columns == 16 ? 4 : 2;
  return make_block({s, make_tile_op(tile::RoundTf32{registers},
                                     {{to.registers, flat_index(to.registers, to.indices)}})});
}

}  // namespace heddle::gpu
