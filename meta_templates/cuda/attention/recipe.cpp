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
//     for blocks, threads:                                     a column each
//       top = max of part.highest
//       total, sum = sums of parts, shrunk by exp(part.highest - top)
//       output stage[..] = sum / total
// clang-format on
#include "cuda/attention/recipe.h"

#include "cuda/attention/loops.h"

namespace heddle::meta {
namespace {

class Recipe : AttentionLoops {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const Attention& chain,
         const AttentionKnobs& knobs, AttentionForm form)
      : AttentionLoops(t, g, chain, {knobs.row_tiles, knobs.row_warps}, form.in_parts),
        knobs_(knobs),
        form_(form) {}

  void write() {
    StageRef anchor = t_.stage(g_.anchor);
    if (form_.in_parts) {
      const StageRef::OnlineParts s =
          anchor.online_softmax_in_parts(row_factors(), knobs_.keys, knobs_.parts);
      inline_chain();
      write_tiles(s.of_part, s.part);
      add_parts(s);
    } else {
      const StageRef::OnlineStages s = anchor.online_softmax(row_factors(), knobs_.keys);
      inline_chain();
      write_tiles(s, t_.stage(g_.output_stage));
    }
  }

 private:
  // The second kernel: it adds up all parts of a row and column in one thread, which has up to 32 of them under way:
  // with eight at a time, 64 parts took the latency of L2 24 times. Rows are few, so a thread has one column.
  void add_parts(const StageRef::OnlineParts& s) {
    StageRef out = t_.stage(g_.output_stage);
    constexpr int64_t kThreads = 64, kPartsAtOnce = 32;
    auto [block, thread] = out.split(out.fuse(out.all_axes()), kThreads);
    out.bind(block, LoopKind::BlockX);
    out.bind(thread, LoopKind::ThreadX);
    for (StageRef x : {s.top, s.total, s.sum}) {
      x.unroll(x.split(x.reduce_axis(0), kPartsAtOnce)[1]);
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
    for (StageRef x : {s.scores, s.powers}) elements(x, accumulators());
    elements(s.weights, mma::left(row_dim(), row_dim() + 1, kPack));
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

  // ---- loops ----

  // Returns the loop over the steps of one mma.
  Loop weighted_loops(StageRef s) const {
    const Rows r = cut_rows(s, s.axis(row_dim()));
    auto [col_tile, col] = s.split(s.axis(row_dim() + 1), 8);
    auto [step, key] = s.split(s.reduce_axis(1), kAttentionUnit);
    std::vector<Loop> order = batch_of(s);
    order.push_back(s.reduce_axis(0));
    r.append_threads(&order);
    append(&order, {step, r.tile, col_tile, r.in, col, key});
    product_nest(s, order, r, step, col_tile);
    return step;
  }
  Loop product_loops(StageRef s) const {
    const Rows r = cut_rows(s, s.axis(row_dim()));
    auto [col_tile, col] = s.split(s.axis(row_dim() + 1), 8);
    auto [step, depth] = s.split(s.reduce_axis(0), kAttentionUnit);
    std::vector<Loop> order = batch_of(s);
    r.append_threads(&order);
    append(&order, {step, r.tile, col_tile, r.in, col, depth});
    product_nest(s, order, r, step, col_tile);
    return step;
  }
  void product_nest(StageRef s, const std::vector<Loop>& order, const Rows& r, Loop step,
                    Loop col_tile) const {
    s.reorder(order);
    r.bind_threads(s);
    for (Loop u : {step, r.tile, col_tile}) s.unroll(u);
    s.tensorize(r.in, "mma");
    lay_out(s, accumulators());
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
    s.tensorize(in, "ldmatrix");
    lay_out(s, mma::left(line, depth, kPack));
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
    s.tensorize(k, "ldmatrix");
    lay_out(s, mma::right(depth, line, kPack));
    s.compute_at(product, step);
  }

  const AttentionKnobs& knobs_;
  const AttentionForm form_;
};

}  // namespace

void attention_recipe(TemplateBuilder& t, const StageGroup& g, const Attention& chain,
                      const AttentionKnobs& knobs, AttentionForm form) {
  Recipe(t, g, chain, knobs, form).write();
}

}  // namespace heddle::meta
