// Matrices of products that are reduced where they are computed (dag/computed_matrix.h), on CPUs.
// Vectors are rows of the matrix, so that each operand is read as it lies:
//
//   parallel for batch, block of rows {
//     x.block[depth, row] = x                              once; a line of x becomes a column
//     sum = 0
//     for t: a tile of keys {                              all of it stays in the first caches
//       product[key, row] = sum over depth                 registers: keys x vectors of rows
//       matrix[key, row] = f(products, ..)                 vectors of rows
//       sum[column, row] += matrix x value                 registers: columns x vectors of rows
//     }
//     output stage[row, column] = epilogue(sum)
//   }
//
// A sum, maximum or minimum of each row has no column, and its vectors are kept over all keys.
#include <algorithm>

#include "common/costs.h"
#include "common/loops.h"
#include "cpu/products/register_tile.h"
#include "cpu/vectors.h"
#include "heddle/dag/computed_matrix.h"

namespace heddle::meta::cpu {
namespace {

struct Knobs {
  Param row_vectors, tile_keys, unroll_keys, unroll_cols;
};

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const ComputedMatrix& m, const Knobs& k,
         int64_t lanes, bool parallel)
      : t_(t), g_(g), m_(m), k_(k), lanes_(lanes), parallel_(parallel) {}

  void write() { m_.col >= 0 ? products() : rows(); }

 private:
  void products() {
    StageRef anchor = t_.stage(m_.sum), out = t_.stage(g_.output_stage);
    StageRef sum = g_.output_stage == g_.anchor ? anchor.cache_write() : anchor;
    const Made made = copies(sum);
    // The axes of the output stage are those of the sum.
    const Loop block = blocks(out, {out.axis(m_.col)});
    StageRef part = sum.rfactor(sum.reduce_axis(m_.key), k_.tile_keys, false);
    sum.compute_at(out, block);
    const Loop tile = sum.reduce_axis(0);
    auto [col_tile, col] = sum.split(sum.axis(m_.col), k_.unroll_cols);
    vectors(sum, m_.row, joined(others(sum, m_.row, m_.col), {tile, col_tile}), {col});
    part.compute_at(sum, col_tile);
    vectors(part, m_.row + 1, joined(others(part, m_.row + 1, m_.col + 1), part.all_reduce_axes()),
            {part.axis(m_.col + 1)});
    place(made, out, block, sum, tile);
  }

  void rows() {
    StageRef out = t_.stage(m_.sum), sum = out.cache_write();
    const Made made = copies(sum);
    const Loop block = blocks(out, {});
    sum.compute_at(out, block);
    auto [tile, key] = sum.split(sum.reduce_axis(0), k_.tile_keys);
    vectors(sum, m_.row, joined(others(sum, m_.row, -1), {tile, key}), {});
    place(made, out, block, sum, tile);
  }

  struct Product {
    StageRef sum, lanes, rows;  ///< a product, its registers, and the block of its operand of rows
  };
  struct Made {
    StageRef matrix;
    std::vector<Product> products;
  };

  /// Makes the stages of a tile. `reader` reduces the matrix.
  Made copies(StageRef reader) {
    Made made{t_.stage(m_.matrix).cache_read({reader}), {}};
    for (const ComputedMatrix::Product& p : m_.products) {
      StageRef s = t_.stage(p.stage), rows = t_.stage(p.rows.stage).cache_read({s});
      made.products.push_back({s, s.cache_write(), rows});
    }
    for (const int s : m_.fused) {
      const bool product = std::any_of(m_.products.begin(), m_.products.end(),
                                       [&](const auto& p) { return p.stage == s; });
      if (!product) t_.stage(s).compute_inline();
    }
    return made;
  }

  /// Places what `copies` made at a tile of keys of `sum`, and blocks of rows of operands at `block`.
  void place(const Made& made, StageRef out, Loop block, StageRef sum, Loop tile) {
    for (size_t i = 0; i < m_.products.size(); ++i) {
      const ComputedMatrix::Product& p = m_.products[i];
      auto [product, lanes, rows] = made.products[i];
      product.compute_at(sum, tile);
      auto [key_tile, key] = product.split(product.axis(p.key_dim), k_.unroll_keys);
      vectors(product, p.row_dim, joined(others(product, p.row_dim, p.key_dim), {key_tile}), {key});
      lanes.compute_at(product, key_tile);
      vectors(lanes, p.row_dim, joined(others(lanes, p.row_dim, p.key_dim), {lanes.reduce_axis(0)}),
              {lanes.axis(p.key_dim)});
      rows.compute_at(out, block);
      rows_innermost(rows, p.rows.line_dim);
    }
    StageRef matrix = made.matrix;
    matrix.compute_at(sum, tile);
    vectors(matrix, m_.row_dim, others(matrix, m_.row_dim, -1), {});
  }

