// Complex reductions: contractions whose operands are reused (matmul, convolution).
//
// One spatial axis is the vector axis v (an operand is contiguous along it, or is packed so),
// another the row axis m (the vector operand does not depend on it). A register tile of rows x
// vectors is kept in registers over the whole reduction; around it are blocks for the caches:
//
//   pack W                                             (root; once for constants)
//   parallel for batch, row block, column block {
//     for column tile, row tile {                      column panel stays in L1, row block in L2
//       acc[rows][vectors] = 0
//       for k { for rows, vectors (unrolled): acc += a[m, k] (broadcast) * w[k, v] (vector) }
//       epilogue(acc) -> output stage                  bias, activation, conversion
//   } }
//
// The knob "reduction" determines how the reduction is done:
//   whole       as above
//   k_blocked   for k block, column tile, row tile { C += acc }     panels too long for the caches
//   split_k     parallel for k part, .. { part[..] = acc }          few results, a long reduction
//               C = sum(part)
//
// Where the vector axis is not the last one of the result (the channels of an image in planes), a
// tile has a few elements of each of many lines. With the knob "stage_results" the results of a
// block are first stored with the vector axis innermost, and whole lines are copied from there.
//
// A product whose rows another product reads (attention) is attached to that product: it is
// computed within its blocks of rows (location), with all columns, so that both products of a block
// run while it is in a cache.
//
// A convolution whose image another convolution reads (a pointwise one before a depthwise one, or
// the reverse) is attached likewise, with the element-wise stages after it: a block has some rows
// of the image, and of a depthwise convolution some channels.
//
// contraction.h finds the axes and operands, contraction_problem.h has the features that the rule
// sees, contraction_rule.cpp chooses the numbers, contraction_knobs.cpp has the knobs, and
// operand_copies.cpp copies operands. This file writes the loops.
#include <array>

#include "common/costs.h"
#include "common/loops.h"
#include "cpu/products/contraction_knobs.h"
#include "cpu/products/operand_copies.h"
#include "cpu/products/packs_once.h"

namespace heddle::meta::cpu {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && g.anchor_class == StageClass::ComplexReduction &&
         !dag.stage(g.anchor).axes().empty() && !sums_rows(dag, g.anchor, target);
}

