// Products of narrow types on CPUs with tile registers (AMX): bytes of any signs are summed in i32,
// 16-bit floats in f32.
//
//   pack W in groups along k, in panels of columns         (root, once for constants)
//   parallel for batch, row block, column block {
//     for column tile, row tile {                          A's rows stay in L2
//       acc[..] = 0
//       tensorized for k {
//         for row tiles, column tiles { for 16 rows, 16 groups of k: acc += a * w }
//       }
//       epilogue(acc) -> output stage
//   } }
//
// Rows of A are read in place: a tile takes 64 bytes along k of each row. Where that is not
// possible (k is not contiguous, or a stage such as padding computes A), A is copied with k
// innermost. Tiles are always full. A matrix product of other sizes is padded with zeros. A
// convolution, whose image is not a matrix, is taken only where tiles divide it.
//
// tile_plan.cpp says which products are taken, and tile_rule.cpp chooses the numbers.
#include <array>
#include <functional>

#include "common/costs.h"
#include "common/loops.h"
#include "cpu/copy_loops.h"
#include "cpu/products/tile_rule.h"
#include "cpu/vectors.h"

namespace heddle::meta::cpu {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return tile_plan(dag, g, target).has_value();
}

// Splits `loop` into full tiles. Results beyond the axis are not stored.
std::array<Loop, 2> whole_tiles(StageRef s, Loop loop, Param size) {
  return s.split(loop, size, TailStrategy::PredicateStores);
}

int64_t extents(const Operation& op, const std::vector<int>& axes) {
  int64_t n = 1;
  for (int i : axes) n *= op.axes()[static_cast<size_t>(i)].extent();
  return n;
}

double elements(const Access& a) {
  return static_cast<double>(bytes_of(a.tensor)) / a.tensor.dtype().bytes();
}

// The work of a product in tile registers, in operations of other products: its multiply-adds are cheaper, and copies of its operands
// come on top (docs/internals/decisions/cpu-products.md, "tile registers").
double work_of_tiles(const TemplateBuilder& t, const StageGroup& g, const TilePlan& plan) {
  constexpr double kCheaper = 20, kCopyCols = 12, kCopyRows = 3, kCopyAcross = 50;
  const ContractionShape& sh = plan.shape;
  const Var& k = t.dag().stage(g.anchor).reduce_axes()[static_cast<size_t>(plan.k.axis)].var();
  const auto& innermost = sh.row->affine.back();
  const bool in_order = innermost && innermost->coefficient(k) != 0;
  double work = stage_work(t.dag(), g.anchor) / kCheaper;
  if (!is_constant(t.dag(), *sh.vector)) work += kCopyCols * elements(*sh.vector);
  if (plan.copies_rows) work += (in_order ? kCopyRows : kCopyAcross) * elements(*sh.row);
  return work;
}

TileProblem tile_problem(const TemplateBuilder& t, const StageGroup& g, const TilePlan& plan) {
  const Operation& op = t.dag().stage(g.anchor);
  const ContractionShape& sh = plan.shape;
  TileProblem p;
  p.target = t.target();
  p.constants = t.constants().cpu;
  p.parallel = worth_parallel(t, work_of_tiles(t, g, plan));
  p.rows = sh.rows;
  p.cols = sh.cols;
  p.depth = plan.k.extent;
  p.rows_of_tile = plan.rows;
  p.outer = extents(op, sh.batch) * extents(op, sh.v_others);
  p.has_other_rows = !sh.m_others.empty();
  p.other_rows = extents(op, sh.m_others);
  if (p.has_other_rows) p.last_other_rows = extents(op, {sh.m_others.back()});
  p.padded = plan.padded;
  p.copies_rows = plan.copies_rows;
  p.vector_constant = is_constant(t.dag(), *sh.vector);
  p.row_element_bytes = sh.row->tensor.dtype().bytes();
  p.row_batch_bytes = bytes_of(sh.row->tensor) / extents(op, sh.batch);
  return p;
}

/// The knobs. A knob that is not offered is the constant 0.
struct TileKnobs {
  Param tile_rows, tile_cols;  ///< the tiles of one product, in elements
  Param pack_vectors;          ///< TilePacking
  /// The size of a block in products, and the rows of a block along the innermost other axis of
  /// rows.
  Param row_block_tiles, col_block_tiles, other_block_rows;
  Param copy_rows;
};

