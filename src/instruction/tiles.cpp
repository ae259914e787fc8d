#include "heddle/instruction/tiles.h"

namespace heddle {

int mma::elements_per_register(DataType t) {
  const bool known =
      t == f32 || t == f16 || t == bf16 || t == i8 || t == u8 || t.is_float8();  // f32: tf32
  return known ? 4 / t.bytes() : 0;
}

LayoutDigits mma::accumulator(int m, int n) {
  return {{m, 16, 0}, {n, 8, 0}, {m, 1, 8}, {n, 2, 4}, {m, 8, 2}, {n, 1, 2}};
}

LayoutDigits mma::left(int m, int k, int64_t pack) {
  return {{m, 16, 0},       {k, depth(pack), 0}, {m, 1, 8},   {k, pack, 4},
          {k, 4 * pack, 2}, {m, 8, 2},           {k, 1, pack}};
}

LayoutDigits mma::right(int k, int n, int64_t pack) {
  return {{k, depth(pack), 0}, {n, 8, 0}, {n, 1, 8}, {k, pack, 4}, {k, 4 * pack, 2}, {k, 1, pack}};
}

LayoutDigits mma::row_values(int m) { return {{m, 16, 0}, {m, 1, 8}, {m, 8, 2}}; }

LayoutDigits tma::along_depth(int line, int depth, int64_t row) {
  return {{depth, row, 0}, {line, 1, 0}, {depth, 1, row}};
}

LayoutDigits tma::across_depth(int line, int depth, int64_t row) {
  return {{line, row, 0}, {depth, 1, 0}, {line, 1, row}};
}

LayoutDigits tma::squares(int line, int depth, int64_t row) {
  return {{depth, row, 0}, {line, row, 0}, {depth, 1, row}, {line, 1, row}};
}

LayoutDigits amx::right(int k, int n, int64_t group) {
  return {{k, group, 0}, {n, 1, 0}, {k, 1, group}};
}

}  // namespace heddle
