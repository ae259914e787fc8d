// clang-format off
//   for blocks (blockIdx): a tile of rows                      groups x 64
//     queries.tile = boxes of 64 elements of the depth         shared memory, by TMA
//     highest = lowest; partial = 0; weighted = 0              registers
//     for t: a tile of keys                                    `stages` of them under way
//       keys.tile, values.tile = boxes                         shared memory, by TMA
//       for groups (threadIdx.z): for 4 warps (threadIdx.y):
//         products = queries x keys                            wgmma
//         scores, tile_max, highest, powers, weights, partial  as in recipe.cpp
//         weighted = weighted*shrink + weights x values        wgmma, weights in registers
//     total = sum of a row of partial
//     output stage[..] = weighted / total                      two columns a lane
// clang-format on
//
// Lowering gives the loads a warp group of their own, and lets a group multiply for two tiles while
// it computes the powers of one (lower/gpu/warp_group/warp_roles.cpp). Rows of boxes are 128 bytes
// of a query,
// a key or a value. Keys and values beyond the last are zeros.
#include "cuda/attention/group.h"
#include "cuda/attention/loops.h"
#include "cuda/products/window_shape.h"
#include "heddle/ir/simplify.h"

namespace heddle::meta {
namespace {

constexpr int64_t kBoxRow = 64;  // 16-bit elements of a row of a box

class Recipe : AttentionLoops {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const Attention& chain,
         const AttentionGroupKnobs& knobs)
      : AttentionLoops(t, g, chain, {1, knobs.groups, true}, false), knobs_(knobs) {}

  void write() {
    const StageRef::OnlineStages s = t_.stage(g_.anchor).online_softmax(row_factors(), knobs_.keys);
    inline_chain();
    StageRef out = t_.stage(g_.output_stage);
    const Loop block = block_loops(out);
    for (StageRef x : {s.queries, s.weighted, s.partial, s.highest, s.total})
      x.compute_at(out, block);
    const Loop tile = s.weighted.reduce_axis(0);
    product_loops(s.weighted, s.weighted.reduce_axis(1), {tile});
    for (StageRef x : {s.keys, s.values, s.products, s.scores, s.tile_max, s.powers, s.weights})
      x.compute_at(s.weighted, tile);
    product_loops(s.products, s.products.reduce_axis(0), {});
    for (StageRef x : {s.scores, s.powers}) elements(x, accumulators());
    elements(s.weights, mma::left(row_dim(), row_dim() + 1, kPack));
    for (StageRef x : {s.highest, s.tile_max, s.total}) row_values(x);
    partial_loops(s.partial);
    load_lines(s.queries);
    load_lines(s.keys);
    load_squares(s.values);
    for (StageRef x : {s.keys, s.values}) x.multi_buffer(knobs_.stages);
  }

 private:
  // The loops of a product over `reduce`, inside of `outer`.
  void product_loops(StageRef s, Loop reduce, const std::vector<Loop>& outer) const {
    const Rows r = cut_rows(s, s.axis(row_dim()));
    const Loop col = s.axis(row_dim() + 1);
    auto [step, k] = s.split(reduce, kAttentionUnit);
    std::vector<Loop> order = batch_of(s);
    append(&order, outer);
    r.append_threads(&order);
    append(&order, {step, r.tile, r.in, col, k});
    s.reorder(order);
    r.bind_threads(s);
    for (Loop u : {step, r.tile}) s.unroll(u);
    s.tensorize(r.in, "wgmma");
    lay_out(s, accumulators());
  }

  // A tile whose lines run along the depth of its product: a box of all lines for each 64 elements.
  void load_lines(StageRef s) const {
    const int line = row_dim(), inner = line + 1;
    s.set_scope(Scope::Shared);
    auto [box, in] = s.split(s.axis(inner), kBoxRow, TailStrategy::PredicateStores);
    std::vector<Loop> order = batch_of(s);
    append(&order, {box, s.axis(line), in});
    s.reorder(order);
    s.unroll(box);
    s.tensorize(s.axis(line), "tma_load");
    lay_out(s, tma::along_depth(line, inner, kBoxRow));
  }

