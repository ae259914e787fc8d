// clang-format off
//   for blocks (blockIdx): a tile of rows                      groups x 64
//     x.tile = boxes of 64 elements of the depth               shared memory, by TMA, for each product
//     sum = 0                                                  registers
//     for t: a tile of keys                                    `stages` of them under way
//       y.tile, value.tile = boxes                             shared memory, by TMA
//       for groups (threadIdx.z): for 4 warps (threadIdx.y):
//         product = x.tile x y.tile                            wgmma, for each product
//         matrix = f(products, ..)                             in registers as wgmma's operand
//         sum = sum + matrix x value.tile                      wgmma
//     output stage[..] = epilogue(sum)                         two columns a lane
//
// Without a value each lane reduces the keys that it holds, and four lanes share a row:
//
//         partial = partial + matrix                           a lane's own
//     output stage[..] = sum of a row of partial               two shuffles
// clang-format on
//
// Lowering gives the loads a warp group of their own, and lets a group multiply for the next tile while
// it multiplies the matrix of this one with values (lower/gpu/warp_group/chained_products.h). Keys and
// values beyond the last are zeros.
#include "cuda/products/computed_matrix_group.h"

#include "cuda/products/computed_matrix_loops.h"
#include "cuda/products/window_shape.h"

namespace heddle::meta {
namespace {

constexpr int64_t kBoxRow = 64;  // 16-bit elements of a row of a box

class Recipe : ComputedMatrixLoops {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const ComputedMatrix& m,
         const ComputedMatrixGroupKnobs& knobs)
      : ComputedMatrixLoops(t, g, m, {1, knobs.groups, true}), knobs_(knobs) {}

  void products() {
    StageRef anchor = t_.stage(m_.sum), out = t_.stage(g_.output_stage);
    StageRef matrix = t_.stage(m_.matrix).cache_read({anchor});
    StageRef value = t_.stage(m_.value.stage).cache_read({anchor});
    StageRef sum = anchor.pad({rows_of(anchor, m_.row),
                               {anchor.axis(m_.col), kBoxRow},
                               {anchor.reduce_axis(m_.key), kMatrixUnit, knobs_.key_units}});
    const std::vector<Made> made = pad_products(kMatrixUnit, knobs_.key_units);
    if (g_.output_stage != g_.anchor) anchor.compute_inline();
    const Loop block = columns_of_blocks(out);
    sum.compute_at(out, block);
    const Loop tile = sum_loops(sum);
    elements(matrix, mma::left(m_.row_dim, m_.key_dim, kPack));
    matrix.compute_at(sum, tile);
    load_squares(value);
    value.compute_at(sum, tile);
    place_products(made, out, block, sum, tile);
  }

  void rows() {
    StageRef anchor = t_.stage(m_.sum), out = t_.stage(g_.output_stage);
    StageRef matrix = t_.stage(m_.matrix).cache_read({anchor});
    StageRef sum = anchor.pad(
        {rows_of(anchor, m_.row), {anchor.reduce_axis(0), kMatrixUnit, knobs_.key_units}});
    const std::vector<Made> made = pad_products(kMatrixUnit, knobs_.key_units);
    StageRef parts = sum.rfactor(sum.reduce_axis(0), mma::kCols, true);
    if (g_.output_stage != g_.anchor) anchor.compute_inline();
    const Loop block = rows_of_blocks(out);
    row_values(sum);
    const Loop tile = partial_loops(parts);
    for (StageRef s : {parts, sum}) s.compute_at(out, block);
    elements(matrix, mma::accumulator(m_.row_dim, m_.key_dim));
    matrix.compute_at(parts, tile);
    place_products(made, out, block, parts, tile);
  }

 private:
  void place_products(const std::vector<Made>& made, StageRef out, Loop block, StageRef sum,
                      Loop tile) const {
    for (size_t i = 0; i < made.size(); ++i) {
      const ComputedMatrix::Product& p = m_.products[i];
      StageRef product = made[i].sum, rows = made[i].rows, keys = made[i].keys;
      product.compute_at(sum, tile);
      auto [step, k] = product.split(product.reduce_axis(0), kMatrixUnit);
      group_product(product, without(product, p.row_dim, p.key_dim), {}, p.row_dim, p.key_dim, step,
                    k);
      load_lines(keys, p.keys);
      keys.multi_buffer(knobs_.stages);
      keys.compute_at(sum, tile);
      load_lines(rows, p.rows);
      rows.compute_at(out, block);
    }
  }

  // ---- results for each row ----

  // The loops of the output stage: lanes have the values of rows. Returns the loop over blocks.
  Loop rows_of_blocks(StageRef s) const {
    const std::vector<Loop> batch = without(s, m_.row, -1);
    Rows r = cut_rows(s, m_.row);
    auto [block, group] = s.split(r.threads[0].first, knobs_.groups, kWhole);
    r.threads[0].first = group;
    std::vector<Loop> loops{block};
    r.append_threads(&loops);
    loops.insert(loops.end(), {r.tile, r.in});
    order(s, batch, loops);
    bind_blocks(s, batch, block);
    row_nest(s, r);
    return block;
  }
  // A row of partial results, of which its lanes have two each.
  void row_values(StageRef s) const {
    const Rows r = cut_rows(s, m_.row);
    std::vector<Loop> loops;
    r.append_threads(&loops);
    loops.insert(loops.end(), {r.tile, r.in, s.reduce_axis(0)});
    order(s, without(s, m_.row, -1), loops);
    row_nest(s, r);
    lay_out(s, mma::row_values(m_.row));
  }
  // Returns the loop over tiles of keys. The axes of the parts are the part, and those of the sum.
  Loop partial_loops(StageRef s) const {
    const int row = m_.row + 1;
    const Rows r = cut_rows(s, row);
    auto [units, eighth] = s.split(s.reduce_axis(0), kMatrixUnit / mma::kCols);
    auto [tile, unit] = s.split(units, knobs_.key_units);
    std::vector<Loop> loops{tile};
    r.append_threads(&loops);
    loops.insert(loops.end(), {r.tile, unit, eighth, r.in, s.axis(0)});
    order(s, without(s, row, 0), loops);
    row_nest(s, r);
    for (Loop u : {unit, eighth}) s.unroll(u);
    lay_out(s, mma::accumulator(row, 0));
    return tile;
  }
  static void row_nest(StageRef s, const Rows& r) {
    r.bind_threads(s);
    s.unroll(r.tile);
    s.tensorize(r.in, "lanes");
  }