TileKnobs ask_tile_knobs(TemplateBuilder& t, const TilePlan& plan, const TileProblem& p,
                         const Choice& choice) {
  const auto times = [](std::vector<int64_t> list, int64_t n) {
    for (int64_t& x : list) x *= n;
    return list;
  };
  TileKnobs k;
  const int64_t unit = p.unit_rows(), down = p.stacks() ? p.last_other_rows : p.row_tiles();
  k.tile_rows = t.knob("tile_rows", times(kept_tiles(p, down), unit), choice);
  k.tile_cols = t.knob("tile_cols", times(kept_tiles(p, p.col_tiles()), amx::kLanes), choice);
  t.require("the tiles must fit the registers",
            [unit, rows = k.tile_rows, cols = k.tile_cols](const auto& value) {
              const int64_t m = value(rows) / unit, n = value(cols) / amx::kLanes;
              return m * n + std::min(m, n) + 1 <= amx::kRegisters;
            });
  if (!p.vector_constant)
    k.pack_vectors = t.kind("pack_vectors", {"as_it_lies", "whole", "panels"}, choice,
                            {kPackedWhole, kPackedPanels});
  const int64_t rows = row_products(p, t.chosen(k.tile_rows));
  const int64_t cols = ceil_div(p.cols, t.chosen(k.tile_cols));
  const int64_t others = other_products(p, t.chosen(k.tile_rows));
  const auto ask_split = [&](const char* name, const char* old_name, int64_t extent) {
    const Param knob = t.split_knob(name, extent, extent, choice);
    t.alias(knob, old_name);
    return knob;
  };
  k.row_block_tiles = ask_split("row_block_tiles", "row_block", rows);
  k.col_block_tiles = ask_split("col_block_tiles", "col_block", cols);
  if (p.has_other_rows) k.other_block_rows = ask_split("other_block_rows", "other_block", others);
  // This is a knob even with a single value, because it requires that the source of A is at the
  // root.
  std::vector<int64_t> copies{1};
  if (!p.copies_rows) copies.insert(copies.begin(), 0);
  k.copy_rows = t.knob("copy_rows", copies, choice);
  t.keep_at_root(plan.shape.row->producer, k.copy_rows, 1);
  for (int64_t v : copies) t.keep_at_root(plan.shape.vector->producer, k.copy_rows, v);
  return k;
}

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const TilePlan& plan, const TileProblem& p,
         const TileKnobs& k)
      : t_(t),
        g_(g),
        op_(t.dag().stage(g.anchor)),
        plan_(plan),
        sh_(plan.shape),
        p_(p),
        k_(k),
        stacked_(p.stacks() ? sh_.m_others.back() : -1) {}

  // Whether tiles can be stored directly: there is no epilogue, and rows of a tile are rows of the
  // result.
  bool can_store() const {
    return !has_epilogue() && !p_.padded && sh_.v + 1 == std::ssize(op_.axes());
  }

  void in_place() {
    for_each_form([&](bool copy_rows) { multiply_in_place(copy_rows); });
  }
  // Stores tiles to a buffer, from which the results are computed.
  void by_buffer() {
    StageRef anchor = t_.stage(g_.anchor);
    StageRef sum = p_.padded || has_epilogue() ? anchor : anchor.cache_write();
    for_each_form([&](bool copy_rows) { multiply_by_buffer(sum, copy_rows); });
  }

 private:
  bool has_epilogue() const { return g_.output_stage != g_.anchor; }

  void for_each_form(const std::function<void(bool)>& write) {
    if (p_.copies_rows) return write(true);
    t_.when(k_.copy_rows, 0, [&] { write(false); });
    t_.when(k_.copy_rows, 1, [&] { write(true); });
  }

  void multiply_by_buffer(StageRef sum, bool copy_rows) {
    StageRef output_stage = t_.stage(g_.output_stage), acc = sum;
    const Copies copies = copy_operands(sum, copy_rows);
    if (p_.padded) {
      acc = sum.pad({{sum.axis(sh_.m), k_.tile_rows},
                     {sum.axis(sh_.v), k_.tile_cols},
                     {sum.reduce_axis(plan_.k.axis), plan_.groups, plan_.group_size}});
      if (has_epilogue()) sum.compute_inline();
    }
    const Blocks host = block_loops(output_stage);
    auto [vector, lane] = whole_tiles(output_stage, host.cols, amx::kLanes);
    std::vector<Loop> inside{host.rows, vector, lane};
    if (p_.stacks()) inside.insert(inside.begin(), host.stacked);
    share_out_blocks(output_stage, host, inside);
    output_stage.unroll(vector);
    output_stage.vectorize(lane);
    accumulate(acc, acc.axis(sh_.m), acc.axis(sh_.v), nullptr);
    if (sh_.v + 1 != acc.num_axes()) lay_columns_innermost(acc);
    acc.compute_at(output_stage, host.tiles.back());
    write_copies(copies, output_stage, host.tiles.front());
  }

  void multiply_in_place(bool copy_rows) {
    StageRef anchor = t_.stage(g_.anchor);
    const Copies copies = copy_operands(anchor, copy_rows);
    const Blocks host = block_loops(anchor);
    accumulate(anchor, host.rows, host.cols, &host);
    write_copies(copies, anchor, host.tiles.front());
  }

  void lay_columns_innermost(StageRef acc) {
    std::vector<StageRef::StorageDim> dims;
    for (int i = 0; i < acc.num_axes(); ++i) {
      if (i != sh_.v) dims.push_back({i, 1, 0});
    }
    dims.push_back({sh_.v, 1, 0});
    acc.layout(dims);
  }

  /// The copies of the operands. Their loops are written last.
  struct Copies {
    std::optional<StageRef> row;
    StageRef vector;
  };
  Copies copy_operands(StageRef reader, bool copy_rows) {
    std::optional<StageRef> row;
    if (copy_rows) row = t_.stage(sh_.row->producer).cache_read({reader});
    return {row, t_.stage(sh_.vector->producer).cache_read({reader})};
  }

  // `panel` is the loop of `host` over the panels of columns of a block.
  void write_copies(const Copies& copies, StageRef host, Loop panel) {
    const GroupedReduction& k = plan_.k;
    if (copies.row) {
      share_out(*sh_.row, *copies.row,
                group_copy(*copies.row, k.row_dim, plan_.group_size, -1, 1, k.row_dim, true,
                           amx::kLanes));
    }
    StageRef vector = copies.vector;
    const std::vector<Loop> order = group_copy(vector, k.vector_dim, plan_.group_size,
                                               sh_.vector_dim, k_.tile_cols, -1, true, amx::kLanes);
    if (k_.pack_vectors.is_const()) return;
    t_.when(k_.pack_vectors, kPackedWhole, [&] { share_out(*sh_.vector, vector, order); });
    t_.when(k_.pack_vectors, kPackedPanels, [&] { vector.compute_at(host, panel); });
  }

  void share_out(const Access& a, StageRef copy, const std::vector<Loop>& order) {
    if (!p_.parallel || is_constant(t_.dag(), a)) return;
    copy.parallel(order.size() > 2 ? copy.fuse(order[0], order[1]) : order[0]);
  }

  // The loops over blocks, and inside of them those of one product.
  struct Blocks {
    std::vector<Loop> outer, tiles;
    Loop stacked, rows, cols;  // loops of one product
  };

  Blocks block_loops(StageRef h) {
    Blocks b;
    for (int i : sh_.batch) b.outer.push_back(h.axis(i));
    for (int i : sh_.m_others) {
      Loop l = h.axis(i);
      if (i != sh_.m_others.back()) {
        b.outer.push_back(l);
        continue;
      }
      if (p_.stacks()) {
        auto [products, rows] = whole_tiles(h, l, k_.tile_rows);
        b.stacked = rows;
        l = products;
      }
      auto [block, product] = h.split(l, k_.other_block_rows);
      b.outer.push_back(block);
      b.tiles.push_back(product);
    }
    b.rows = h.axis(sh_.m);
    if (!p_.stacks()) {
      auto [products, rows] = whole_tiles(h, b.rows, k_.tile_rows);
      auto [block, product] = h.split(products, k_.row_block_tiles);
      b.outer.push_back(block);
      b.tiles.push_back(product);
      b.rows = rows;
    }
    auto [products, cols] = whole_tiles(h, h.axis(sh_.v), k_.tile_cols);
    auto [block, product] = h.split(products, k_.col_block_tiles);
    for (int i : sh_.v_others) b.outer.push_back(h.axis(i));
    b.outer.push_back(block);
    b.tiles.insert(b.tiles.begin(), product);
    b.cols = cols;
    return b;
  }

  // Orders the loops of `h` with `inside` innermost, and shares out the blocks among threads.
  void share_out_blocks(StageRef h, const Blocks& b, const std::vector<Loop>& inside) {
    h.reorder(joined(joined(b.outer, b.tiles), inside));
    const Loop blocks = h.fuse(b.outer);
    if (p_.parallel) h.parallel(blocks);
    t_.offer_place(h, blocks, "block");
  }

  // Writes the product of tiles: `rows` and `cols` are loops of stage `acc`. If `host` is given,
  // `acc` is the host itself.
  void accumulate(StageRef acc, Loop rows, Loop cols, const Blocks* host) {
    const auto split = [&](Loop loop, int64_t factor) {
      return host ? whole_tiles(acc, loop, factor) : acc.split(loop, factor);
    };
    std::vector<Loop> order;
    for (int i = 0; i < acc.num_reduce_axes(); ++i) {
      if (i != plan_.k.axis) order.push_back(acc.reduce_axis(i));
    }
    auto [groups, member] = acc.split(acc.reduce_axis(plan_.k.axis), plan_.group_size);
    auto [step, group] = acc.split(groups, plan_.groups);
    order.push_back(step);
    const Loop outermost = order.front();
    auto [col_tile, lanes] = split(cols, amx::kLanes);
    if (p_.stacks()) {
      order.push_back(host ? host->stacked : acc.axis(stacked_));
    } else {
      auto [row_tile, row] = split(rows, plan_.rows);
      order.push_back(row_tile);
      rows = row;
    }
    order = joined(order, {col_tile, rows, group, member, lanes});
    if (host) {
      share_out_blocks(acc, *host, order);
    } else {
      std::vector<Loop> others;
      for (int i = 0; i < acc.num_axes(); ++i) {
        if (i != sh_.v && i != sh_.m && i != stacked_) others.push_back(acc.axis(i));
      }
      acc.reorder(joined(others, order));
    }
    acc.unroll(member);
    acc.vectorize(lanes);
    acc.tensorize(outermost, "amx");
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const Operation& op_;
  const TilePlan& plan_;
  const ContractionShape& sh_;
  const TileProblem& p_;
  const TileKnobs& k_;
  /// The axis of the image's rows if these are tiles of one product, otherwise -1.
  int stacked_;
};

void build(TemplateBuilder& t, const StageGroup& g) {
  const TilePlan plan = *tile_plan(t.dag(), g, t.target());
  const Operation& op = t.dag().stage(g.anchor);
  t.note("tiles of " + std::to_string(plan.rows) + " rows along " +
         op.axes()[static_cast<size_t>(plan.shape.m)].name() + " and " +
         std::to_string(plan.groups * plan.group_size) + " steps of " +
         op.reduce_axes()[static_cast<size_t>(plan.k.axis)].name() +
         (plan.padded ? ", padded with zeros" : ""));
  const TileProblem problem = tile_problem(t, g, plan);
  const Choice choice = t.decide("tile_product", problem, tile_rule);
  const TileKnobs knobs = ask_tile_knobs(t, plan, problem, choice);
  Recipe recipe(t, g, plan, problem, knobs);
  if (!recipe.can_store()) return recipe.by_buffer();
  const Param store = t.choice("store_tiles", choice);
  t.when(store, 1, [&] { recipe.in_place(); });
  t.when(store, 0, [&] { recipe.by_buffer(); });
}

HEDDLE_REGISTER_META_TEMPLATE({"tile_product", 1, matches, build});

}  // namespace
}  // namespace heddle::meta::cpu