  // A tile whose lines run across the depth of its product: boxes of 64 lines of 64 elements.
  void load_squares(StageRef s) const {
    const int line = row_dim(), inner = line + 1;
    s.set_scope(Scope::Shared);
    auto [lines, of_lines] = s.split(s.axis(line), kBoxRow);
    auto [box, in] = s.split(s.axis(inner), kBoxRow);
    std::vector<Loop> order = batch_of(s);
    append(&order, {lines, box, of_lines, in});
    s.reorder(order);
    for (Loop u : {lines, box}) s.unroll(u);
    s.tensorize(of_lines, "tma_load");
    lay_out(s, tma::squares(inner, line, kBoxRow));
  }

  const AttentionGroupKnobs& knobs_;
};

// Whether TMA can load lines of `extent` elements: they are adjacent along `inner`, and of the
// other dimensions one is the line itself. What lies beyond the last line, and in the last box of a
// line beyond its end, must lie outside of the operand: TMA writes zeros there.
bool loads_lines(const Expr& operand, const Var& line, int64_t lines, const Var& inner,
                 int64_t extent) {
  constexpr size_t kMostDims = 5;
  constexpr int64_t kRowMultiple = 8;  // elements in 16 bytes
  const Load& load = *operand.as<Load>();
  const std::vector<Expr>& shape = load.buffer->shape;
  const size_t rank = load.indices.size();
  if (rank < 2 || rank > kMostDims) return false;
  const int64_t* row = as_int(shape.back());
  const Expr first = simplify(load.indices.back() - inner.expr());
  if (!row || *row % kRowMultiple != 0 || uses_var(first, inner) || uses_var(first, line))
    return false;
  if (extent % kBoxRow != 0 && (!is_const(first, 0) || *row != extent)) return false;
  int found = 0;
  for (size_t d = 0; d + 1 < rank; ++d) {
    if (uses_var(load.indices[d], inner)) return false;
    if (!uses_var(load.indices[d], line)) continue;
    const int64_t* n = as_int(shape[d]);
    if (!equal(load.indices[d], line.expr()) || !n || *n != lines) return false;
    ++found;
  }
  return found == 1;
}

}  // namespace

std::vector<int> attention_group_operands(const ComputeDag& dag, const StageGroup& g,
                                          const Attention& chain, const Gpu& gpu) {
  constexpr int kFewestThreads = 256;  // a warp group that loads, and one that multiplies
  constexpr int64_t kLongestHead = 256;
  if (!gpu.has_wgmma() || gpu.threads_per_block < kFewestThreads || chain.depth > kLongestHead ||
      chain.cols > kLongestHead)
    return {};
  // The index of a single row is a constant, by which lowering does not recognise a box of rows.
  if (chain.rows == 1) return {};
  const Operation& op = dag.stage(chain.weighted);
  const Var &row = op.axes()[static_cast<size_t>(chain.row)].var(),
            &col = op.axes()[static_cast<size_t>(chain.col)].var(),
            &key = op.reduce_axes()[0].var();
  if (!loads_lines(chain.query, row, chain.rows, chain.depth_var, chain.depth) ||
      !loads_lines(chain.key, key, chain.keys, chain.depth_var, chain.depth) ||
      !loads_lines(chain.value, key, chain.keys, col, chain.cols))
    return {};
  std::vector<int> out;
  for (const Expr& operand : {chain.query, chain.key, chain.value}) {
    const Buffer& buffer = operand.as<Load>()->buffer;
    const int s = dag.index_of(static_cast<const Operation*>(buffer->producer()));
    if (s < 0 || !can_be_in_memory(dag, g, s)) return {};
    out.push_back(s);
  }
  return out;
}

void attention_group_recipe(TemplateBuilder& t, const StageGroup& g, const Attention& chain,
                            const AttentionGroupKnobs& knobs) {
  Recipe(t, g, chain, knobs).write();
}

}  // namespace heddle::meta
