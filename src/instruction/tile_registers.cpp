#include <algorithm>

#include "instruction/tile_product.h"

namespace heddle::instructions {

int TileProduct::Tiles::count() const {
  int64_t n = 1;
  for (const For* f : loops) n *= *as_int(f->extent);
  return static_cast<int>(std::min<int64_t>(n, kRegisters));
}

std::vector<VarBinding> TileProduct::Tiles::at(int i) const {
  std::vector<VarBinding> out;
  int64_t rest = i;
  for (auto f = loops.rbegin(); f != loops.rend(); ++f) {
    const int64_t n = *as_int((*f)->extent);
    out.push_back({(*f)->var, Expr(rest % n)});
    rest /= n;
  }
  return out;
}

bool TileProduct::holds_columns() const {
  const int held = row_tiles.count() * col_tiles.count();
  return col_tiles.count() + 1 <= kRegisters - held;
}

int TileProduct::c_register(int row, int col) const { return row * col_tiles.count() + col; }

int TileProduct::a_register(int row) const {
  const int first = row_tiles.count() * col_tiles.count();
  if (!holds_columns()) return first + row;
  const int free = kRegisters - first - col_tiles.count();
  return first + col_tiles.count() + row % free;
}

int TileProduct::b_register(int col) const {
  const int first = row_tiles.count() * col_tiles.count();
  if (holds_columns()) return first + col;
  const int free = kRegisters - first - row_tiles.count();
  return first + row_tiles.count() + col % free;
}

TileConfig TileProduct::config() const {
  // The layout of palette 1: from byte 16 on, the bytes of a row of each tile (two bytes each);
  // from byte 48 on, the numbers of rows.
  TileConfig out{};
  out[0] = 1;
  auto set = [&](int tile, int64_t of_rows, int64_t row_groups) {
    out[static_cast<size_t>(16 + 2 * tile)] =
        static_cast<uint8_t>(row_groups * static_cast<int>(amx::kGroupBytes));
    out[static_cast<size_t>(48 + tile)] = static_cast<uint8_t>(of_rows);
  };
  for (int m = 0; m < row_tiles.count(); ++m) {
    set(a_register(m), rows, groups);
    for (int n = 0; n < col_tiles.count(); ++n) set(c_register(m, n), rows, lanes);
  }
  for (int n = 0; n < col_tiles.count(); ++n) set(b_register(n), groups, lanes);
  return out;
}

}  // namespace heddle::instructions
