// clang-format off
//   for blocks (blockIdx): a tile of rows                      row_tiles*row_warps x 16
//     queries.tile[..]; queries.frag[..] = ldmatrix            a warp's part, in registers
//     highest = lowest; partial = 0; weighted = 0              registers
//     for t: a tile of keys                                    `stages` of them under way (cp.async)
//       keys.tile, values.tile                                 shared memory
//       for warps (threadIdx.z):
//         products = queries x keys                            mma
//         scores = scale and mask of products                  the four lanes of a row have a quarter
//         tile_max = max of a row of scores                    of it each: two shuffles
//         highest, shrink = max(highest, tile_max), exp(highest before - after)
//         powers = exp(scores - highest); weights = powers     in registers as mma's operand
//         partial = partial*shrink + powers                    a lane's own
//         weighted = weighted*shrink + weights x values        mma
//     total = sum of a row of partial
//     output stage[..] = weighted / total                      two columns a lane
//
// In parts, the second line is of one part of the keys (blockIdx.y), and in place of the last one:
//
//     part[..] = weighted; part.highest, part.total            two columns a lane
//   output stage                                               a kernel of its own
//     for blocks, threads:                                     up to four columns each
//       top = max of part.highest
//       total, sum = sums of parts, shrunk by exp(part.highest - top)
//       output stage[..] = sum / total
// clang-format on
#include "cuda/attention_recipe.h"

namespace heddle::meta {
namespace {

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const Attention& chain,
         const AttentionKnobs& knobs, AttentionForm form)
      : t_(t), g_(g), chain_(chain), knobs_(knobs), form_(form) {}

  void write() {
    StageRef anchor = t_.stage(g_.anchor);
    const std::array<Param, 3> rows{kAttentionUnit, knobs_.row_tiles, knobs_.row_warps};
    if (form_.in_parts) {
      const StageRef::OnlineParts s =
          anchor.online_softmax_in_parts(rows, knobs_.keys, knobs_.parts);
      inline_chain();
      write_tiles(s.of_part, s.part);
      add_parts(s);
    } else {
      const StageRef::OnlineStages s = anchor.online_softmax(rows, knobs_.keys);
      inline_chain();
      write_tiles(s, t_.stage(g_.output_stage));
    }
  }

 private:
  using Dims = std::vector<StageRef::StorageDim>;

  void inline_chain() {
    if (chain_.reader >= 0) t_.stage(chain_.total).compute_inline();
    if (g_.output_stage != g_.anchor) t_.stage(g_.anchor).compute_inline();
  }

  // The second kernel: it adds up all parts of a row and column in one thread.
  void add_parts(const StageRef::OnlineParts& s) {
    StageRef out = t_.stage(g_.output_stage);
    constexpr int64_t kThreads = 128, kColumns = 4, kPartsAtOnce = 8;
    std::vector<Loop> outer = out.all_axes();
    const bool along = chain_.col + 1 == out.num_axes();
    auto [cols, lane] = out.split(outer.back(), along ? whole_vector(chain_.cols, kColumns) : 1);
    outer.back() = cols;
    auto [block, thread] = out.split(out.fuse(outer), kThreads);
    out.bind(block, LoopKind::BlockX);
    out.bind(thread, LoopKind::ThreadX);
    out.vectorize(lane);
    for (StageRef x : {s.top, s.total, s.sum}) {
      auto [some, part] = x.split(x.reduce_axis(0), kPartsAtOnce);
      if (x.num_axes() == out.num_axes()) {
        x.reorder({some, part, x.axis(-1)});
        x.vectorize(x.axis(-1));
      }
      x.unroll(part);
      x.compute_at(out, thread);
    }
  }