  // ---- products ----

  // Returns the loop over tiles of keys.
  Loop sum_loops(StageRef s) const {
    auto [units, key] = s.split(s.reduce_axis(m_.key), kMatrixUnit);
    auto [tile, step] = s.split(units, knobs_.key_units);
    group_product(s, batch_of_sum(s), {tile}, m_.row, m_.col, step, key);
    return tile;
  }
  // The loops of a product in steps of `k`, inside of `outer`.
  void group_product(StageRef s, const std::vector<Loop>& batch, std::vector<Loop> outer, int row,
                     int col, Loop step, Loop k) const {
    const Rows r = cut_rows(s, row);
    r.append_threads(&outer);
    outer.insert(outer.end(), {step, r.tile, r.in, s.axis(col), k});
    order(s, batch, outer);
    r.bind_threads(s);
    for (Loop u : {step, r.tile}) s.unroll(u);
    s.tensorize(r.in, "wgmma");
    lay_out(s, mma::accumulator(row, col));
  }

  // A tile whose lines run along the depth of its product: a box of all lines for each 64 elements.
  static void load_lines(StageRef s, const ComputedMatrix::Operand& o) {
    s.set_scope(Scope::Shared);
    const std::vector<Loop> batch = without(s, o.line_dim, o.depth_dim);
    auto [box, in] = s.split(s.axis(o.depth_dim), kBoxRow, kWhole);
    const Loop line = s.axis(o.line_dim);
    order(s, batch, {box, line, in});
    s.unroll(box);
    s.tensorize(line, "tma_load");
    lay_out(s, tma::along_depth(o.line_dim, o.depth_dim, kBoxRow));
  }

  // The values, whose lines in memory run across the depth of the sum: boxes of 64 keys of 64 columns.
  void load_squares(StageRef s) const {
    const int key = m_.value.depth_dim, col = m_.value.line_dim;
    s.set_scope(Scope::Shared);
    s.multi_buffer(knobs_.stages);
    const std::vector<Loop> batch = without(s, key, col);
    auto [keys, of_keys] = s.split(s.axis(key), kBoxRow);
    auto [box, in] = s.split(s.axis(col), kBoxRow);
    order(s, batch, {keys, box, of_keys, in});
    for (Loop u : {keys, box}) s.unroll(u);
    s.tensorize(of_keys, "tma_load");
    lay_out(s, tma::squares(col, key, kBoxRow));
  }

  const ComputedMatrixGroupKnobs& knobs_;
};

// Whether TMA can load boxes of `lines` lines of `extent` elements. Lines are whole boxes, so that none has
// elements of another one.
bool loads_boxes(const Tensor& t, int line, int along, int64_t lines, int64_t extent) {
  constexpr size_t kMostDims = 5;
  const Shape& shape = t.shape();
  if (line < 0 || shape.size() < 2 || shape.size() > kMostDims || t.dtype().bytes() != 2)
    return false;
  const int64_t *row = as_int(shape.back()), *n = as_int(shape[static_cast<size_t>(line)]);
  return along + 1 == static_cast<int>(shape.size()) && along != line && row &&
         *row % kBoxRow == 0 && extent % kBoxRow == 0 && n && *n == lines;
}

}  // namespace

std::vector<int> computed_matrix_group_operands(const ComputeDag& dag, const StageGroup& g,
                                                const ComputedMatrix& m, const Gpu& gpu) {
  constexpr int kFewestThreads = 256;  // a warp group that loads, and one that multiplies
  if (!gpu.has_wgmma() || gpu.threads_per_block < kFewestThreads || m.summed != 1) return {};
  std::vector<int> out;
  const auto takes = [&](const ComputedMatrix::Operand& operand, bool of_lines, int64_t lines,
                         int64_t extent) {
    const bool stored = can_be_in_memory(dag, g, operand.stage);
    const ComputedMatrix::Operand o = stored ? operand : moved_operand(dag, operand);
    out.push_back(o.stage);
    return can_be_in_memory(dag, g, o.stage) &&
           loads_boxes(dag.stage(o.stage).output(0), of_lines ? o.line_dim : o.depth_dim,
                       of_lines ? o.depth_dim : o.line_dim, lines, extent);
  };
  if (m.col >= 0 && !takes(m.value, false, m.keys, m.cols)) return {};
  for (const ComputedMatrix::Product& p : m.products) {
    if (!takes(p.rows, true, m.rows, p.depth) || !takes(p.keys, true, m.keys, p.depth)) return {};
  }
  return out;
}

void computed_matrix_group_recipe(TemplateBuilder& t, const StageGroup& g, const ComputedMatrix& m,
                                  const ComputedMatrixGroupKnobs& knobs) {
  Recipe recipe(t, g, m, knobs);
  m.col >= 0 ? recipe.products() : recipe.rows();
}

}  // namespace heddle::meta
