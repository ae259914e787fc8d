// Transpositions by tiles, so that whole cache lines are read and written while both are in a
// cache.
//
//   in squares of registers:
//     parallel for tiles { for squares { transposed in registers } }
//   staged, for results past the last cache:
//     parallel for tiles { for squares { to a copy in L1 }  for rows { whole lines } }
//
// Knobs: tile_rows, tile_cols (of a tile), staged (whether the tile is copied to L1), along_input
// (the order of the tiles), nontemporal (stores that bypass the caches).
#include "cpu/products/transposed_tiles.h"

#include <algorithm>

#include "common/loops.h"
#include "cpu/cpu_features.h"
#include "cpu/streamed_rows.h"
#include "cpu/vectors.h"

namespace heddle::meta::cpu {
namespace {

struct TransposeProblem {
  Target target;
  int64_t lanes = 1;          ///< elements of a native vector
  int64_t element_bytes = 4;  ///< bytes of an element of the result
  int64_t result_bytes = 0;
  int64_t rows = 1;  ///< along the transposed axis: elements of a line of the input
  int64_t cols = 1;  ///< along the last axis: elements of a line of the result

  int64_t line() const { return std::max<int64_t>(1, kLineBytes / element_bytes); }
  int64_t input_row_bytes() const { return rows * element_bytes; }
  NamedFeatures features() const {
    NamedFeatures f = cpu_features(target);
    f.push_back({"lanes", static_cast<double>(lanes)});
    f.push_back({"element_bytes", static_cast<double>(element_bytes)});
    f.push_back({"result_bytes", static_cast<double>(result_bytes)});
    f.push_back({"rows", static_cast<double>(rows)});
    f.push_back({"cols", static_cast<double>(cols)});
    return f;
  }
};

// Stores that bypass the caches must fill a line before another one is begun. They take twice as
// long when the buffers that combine parts of lines run out. With AVX-512 a square of registers
// writes whole lines; otherwise a copy of the tile in L1 does.
void choose_stores(const TransposeProblem& p, bool staged, Choice& choice) {
  const bool whole_lines = staged || p.target.vector_bytes >= kLineBytes;
  choice.set("nontemporal", larger_than_caches(p.target, p.result_bytes) && whole_lines,
             whole_lines ? "result of " + std::to_string(p.result_bytes >> 10) +
                               " KiB against the last cache"
                         : "a line of the result is written in parts");
}

// A copy takes one line from each of as many rows of the input as L2 can hold. The next tile takes
// the adjacent lines, which the hardware has fetched by then. Rows that are an eighth of L2 apart
// or more map to few sets of the cache, so a tile then has fewer of them.
void choose_tile(const TransposeProblem& p, bool staged, Choice& choice) {
  constexpr int64_t kLinesOfSquares = 4, kColumnLines = 2;
  constexpr int64_t kLeastLines = 4, kMostLines = 8, kFarApart = 8;
  const int64_t line = p.line(), row_bytes = p.input_row_bytes(), l2 = p.target.l2_bytes;
  const int64_t lines = std::clamp(l2 / row_bytes, kLeastLines * line, kMostLines * line) / line;
  choice.set("tile_rows", std::min(p.rows, staged ? line : kLinesOfSquares * line),
             staged ? "a line of each of the input's rows"
                    : "long enough that whole lines of the input are used up");
  const bool many = staged && row_bytes * kFarApart < l2;
  choice.set("tile_cols", std::min(p.cols, (many ? lines : kColumnLines) * line),
             "lines of the result");
}

Choice transpose_rule(const TransposeProblem& p) {
  // Shorter rows of the input are near enough to each other.
  const bool staged = larger_than_caches(p.target, p.result_bytes) && p.element_bytes == 4 &&
                      p.lanes * 2 == p.line() && p.cols % p.line() == 0 &&
                      p.input_row_bytes() >= kPageBytes;
  Choice choice;
  choice.set("staged", staged,
             staged ? "whole lines of a result larger than the last cache"
                    : "squares of registers write through the caches");
  choose_stores(p, staged, choice);
  choose_tile(p, staged, choice);
  choice.set("along_input", staged,
             staged ? "the next tile has the lines beside these" : "whole rows of the result");
  return choice;
}

/// The loops of a tile of stage `s`.
struct Tile {
  Loop rows, vectors, lanes;
  bool moves = false;  ///< 32-bit elements are only moved, so that squares stay in registers
};

// Writes the parts of a line of the result one after the other.
void in_squares(StageRef s, const Tile& tile, int64_t lanes) {
  auto [square, row] = s.split(tile.rows, lanes);
  s.reorder({square, tile.vectors, row, tile.lanes});
  s.unroll(row);
  if (tile.moves) s.expect(Instruction::TransposedSquare);
}

// Makes a copy of the tile at loop `at`. The copy reads the parts of a line of the input one after
// the other.
void staged(StageRef s, const Tile& tile, Loop at, int transposed, int64_t lanes) {
  s.unroll(tile.vectors);
  StageRef copy = s.cache_write();
  copy.compute_at(s, at);
  auto [vectors, lane] = copy.split(copy.axis(copy.num_axes() - 1), lanes);
  auto [square, row] = copy.split(copy.axis(transposed), lanes);
  copy.reorder({vectors, square, row, lane});
  copy.unroll(row);
  copy.vectorize(lane);
  if (tile.moves) copy.expect(Instruction::TransposedSquare);
}

}  // namespace

void tile_transposed(TemplateBuilder& t, const StageGroup& g, int transposed, bool parallel) {
  const Operation& op = t.dag().stage(g.output_stage);
  StageRef s = t.stage(g.output_stage);
  const std::vector<Loop> axes = s.all_axes();
  const int bytes = op.output(0).dtype().bytes();
  const TransposeProblem p{t.target(),
                           native_lanes(t, g.output_stage),
                           bytes,
                           spatial_points(op) * bytes,
                           op.axes()[static_cast<size_t>(transposed)].extent(),
                           op.axes().back().extent()};
  const Choice choice = t.decide("transpose", p, transpose_rule);
  const Param with_copy = t.choice("staged", choice);
  const Param nontemporal = t.choice("nontemporal", choice);
  t.when(nontemporal, 1, [&] { s.store_nontemporal(); });
  const int64_t most = 8 * p.line();
  const Param tile_rows = t.split_knob("tile_rows", p.rows, most, choice);
  const Param tile_cols = t.split_knob("tile_cols", p.cols, most, choice);

  auto [row_tile, rows] = s.split(axes[static_cast<size_t>(transposed)], tile_rows);
  auto [col_tile, cols] = s.split(axes.back(), tile_cols);
  auto [vectors, lane] = s.split(cols, p.lanes);
  const bool moves = bytes == 4 && op.bodies()[0].as<Load>() != nullptr;
  const Tile tile{rows, vectors, lane, moves};
  const auto write = [&](const std::vector<Loop>& tiles) {
    s.reorder(joined(tiles, {tile.rows, tile.vectors, tile.lanes}));
    s.vectorize(tile.lanes);
    const Loop all = s.fuse(tiles);
    if (parallel) s.parallel(all);
    t.when(with_copy, 0, [&] { in_squares(s, tile, p.lanes); });
    t.when(with_copy, 1, [&] { staged(s, tile, all, transposed, p.lanes); });
  };
  std::vector<Loop> along_result, along_input;
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    const bool is_transposed = static_cast<int>(i) == transposed;
    along_result.push_back(is_transposed ? row_tile : axes[i]);
    if (!is_transposed) along_input.push_back(axes[i]);
  }
  along_result.push_back(col_tile);
  along_input = joined(along_input, {col_tile, row_tile});
  const Param walk = t.choice("along_input", choice);
  t.when(walk, 0, [&] { write(along_result); });
  t.when(walk, 1, [&] { write(along_input); });
  t.note("tiled: a read is transposed");
}

}  // namespace heddle::meta::cpu