  void write_tiles(StageRef::OnlineStages s, StageRef out) {
    StageRef query_frag = s.queries.cache_read({s.products});
    StageRef key_frag = s.keys.cache_read({s.products});
    StageRef value_frag = s.values.cache_read({s.weighted});
    const Loop block = block_loops(out);
    for (StageRef x : {s.queries, s.weighted, s.partial, s.highest, s.total})
      x.compute_at(out, block);
    const Loop step = weighted_loops(s.weighted), tile = s.weighted.reduce_axis(0);
    for (StageRef x : {s.keys, s.values, s.products, s.scores, s.tile_max, s.powers, s.weights})
      x.compute_at(s.weighted, tile);
    const Loop depth_step = product_loops(s.products);
    for (StageRef x : {s.scores, s.powers}) elements(x, accumulators(x));
    elements(s.weights, first_operand(s.weights, row_dim(), row_dim() + 1));
    for (StageRef x : {s.highest, s.tile_max, s.total}) row_values(x);
    partial_loops(s.partial);
    shared_tile(s.queries, chain_.query, chain_.query_along_depth, chain_.depth, false);
    shared_tile(s.keys, chain_.key, chain_.key_along_depth, chain_.depth, true);
    // The lines of the tile are keys where the operand is contiguous along the columns.
    shared_tile(s.values, chain_.value, !chain_.value_along_keys, chain_.cols, true);
    query_fragments(query_frag, out, block, s.products, depth_step);
    column_fragments(key_frag, s.products, depth_step, chain_.key_along_depth);
    column_fragments(value_frag, s.weighted, step, chain_.value_along_keys);
  }

  // The dimension of the rows: after those of the batch, and the axis of parts.
  int row_dim() const { return static_cast<int>(chain_.batch.size()) + (form_.in_parts ? 1 : 0); }

  std::vector<Loop> batch_of(StageRef s) const {
    std::vector<Loop> out;
    for (int i = 0; i < row_dim(); ++i) out.push_back(s.axis(i));
    return out;
  }
  Dims batch_dims() const {
    Dims out;
    for (int i = 0; i < row_dim(); ++i) out.push_back({i, 1, 0});
    return out;
  }
  static void append(std::vector<Loop>* to, const std::vector<Loop>& more) {
    to->insert(to->end(), more.begin(), more.end());
  }

  // ---- layouts (lower/gpu/tile_nest.h) ----