  static std::vector<Loop> others(StageRef s, int a, int b) {
    std::vector<Loop> loops;
    for (int d = 0; d < s.num_axes(); ++d) {
      if (d != a && d != b) loops.push_back(s.axis(d));
    }
    return loops;
  }

  /// The loops `outer`, then the unrolled ones, then vectors of the rows, which are axis `row`.
  void vectors(StageRef s, int row, const std::vector<Loop>& outer, std::vector<Loop> unrolled) {
    auto [vector, lane] = s.split(s.axis(row), lanes_);
    unrolled.push_back(vector);
    s.reorder(joined(joined(outer, unrolled), {lane}));
    for (const Loop u : unrolled) s.unroll(u);
    s.vectorize(lane);
    rows_innermost(s, row);
  }

  /// Neighbouring rows are neighbours in memory.
  static void rows_innermost(StageRef s, int row) {
    std::vector<StageRef::StorageDim> dims;
    for (int d = 0; d < s.num_axes(); ++d) {
      if (d != row) dims.push_back({d, 1, 0});
    }
    dims.push_back({row, 1, 0});
    s.layout(dims);
  }

  /// Cuts the rows of the output stage into blocks. `inside` are the loops inside of a row.
  Loop blocks(StageRef s, const std::vector<Loop>& inside) {
    auto [vector, lane] = s.split(s.axis(m_.row), lanes_);
    auto [block, of_block] = s.split(vector, k_.row_vectors);
    std::vector<Loop> outer = others(s, m_.row, m_.col);
    outer.push_back(block);
    std::vector<Loop> order = joined(joined(outer, {of_block, lane}), inside);
    s.reorder(order);
    if (inside.empty()) s.vectorize(lane);
    const Loop all = s.fuse(outer);
    if (parallel_) s.parallel(all);
    return all;
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputedMatrix& m_;
  const Knobs& k_;
  const int64_t lanes_;
  const bool parallel_;
};

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && !g.attached && !g.fused.empty() &&
         find_own_matrix(dag, g.anchor).has_value();
}

Choice rule(const ComputedMatrix& m, const Target& target) {
  // Two vectors of rows use each element of the other operand twice. Tiles of keys are whole groups, so
  // that only the last one ends with a shorter group, and groups of columns are about equally long.
  constexpr int64_t kVectors = 2, kGroups = 4;
  int64_t most = 16;
  while (most > 1 && !fits_registers(target, {most, kVectors})) --most;
  const int64_t keys = std::min(most, m.keys), cols = std::max<int64_t>(1, m.cols);
  Choice c;
  c.set("row_vectors", kVectors, "each element of keys and values serves two vectors of rows");
  c.set("tile_keys", std::min(kGroups * keys, m.keys),
        "the tile of the matrix stays in the first cache");
  c.set("unroll_keys", keys, "the accumulators fill the registers");
  c.set("unroll_cols", ceil_div(cols, ceil_div(cols, most)), "the accumulators fill the registers");
  return c;
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ComputedMatrix m = *find_own_matrix(t.dag(), g.anchor);
  const int64_t lanes = native_lanes(t, m.sum);
  const Choice choice = rule(m, t.target());
  const auto up_to = [](int64_t extent, std::vector<int64_t> values, int64_t chosen) {
    std::erase_if(values, [&](int64_t v) { return v > extent; });
    if (std::find(values.begin(), values.end(), chosen) == values.end()) values.push_back(chosen);
    std::sort(values.begin(), values.end());
    return values;
  };
  const std::vector<int64_t> unrolls{1, 2, 4, 6, 8, 10, 12, 13, 14};
  const auto chosen = [&](const char* knob) { return choice.value(knob); };
  Knobs k;
  k.row_vectors = t.knob("row_vectors", {1, 2, 3, 4}, choice);
  k.tile_keys =
      t.knob("tile_keys", up_to(m.keys, {16, 32, 64, 128, 256}, chosen("tile_keys")), choice);
  k.unroll_keys = t.knob("unroll_keys", up_to(m.keys, unrolls, chosen("unroll_keys")), choice);
  k.unroll_cols = t.knob(
      "unroll_cols", up_to(std::max<int64_t>(1, m.cols), unrolls, chosen("unroll_cols")), choice);
  t.require("the register tiles must fit the vector registers",
            [=, target = t.target()](const auto& v) {
              return fits_registers(target, {v(k.unroll_keys), v(k.row_vectors)}) &&
                     fits_registers(target, {v(k.unroll_cols), v(k.row_vectors)});
            });
  double work = 0;
  for (const ComputedMatrix::Product& p : m.products) work += t.dag().info(p.stage).flops;
  Recipe(t, g, m, k, lanes, worth_parallel(t, work)).write();
}

HEDDLE_REGISTER_META_TEMPLATE({"computed_matrix", 9, matches, build});

}  // namespace
}  // namespace heddle::meta::cpu
