// clang-format off
//   for blocks (blockIdx): a tile of rows                      row_tiles*row_warps x 16
//     x.tile[..]; x.frag[..] = ldmatrix                        operands of rows: a warp's part, in registers
//     sum = 0                                                  registers
//     for t: a tile of keys, of key_units x 16                 `stages` of them under way (cp.async)
//       y.tile, value.tile                                     shared memory
//       for warps (threadIdx.z):
//         product = x.frag x y.tile                            mma, for each product
//         matrix = f(products, ..)                             in registers as mma's operand
//         sum = sum + matrix x value.tile                      mma
//     output stage[..] = epilogue(sum)                         two columns a lane
//
// Without a value each lane reduces every eighth key of a row, and the eight meet in shared memory:
//
//         partial = partial + matrix                           a lane's own
//     parts[..] = partial                                      shared memory
//     output stage[..] = sum of the parts of a row             a thread for each row
// clang-format on
//
// Extents may be of any size: elements beyond an end are zero (the lowest for a maximum).
#include "cuda/products/computed_matrix_loops.h"

namespace heddle::meta {
namespace {

constexpr int64_t kLanes = mma::kCols;  // partial results of a row

class Recipe : ComputedMatrixLoops {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const ComputedMatrix& m,
         const ComputedMatrixKnobs& knobs, bool resident)
      : ComputedMatrixLoops(t, g, m, {knobs.row_tiles, knobs.row_warps, false}),
        knobs_(knobs),
        resident_(resident) {}

  void products() {
    StageRef anchor = t_.stage(m_.sum), out = t_.stage(g_.output_stage);
    StageRef matrix = t_.stage(m_.matrix).cache_read({anchor});
    StageRef value = t_.stage(m_.value.stage).cache_read({anchor});
    StageRef sum = anchor.pad({rows_of(anchor, m_.row),
                               {anchor.axis(m_.col), kMatrixUnit},
                               {anchor.reduce_axis(m_.key), kMatrixUnit, knobs_.key_units}});
    std::vector<Made> made = pad_products(kMatrixUnit, knobs_.key_units);
    if (g_.output_stage != g_.anchor) anchor.compute_inline();
    const Loop block = columns_of_blocks(out);
    sum.compute_at(out, block);
    const auto [tile, step] = sum_loops(sum);
    elements(matrix, mma::left(m_.row_dim, m_.key_dim, kPack));
    matrix.compute_at(sum, tile);
    shared_tile(value, m_.value, true);
    value.compute_at(sum, tile);
    key_fragments(value.cache_read({sum}), m_.value, sum, step);
    place_products(made, out, block, sum, tile);
  }

  void rows() {
    StageRef anchor = t_.stage(m_.sum), out = t_.stage(g_.output_stage);
    StageRef matrix = t_.stage(m_.matrix).cache_read({anchor});
    StageRef sum = anchor.pad(
        {rows_of(anchor, m_.row), {anchor.reduce_axis(0), kMatrixUnit, knobs_.key_units}});
    std::vector<Made> made = pad_products(kMatrixUnit, knobs_.key_units);
    StageRef parts = sum.rfactor(sum.reduce_axis(0), kLanes, true);
    StageRef partial = parts.cache_write();
    if (g_.output_stage != g_.anchor) anchor.compute_inline();
    const Loop block = rows_of_blocks(out, sum);
    store_parts(parts);
    const Loop tile = partial_loops(partial);
    for (StageRef s : {parts, partial}) s.compute_at(out, block);
    elements(matrix, mma::accumulator(m_.row_dim, m_.key_dim));
    matrix.compute_at(partial, tile);
    place_products(made, out, block, partial, tile);
  }

 private:
  void place_products(std::vector<Made>& made, StageRef out, Loop block, StageRef sum, Loop tile) {
    for (size_t i = 0; i < made.size(); ++i) {
      const ComputedMatrix::Product& p = m_.products[i];
      auto& [product, rows, keys] = made[i];
      product.compute_at(sum, tile);
      const Loop step = product_loops(product, p);
      shared_tile(keys, p.keys, true);
      keys.compute_at(sum, tile);
      shared_tile(rows, p.rows, false);
      rows.compute_at(out, block);
      key_fragments(keys.cache_read({product}), p.keys, product, step);
      row_fragments(rows.cache_read({product}), p.rows, out, block, product, step);
    }
  }

  // ---- loops ----

  // The loops of a result for each row, in which `sum` adds up the parts. Returns the loop over
  // blocks.
  Loop rows_of_blocks(StageRef s, StageRef sum) const {
    const std::vector<Loop> batch = without(s, m_.row, -1);
    const Rows r = cut_rows(s, m_.row);
    auto [block, warp] = s.split(r.threads[0].first, knobs_.row_warps, kWhole);
    order(s, batch, {block, warp, r.in, r.tile});
    bind_blocks(s, batch, block);
    s.bind(warp, LoopKind::ThreadZ);
    s.bind(r.in, LoopKind::ThreadX);
    s.unroll(r.tile);
    sum.compute_at(s, r.tile);
    sum.unroll(sum.reduce_axis(0));
    return block;
  }

  // The axes of the parts are the part, and those of the sum.
  int part_row() const { return m_.row + 1; }

  void store_parts(StageRef s) const {
    s.set_scope(Scope::Shared);
    const std::vector<Loop> batch = without(s, part_row(), 0);
    const Rows r = cut_rows(s, part_row());
    auto [half, lane_row] = s.split(r.in, 8);
    auto [lane_col, pair] = s.split(s.axis(0), 2);
    order(s, batch, {r.threads[0].first, lane_row, lane_col, r.tile, half, pair});
    bind_lanes(s, lane_row, lane_col);
    s.bind(r.threads[0].first, LoopKind::ThreadZ);
    for (Loop u : {r.tile, half, pair}) s.unroll(u);
  }