  Dims with_batch(const Dims& more) const {
    Dims out = batch_dims();
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  Dims accumulators(StageRef) const {
    const int m = row_dim(), n = m + 1;
    return with_batch({{m, 16, 0}, {n, 8, 0}, {m, 1, 8}, {n, 2, 4}, {m, 8, 2}, {n, 1, 2}});
  }
  Dims first_operand(StageRef, int m, int k) const {
    return with_batch(
        {{m, 16, 0}, {k, 16, 0}, {m, 1, 8}, {k, 2, 4}, {k, 8, 2}, {m, 8, 2}, {k, 1, 2}});
  }
  Dims second_operand(int k, int n) const {
    return with_batch({{k, 16, 0}, {n, 8, 0}, {n, 1, 8}, {k, 2, 4}, {k, 8, 2}, {k, 1, 2}});
  }

  // ---- loops ----

  // The loops over rows: warps, tiles of a warp, rows of a tile.
  struct Rows {
    Loop warp, tile, in;
  };
  Rows cut_rows(StageRef s, Loop axis) const {
    auto [units, in] = s.split(axis, kAttentionUnit, TailStrategy::PredicateStores);
    auto [warp, tile] = s.split(units, knobs_.row_tiles, TailStrategy::PredicateStores);
    return {warp, tile, in};
  }

  // Each lane stores two columns: row = 8*i + lane / 4, column = 2*(lane % 4) + j. Returns the loop
  // over blocks.
  Loop block_loops(StageRef s) const {
    const bool parts = form_.in_parts;
    const Rows r = cut_rows(s, s.axis(parts ? row_dim() : chain_.row));
    auto [block, warp] = s.split(r.warp, knobs_.row_warps, TailStrategy::PredicateStores);
    auto [units, unit] = s.split(s.axis(parts ? row_dim() + 1 : chain_.col), kAttentionUnit,
                                 TailStrategy::PredicateStores);
    // A loop of one iteration surrounds all columns, so that the stages inside are computed for
    // whole units.
    auto [all, wide] = s.split(units, ceil_div(chain_.cols, kAttentionUnit));
    auto [col_tile, col] = s.split(unit, 8);
    auto [half, lane_row] = s.split(r.in, 8);
    auto [lane_col, pair] = s.split(col, 2);
    std::vector<Loop> batch, order;
    const int batches = static_cast<int>(chain_.batch.size());
    for (int i = 0; i < batches; ++i) batch.push_back(s.axis(parts ? i : chain_.batch[i]));
    order = batch;
    if (parts) order.push_back(s.axis(batches));
    append(&order, {all, block, warp, lane_row, lane_col, r.tile, wide, col_tile, half, pair});
    s.reorder(order);
    s.bind(s.fuse(lane_row, lane_col), LoopKind::ThreadX);
    if (!batch.empty()) s.bind(s.fuse(batch), LoopKind::BlockZ);
    if (parts) s.bind(s.axis(batches), LoopKind::BlockY);
    s.bind(block, LoopKind::BlockX);
    s.bind(warp, LoopKind::ThreadZ);
    for (Loop u : {r.tile, wide, col_tile, half}) s.unroll(u);
    s.vectorize(pair);
    return block;
  }

  // Returns the loop over the steps of one mma.
  Loop weighted_loops(StageRef s) const {
    const Rows r = cut_rows(s, s.axis(row_dim()));
    auto [col_tile, col] = s.split(s.axis(row_dim() + 1), 8);
    auto [step, key] = s.split(s.reduce_axis(1), kAttentionUnit);
    std::vector<Loop> order = batch_of(s);
    append(&order, {s.reduce_axis(0), r.warp, step, r.tile, col_tile, r.in, col, key});
    product_nest(s, order, r, step, col_tile);
    return step;
  }
  Loop product_loops(StageRef s) const {
    const Rows r = cut_rows(s, s.axis(row_dim()));
    auto [col_tile, col] = s.split(s.axis(row_dim() + 1), 8);
    auto [step, depth] = s.split(s.reduce_axis(0), kAttentionUnit);
    std::vector<Loop> order = batch_of(s);
    append(&order, {r.warp, step, r.tile, col_tile, r.in, col, depth});
    product_nest(s, order, r, step, col_tile);
    return step;
  }
  void product_nest(StageRef s, const std::vector<Loop>& order, const Rows& r, Loop step,
                    Loop col_tile) const {
    s.reorder(order);
    s.bind(r.warp, LoopKind::ThreadZ);
    for (Loop u : {step, r.tile, col_tile}) s.unroll(u);
    s.tensorize(r.in);
    s.layout(accumulators(s));
  }

  // The loops of an element-wise stage of rows and keys.
  void elements(StageRef s, const Dims& layout) const {
    const Rows r = cut_rows(s, s.axis(row_dim()));
    std::vector<Loop> order = batch_of(s);
    append(&order, {r.warp, r.tile, r.in, s.axis(row_dim() + 1)});
    row_nest(s, order, r);
    s.layout(layout);
  }
  // The loops of a stage with one value for each row, perhaps for each tile too. It is reduced over
  // a loop of its own or along that of the tiles.
  void row_values(StageRef s) const {
    const int m = row_dim();
    const Rows r = cut_rows(s, s.axis(m));
    const bool of_tile = s.num_axes() > m + 1;
    std::vector<Loop> order = batch_of(s);
    if (of_tile) order.push_back(s.axis(m + 1));
    append(&order, {r.warp, r.tile, r.in, s.reduce_axis(0)});
    row_nest(s, order, r);
    Dims dims = batch_dims();
    if (of_tile) dims.push_back({m + 1, 1, 0});
    dims.insert(dims.end(), {{m, 16, 0}, {m, 1, 8}, {m, 8, 2}});
    s.layout(dims);
  }
  void partial_loops(StageRef s) const {
    const Rows r = cut_rows(s, s.axis(row_dim()));
    std::vector<Loop> order = batch_of(s);
    append(&order,
           {s.reduce_axis(0), r.warp, r.tile, s.reduce_axis(1), r.in, s.axis(row_dim() + 1)});
    row_nest(s, order, r);
    s.unroll(s.reduce_axis(1));
    s.layout(accumulators(s));
  }
  static void row_nest(StageRef s, const std::vector<Loop>& order, const Rows& r) {
    s.reorder(order);
    s.bind(r.warp, LoopKind::ThreadZ);
    s.unroll(r.tile);
    s.tensorize(r.in);
  }

  // ---- operands ----

  // A tile in shared memory, copied 16 bytes at a time. `inner` is the extent along memory. If
  // `straight` is false, the operand is transposed.
  void shared_tile(StageRef s, const Expr& load, bool straight, int64_t inner,
                   bool streamed) const {
    s.set_scope(Scope::Shared);
    s.storage_pad(8);
    if (streamed) s.multi_buffer(knobs_.stages);
    const Loop all = s.fuse(s.all_axes());
    auto [vectors, lane] = s.split(all, vector_of(load, straight, inner));
    auto [o, x] = s.split(vectors, kWarp);
    auto [each, z] = s.split(o, knobs_.row_warps);
    s.reorder({z, x, each, lane});
    s.bind(x, LoopKind::ThreadX);
    s.bind(z, LoopKind::ThreadZ);
    s.unroll(each);
    s.vectorize(lane);
  }
  // The number of elements that are adjacent at every multiple of that number.
  int64_t vector_of(const Expr& e, bool straight, int64_t inner) const {
    const Load* load = e.as<Load>();
    if (load->indices.back().kind() != ExprKind::Var || !straight) return 1;
    const int64_t row = *as_int(load->buffer->shape.back());
    return whole_vector(inner, whole_vector(row, 8));
  }

  void query_fragments(StageRef s, StageRef out, Loop block, StageRef products, Loop step) const {
    const int line = chain_.query_along_depth ? row_dim() : row_dim() + 1,
              depth = chain_.query_along_depth ? row_dim() + 1 : row_dim();
    auto [units, in] = s.split(s.axis(line), kAttentionUnit);
    auto [k_tile, k] = s.split(s.axis(depth), kAttentionUnit);
    std::vector<Loop> order = batch_of(s);
    if (form_.resident) {
      auto [warp, tile] = s.split(units, knobs_.row_tiles);
      append(&order, {warp, tile, k_tile, in, k});
      s.bind(warp, LoopKind::ThreadZ);
      for (Loop u : {tile, k_tile}) s.unroll(u);
      s.compute_at(out, block);
    } else {
      append(&order, {units, k_tile, in, k});
      for (Loop u : {units, k_tile}) s.unroll(u);
      s.compute_at(products, step);
    }
    s.reorder(order);
    s.tensorize(in);
    s.layout(first_operand(s, line, depth));
  }

  // Fragments of keys and values: one ldmatrix.x4 loads two tiles of columns.
  void column_fragments(StageRef s, StageRef product, Loop step, bool along_depth) const {
    const int line = along_depth ? row_dim() : row_dim() + 1,
              depth = along_depth ? row_dim() + 1 : row_dim();
    auto [tile, in] = s.split(s.axis(line), 16);
    const Loop k = s.axis(depth);
    std::vector<Loop> order = batch_of(s);
    append(&order, {tile, k, in});
    s.reorder(order);
    s.unroll(tile);
    s.tensorize(k);
    s.layout(second_operand(depth, line));
    s.compute_at(product, step);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const Attention& chain_;
  const AttentionKnobs& knobs_;
  const AttentionForm form_;
};

}  // namespace

void attention_recipe(TemplateBuilder& t, const StageGroup& g, const Attention& chain,
                      const AttentionKnobs& knobs, AttentionForm form) {
  Recipe(t, g, chain, knobs, form).write();
}

}  // namespace heddle::meta