/// The loops of the stage that stores the register tiles.
struct HostLoops {
  Loop blocks;              ///< all loops over blocks, fused
  std::vector<Loop> tiles;  ///< over the tiles of a block, outermost first
  std::vector<Loop> tile;   ///< inside a tile: rows (unrolled), vectors (unrolled), lanes
};

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const Contraction& c, const ContractionKnobs& k, bool parallel)
      : t_(t), c_(c), sh_(c.shape), k_(k), parallel_(parallel), copies_(t, c, k, parallel) {}

  void write() {
    if (c_.group.attached) {
      t_.when(k_.location, 0, [&] { whole(); });
      for (size_t p = 0; p < c_.group.places.size(); ++p) {
        t_.when(k_.location, static_cast<int64_t>(p) + 1, [&] { within(c_.group.places[p]); });
      }
      return;
    }
    t_.when(k_.reduction, kWholeReduction, [&] { whole(); });
    if (k_.offers(kKBlocked)) t_.when(k_.reduction, kKBlocked, [&] { k_blocked(); });
    if (k_.offers(kSplitK)) t_.when(k_.reduction, kSplitK, [&] { split_k(); });
  }

 private:
  void whole() {
    if (k_.stage_results.is_const()) return in_place();
    t_.when(k_.stage_results, 0, [&] { in_place(); });
    t_.when(k_.stage_results, 1, [&] { staged(); });
  }

  void in_place() {
    StageRef anchor = t_.stage(c_.group.anchor), output_stage = t_.stage(c_.group.output_stage);
    StageRef acc = c_.has_epilogue() ? anchor : anchor.cache_write();
    const HostLoops h = block_loops(output_stage, 0);
    over_blocks(output_stage, h.blocks);
    inside_blocks(acc, 0, output_stage, h);
  }

  // The results of a block are stored with vectors one after the other and then copied by squares.
  void staged() {
    StageRef output_stage = t_.stage(c_.group.output_stage), staged = output_stage.cache_write();
    StageRef acc = c_.has_epilogue() ? t_.stage(c_.group.anchor) : staged.cache_write();
    const Loop blocks = square_loops(output_stage);
    over_blocks(output_stage, blocks);
    const HostLoops h = tile_loops(staged, true);
    lay_lanes_side_by_side(staged, 0);
    inside_blocks(acc, 0, staged, h);
    staged.compute_at(output_stage, blocks);
  }

  void over_blocks(StageRef host, Loop blocks) {
    if (parallel_) host.parallel(blocks);
    // Padding, casts and other producers of an operand may be computed for one block at a time.
    if (!c_.group.attached) t_.offer_place(host, blocks, "block", {}, k_.block_has_batch);
  }

  // Computes what one iteration of another group's loop reads.
  void within(const StageGroup::Place& place) {
    StageRef anchor = t_.stage(c_.group.anchor), last = t_.stage(c_.group.output_stage);
    StageRef acc = c_.has_epilogue() ? anchor : anchor.cache_write();
    const HostLoops h = tile_loops(last, false);
    inside_blocks(acc, 0, last, h);
    last.compute_at(t_.stage(place.stage), place.loop);
  }

  // Cuts the loops of `h`, which has the results of one block, into tiles.
  HostLoops tile_loops(StageRef h, bool columns_first) {
    HostLoops out;
    auto [col_tile, col] = h.split(h.axis(sh_.v), k_.tile_cols);
    auto [vector, lane] = h.split(col, c_.lanes);
    out.tiles = {col_tile};
    out.tile = {vector, lane};
    std::vector<Loop> others, rows;
    for (int i = 0; i < static_cast<int>(c_.op.axes().size()); ++i) {
      if (i != sh_.v && i != sh_.m) others.push_back(h.axis(i));
    }
    if (columns_first) out.tiles = joined(out.tiles, others);
    if (sh_.m >= 0) {
      auto [row_tile, row] = h.split(h.axis(sh_.m), k_.tile_rows);
      h.unroll(row);
      out.tiles.push_back(row_tile);
      out.tile.insert(out.tile.begin(), row);
    }
    h.reorder(joined(joined(columns_first ? std::vector<Loop>() : others, out.tiles), out.tile));
    h.unroll(vector);
    h.vectorize(lane);
    return out;
  }

  // Cuts the loops of the result into blocks and those into squares of registers. In place of a tile
  // of rows there is a vector of them. Returns the loop over blocks.
  Loop square_loops(StageRef h) {
    auto [col_tile, col] = h.split(h.axis(sh_.v), k_.tile_cols);
    auto [col_block, col_of_block] = h.split(col_tile, k_.col_block_tiles);
    auto [square, lane] = h.split(col, c_.lanes);
    auto [vectors, element] = h.split(h.axis(sh_.m), c_.lanes);
    auto [row_block, vector] = h.split(vectors, k_.row_block_tiles);
    std::vector<Loop> blocks, inside{col_of_block, square};
    for (const auto* axes : {&sh_.batch, &sh_.m_others, &sh_.v_others}) {
      for (int i : *axes) {
        if (sh_.m_others.empty() || i != sh_.m_others.back()) {
          blocks.push_back(h.axis(i));
          continue;
        }
        auto [other_block, other] = h.split(h.axis(i), k_.other_block_rows);
        blocks.push_back(other_block);
        inside.push_back(other);
      }
    }
    blocks.insert(blocks.end(), {row_block, col_block});
    h.reorder(joined(joined(blocks, inside), {vector, lane, element}));
    h.unroll(lane);
    h.vectorize(element);
    h.expect(Instruction::TransposedSquare);
    return h.fuse(blocks);
  }

  // Adds blocks of the reduction to the result.
  void k_blocked() {
    StageRef anchor = t_.stage(c_.group.anchor), output_stage = t_.stage(c_.group.output_stage);
    StageRef block = anchor.rfactor(anchor.reduce_axis(c_.longest), k_.k_block, false);
    HostLoops h;
    if (c_.has_epilogue()) {
      // The epilogue runs on each block of the result as soon as it is complete, while it is in a
      // cache.
      const HostLoops outer = block_loops(output_stage, 0);
      if (parallel_) output_stage.parallel(outer.blocks);
      anchor.compute_at(output_stage, outer.blocks);
      h = block_loops(anchor, 0);
    } else {
      h = block_loops(anchor, 0);
      if (parallel_) anchor.parallel(h.blocks);
    }
    anchor.reorder(joined(joined({anchor.reduce_axis(0)}, h.tiles), h.tile));
    inside_blocks(block, 1, anchor, h);
  }

  // Computes parts of the reduction in parallel and then adds them.
  void split_k() {
    StageRef anchor = t_.stage(c_.group.anchor);
    StageRef parts = anchor.rfactor(anchor.reduce_axis(c_.longest), k_.k_part, false);
    StageRef acc = parts.cache_write();
    const HostLoops h = block_loops(parts, 1);
    parts.parallel(h.blocks);
    inside_blocks(acc, 1, parts, h);
    // The sum of the parts streams memory, so the parts are the outer loop and vectors the inner
    // one.
    std::vector<Loop> order = anchor.all_axes();
    auto [outer, lane] = anchor.split(anchor.axis(-1), c_.lanes);
    order.back() = anchor.reduce_axis(0);
    anchor.reorder(joined(order, {outer, lane}));
    anchor.vectorize(lane);
    if (!c_.has_epilogue()) return;
    StageRef output_stage = t_.stage(c_.group.output_stage);
    output_stage.vectorize(output_stage.split(output_stage.axis(-1), c_.lanes)[1]);
  }

  // Cuts the loops of `h` into blocks and tiles. `first` is the number of leading axes that the
  // declaration does not have (the parts of a reduction).
  HostLoops block_loops(StageRef h, int first) {
    HostLoops out;
    const auto axis = [&](int i) { return h.axis(first + i); };
    const bool in_blocks = c_.block_axis >= 0;
    auto [col_tile, col] = in_blocks ? h.split(axis(c_.block_axis), k_.tile_blocks)
                                     : h.split(axis(sh_.v), k_.tile_cols);
    auto [vector, lane] = h.split(in_blocks ? axis(sh_.v) : col, c_.lanes);
    auto [col_block, col_of_block] = h.split(col_tile, k_.col_block_tiles);
    std::vector<Loop> blocks, row_tiles;
    for (int i = 0; i < first; ++i) blocks.push_back(h.axis(i));
    for (int i : sh_.batch) blocks.push_back(axis(i));
    for (int i : sh_.m_others) {
      if (i != sh_.m_others.back()) {
        blocks.push_back(axis(i));
        continue;
      }
      auto [other_block, other] = h.split(axis(i), k_.other_block_rows);
      blocks.push_back(other_block);
      row_tiles.push_back(other);
    }
    if (sh_.m >= 0) {
      const auto [row_block, row_tile, row] = split_rows(h, axis(sh_.m));
      blocks.push_back(row_block);
      row_tiles.push_back(row_tile);
      out.tile.push_back(row);
    }
    for (int i : sh_.v_others) {
      if (i == c_.block_axis) continue;
      if (!k_.blocks_vector_rows || i != sh_.v_others.back()) {
        blocks.push_back(axis(i));
        continue;
      }
      auto [other_block, other] = h.split(axis(i), k_.other_block_rows);
      blocks.push_back(other_block);
      row_tiles.insert(row_tiles.begin(), other);
    }
    blocks.push_back(col_block);
    out.tiles = row_tiles;
    out.tiles.insert(columns_inside() ? out.tiles.end() : out.tiles.begin(), col_of_block);
    if (in_blocks) out.tile.push_back(col);
    out.tile.insert(out.tile.end(), {vector, lane});
    h.reorder(joined(joined(blocks, out.tiles), out.tile));
    if (sh_.m >= 0) h.unroll(out.tile.front());
    if (in_blocks) h.unroll(col);
    h.unroll(vector);
    h.vectorize(lane);
    out.blocks = h.fuse(blocks);
    return out;
  }

  // Splits rows into blocks, tiles of a block, and rows of a tile. In a chain the size of a block
  // is given in rows.
  std::array<Loop, 3> split_rows(StageRef h, Loop rows) {
    if (!c_.group.chain.empty()) {
      auto [block, in_block] = h.split(rows, k_.chain_block_rows);
      auto [tile, row] = h.split(in_block, k_.tile_rows);
      return {block, tile, row};
    }
    auto [tiles, row] = h.split(rows, k_.tile_rows);
    auto [block, tile] = h.split(tiles, k_.row_block_tiles);
    return {block, tile, row};
  }

  // Whether columns are the inner loop. Where nothing is broadcast, no panel of the vector operand
  // is read again. If the operand comes from memory, it is then read in its order: all columns of
  // some rows.
  bool columns_inside() const {
    return !sh_.row && sh_.vector && bytes_of(sh_.vector->tensor) > 2 * t_.target().l2_bytes;
  }

  // Writes the register tile and the copies that it reads, for each way to group products and to
  // lay out channels.
  void inside_blocks(StageRef acc, int first, StageRef host, const HostLoops& h) {
    const auto write = [&](int64_t dot, bool channels_last) {
      register_tile(acc, first, host, h.tiles.back(), dot, channels_last);
      if (dot > 1)
        copies_.write_groups(acc, dot, channels_last);
      else
        copies_.write(acc, host, h.tiles.front(), channels_last);
    };
    const auto when = [&](Param knob, int64_t value, auto&& body) {
      if (knob.is_const()) return value == knob.value ? body() : void();
      t_.when(knob, value, body);
    };
    for (int64_t dot : c_.dot_sizes) {
      when(k_.dot, dot, [&] {
        for (bool last : {false, true})
          when(k_.copies.channels_last, last, [&] { write(dot, last); });
      });
    }
  }

  // Computes stage `acc` at loop `at` of `host`, with the whole reduction inside and the results in
  // registers. `dot` is the number of products that one instruction adds
  // (codegen/llvm/dot_product.cpp).
  void register_tile(StageRef acc, int first, StageRef host, Loop at, int64_t dot,
                     bool channels_last) {
    std::vector<Loop> order, reduce = acc.all_reduce_axes();
    Loop group;
    if (dot > 1) {
      auto [groups, members] = acc.split(reduce[static_cast<size_t>(c_.grouped->axis)], dot);
      reduce[static_cast<size_t>(c_.grouped->axis)] = groups;
      group = members;
    }
    for (int i = 0; i < acc.num_axes(); ++i) {
      const int axis = i - first;
      if (axis < 0 || (axis != sh_.v && axis != sh_.m && axis != c_.block_axis))
        order.push_back(acc.axis(i));
    }
    const auto last = static_cast<size_t>(c_.innermost_reduce(channels_last));
    for (size_t i = 0; i < reduce.size(); ++i) {
      if (i != last) order.push_back(reduce[i]);
    }
    auto [k, step] = acc.split(reduce[last], k_.unroll_k);
    order.push_back(k);
    order.push_back(step);
    if (sh_.m >= 0) order.push_back(acc.axis(first + sh_.m));
    if (c_.block_axis >= 0) order.push_back(acc.axis(first + c_.block_axis));
    auto [vector, lane] = acc.split(acc.axis(first + sh_.v), c_.lanes);
    order.push_back(vector);
    if (group.valid()) order.push_back(group);
    order.push_back(lane);
    acc.reorder(order);
    acc.unroll(step);
    if (group.valid()) acc.unroll(group).expect(Instruction::DotProduct);
    if (sh_.m >= 0) acc.unroll(acc.axis(first + sh_.m));
    if (c_.block_axis >= 0) acc.unroll(acc.axis(first + c_.block_axis));
    acc.unroll(vector);
    acc.vectorize(lane);
    if (sh_.v + 1 != static_cast<int>(c_.op.axes().size())) lay_lanes_side_by_side(acc, first);
    acc.compute_at(host, at);
  }

  // Makes the lanes of the accumulators adjacent, whatever the layout of the result is.
  void lay_lanes_side_by_side(StageRef acc, int first) {
    std::vector<StageRef::StorageDim> dims;
    for (int i = 0; i < acc.num_axes(); ++i) {
      if (i - first != sh_.v) dims.push_back({i, 1, 0});
    }
    dims.push_back({first + sh_.v, 1, 0});
    acc.layout(dims);
  }

  TemplateBuilder& t_;
  const Contraction& c_;
  const ContractionShape& sh_;
  const ContractionKnobs& k_;
  bool parallel_;
  OperandCopies copies_;
};

void note_shape(TemplateBuilder& t, const Contraction& c) {
  const ContractionShape& sh = c.shape;
  const auto name = [&](int axis) { return c.op.axes()[static_cast<size_t>(axis)].name(); };
  std::string text = "vector axis " + name(sh.v);
  if (sh.m >= 0) text += ", row axis " + name(sh.m);
  if (sh.vector) text += ", vectors from " + sh.vector->tensor.name();
  if (sh.row) text += ", broadcasts from " + sh.row->tensor.name();
  t.note(text);
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const Contraction contraction(t, g);
  note_shape(t, contraction);
  const ContractionProblem problem = contraction_problem(t, contraction);
  // What was learned is about convolutions that read their image from memory.
  const Choice choice = problem.images.hosted || g.in_images
                            ? contraction_rule(problem)
                            : t.decide("contraction", problem, contraction_rule);
  const ContractionKnobs knobs = ask_contraction_knobs(t, contraction, problem, choice);
  Recipe(t, contraction, knobs, problem.parallel).write();
}

HEDDLE_REGISTER_META_TEMPLATE({"complex_reduction", 0, matches, build});

}  // namespace
}  // namespace heddle::meta::cpu