  // Returns the loop over tiles of keys, as the next one does, with the loop over steps.
  Loop partial_loops(StageRef s) const {
    const std::vector<Loop> batch = without(s, part_row(), 0);
    const Rows r = cut_rows(s, part_row());
    auto [units, eighth] = s.split(s.reduce_axis(0), kMatrixUnit / kLanes);
    auto [tile, unit] = s.split(units, knobs_.key_units);
    order(s, batch, {tile, r.threads[0].first, r.tile, unit, eighth, r.in, s.axis(0)});
    s.bind(r.threads[0].first, LoopKind::ThreadZ);
    for (Loop u : {r.tile, unit, eighth}) s.unroll(u);
    s.tensorize(r.in, "lanes");
    lay_out(s, mma::accumulator(part_row(), 0));
    return tile;
  }

  std::array<Loop, 2> sum_loops(StageRef s) const {
    const Rows r = cut_rows(s, m_.row);
    auto [col_tile, col] = s.split(s.axis(m_.col), mma::kCols);
    auto [units, key] = s.split(s.reduce_axis(m_.key), kMatrixUnit);
    auto [tile, step] = s.split(units, knobs_.key_units);
    order(s, batch_of_sum(s), {tile, r.threads[0].first, step, r.tile, col_tile, r.in, col, key});
    product_nest(s, r, step, col_tile, mma::accumulator(m_.row, m_.col));
    return {tile, step};
  }

  // Returns the loop over the steps of one mma.
  Loop product_loops(StageRef s, const ComputedMatrix::Product& p) const {
    const std::vector<Loop> batch = without(s, p.row_dim, p.key_dim);
    const Rows r = cut_rows(s, p.row_dim);
    auto [col_tile, col] = s.split(s.axis(p.key_dim), mma::kCols);
    auto [step, depth] = s.split(s.reduce_axis(0), kMatrixUnit);
    order(s, batch, {r.threads[0].first, step, r.tile, col_tile, r.in, col, depth});
    product_nest(s, r, step, col_tile, mma::accumulator(p.row_dim, p.key_dim));
    return step;
  }
  static void product_nest(StageRef s, const Rows& r, Loop step, Loop col_tile,
                           const LayoutDigits& layout) {
    s.bind(r.threads[0].first, LoopKind::ThreadZ);
    for (Loop u : {step, r.tile, col_tile}) s.unroll(u);
    s.tensorize(r.in, "mma");
    lay_out(s, layout);
  }

  // ---- operands ----

  // A tile in shared memory, copied 16 bytes at a time where lines of memory are lines of the tile.
  void shared_tile(StageRef s, const ComputedMatrix::Operand& o, bool streamed) const {
    s.set_scope(Scope::Shared);
    s.storage_pad(8);
    if (streamed) s.multi_buffer(knobs_.stages);
    const Shape shape = t_.dag().stage(o.stage).output(0).shape();
    const int last = static_cast<int>(shape.size()) - 1;
    const bool along = last == o.line_dim || last == o.depth_dim;
    const Loop all = s.fuse(s.all_axes());
    auto [vectors, lane] = s.split(all, along ? whole_vector(*as_int(shape.back()), 8) : 1);
    auto [rest, x] = s.split(vectors, kWarp);
    auto [each, z] = s.split(rest, knobs_.row_warps);
    s.reorder({z, x, each, lane});
    s.bind(x, LoopKind::ThreadX);
    s.bind(z, LoopKind::ThreadZ);
    s.unroll(each);
    s.vectorize(lane);
  }

  // One ldmatrix.x4 loads two tiles of columns.
  static void key_fragments(StageRef s, const ComputedMatrix::Operand& o, StageRef product,
                            Loop step) {
    const std::vector<Loop> batch = without(s, o.line_dim, o.depth_dim);
    auto [tile, in] = s.split(s.axis(o.line_dim), 16);
    const Loop k = s.axis(o.depth_dim);
    order(s, batch, {tile, k, in});
    s.unroll(tile);
    s.tensorize(k, "ldmatrix");
    lay_out(s, mma::right(o.depth_dim, o.line_dim, kPack));
    s.compute_at(product, step);
  }

  void row_fragments(StageRef s, const ComputedMatrix::Operand& o, StageRef out, Loop block,
                     StageRef product, Loop step) const {
    const std::vector<Loop> batch = without(s, o.line_dim, o.depth_dim);
    auto [units, in] = s.split(s.axis(o.line_dim), kMatrixUnit);
    auto [k_tile, k] = s.split(s.axis(o.depth_dim), kMatrixUnit);
    if (resident_) {
      auto [warp, tile] = s.split(units, knobs_.row_tiles);
      order(s, batch, {warp, tile, k_tile, in, k});
      s.bind(warp, LoopKind::ThreadZ);
      for (Loop u : {tile, k_tile}) s.unroll(u);
      s.compute_at(out, block);
    } else {
      order(s, batch, {units, k_tile, in, k});
      for (Loop u : {units, k_tile}) s.unroll(u);
      s.compute_at(product, step);
    }
    s.tensorize(in, "ldmatrix");
    lay_out(s, mma::left(o.line_dim, o.depth_dim, kPack));
  }

  const ComputedMatrixKnobs& knobs_;
  const bool resident_;  ///< operands of rows stay in registers
};

}  // namespace

void computed_matrix_recipe(TemplateBuilder& t, const StageGroup& g, const ComputedMatrix& m,
                            const ComputedMatrixKnobs& knobs, bool resident) {
  Recipe recipe(t, g, m, knobs, resident);
  m.col >= 0 ? recipe.products() : recipe.rows();
}

}  // namespace heddle::meta
