#include "cpu/products/tile_rule.h"

#include <algorithm>

#include "cpu/balanced_block.h"
#include "cpu/cpu_features.h"
#include "cpu/products/shared_tiles.h"

namespace heddle::meta::cpu {
namespace {

using Problem = TileProblem;

double l2_bytes(const Problem& p) { return static_cast<double>(p.target.l2_bytes); }

bool contains(const std::vector<int64_t>& list, int64_t n) {
  return std::find(list.begin(), list.end(), n) != list.end();
}

/// The tiles of results that are kept over the whole reduction.
struct Kept {
  int64_t down = 1, across = 1;
};

// Whether the tiles fit beside those of the operands.
bool fits_registers(const Kept& k) {
  return k.down * k.across + std::min(k.down, k.across) + 1 <= amx::kRegisters;
}

// Whether tiles side by side would compute columns that there are not, of so few results that this is a part of the time
// (docs/internals/decisions/cpu-products.md, "tile registers").
bool leaves_columns_empty(const Problem& p) {
  constexpr int64_t kFewResults = 50000;
  return p.padded && p.cols % (2 * amx::kLanes) != 0 &&
         p.outer * p.other_rows * p.rows * p.cols <= kFewResults;
}

// Two tiles side by side. Four, which would need fewer loads, are slower on the machines that were measured
// (docs/internals/decisions/cpu-products.md, "tile registers").
Kept choose_tiles(const Problem& p, Choice& choice) {
  const std::vector<int64_t> down = kept_tiles(p, p.stacks() ? p.last_other_rows : p.row_tiles());
  const std::vector<int64_t> across = kept_tiles(p, p.col_tiles());
  Kept k;
  const CpuConstants& by = p.constants;
  k.across = contains(across, by.tiles_across) ? by.tiles_across : contains(across, 2) ? 2 : 1;
  const bool single = leaves_columns_empty(p);
  if (single) k.across = 1;
  const int64_t wanted =
      k.across == 1 && !single ? std::max<int64_t>(2, by.tiles_down) : by.tiles_down;
  k.down = contains(down, wanted) ? wanted : 1;
  if (!single && k.across * k.down == 1 && contains(across, 3)) k.across = 3;
  if (!fits_registers(k)) k.down = 1;
  choice.set("tile_rows", k.down * p.unit_rows(),
             p.stacks() ? "rows of the image" : "tiles of " + std::to_string(p.rows_of_tile));
  choice.set("tile_cols", k.across * amx::kLanes, "tiles of 16 columns");
  return k;
}

// An operand that is not constant may be packed by the blocks that use it: all rows read a panel
// again while it is in L2, and memory is read once. The rows must then fit L2 too.
bool choose_panels(const Problem& p, Choice& choice) {
  const bool panels =
      !p.vector_constant && !p.has_other_rows &&
      static_cast<double>(p.row_batch_bytes) <= p.constants.l2_of_panel_rows * l2_bytes(p);
  choice.set("pack_vectors", panels ? kPackedPanels : kPackedWhole,
             panels ? "a panel at a time, all rows stay in L2" : "read by many blocks");
  return panels;
}

// The number of products whose rows stay in L2 beside a panel of the other operand.
int64_t products_in_l2(const Problem& p, int64_t tile_rows) {
  const int64_t rows = p.stacks() ? p.rows * tile_rows : tile_rows;
  const int64_t bytes = std::max<int64_t>(1, p.depth * p.row_element_bytes * rows);
  return std::max<int64_t>(1,
                           static_cast<int64_t>(p.constants.l2_of_tile_rows * l2_bytes(p)) / bytes);
}

// The block with which the busiest thread is done first, where blocks copy panels of columns. The rows that it reads come from
// beyond its L2 (docs/internals/decisions/cpu-products.md, "tile registers").
TileBlock block_of_panels(const Problem& p, const Kept& kept, int64_t rows, int64_t cols,
                          int64_t tasks) {
  const auto cost = [&](const TileBlock& b) {
    const int64_t blocks = p.outer * ceil_div(rows, b.rows) * ceil_div(cols, b.cols);
    const auto down = static_cast<double>(b.rows * kept.down),
               across = static_cast<double>(b.cols * kept.across);
    return static_cast<double>(ceil_div(blocks, tasks)) *
           (down * across + p.constants.read_tile_rows * down +
            p.constants.copy_tile_cols * across);
  };
  TileBlock best{rows, cols};
  for (int64_t row_parts = 1; row_parts <= std::min(rows, tasks); ++row_parts) {
    for (int64_t col_parts = 1; col_parts <= std::min(cols, 2 * tasks); ++col_parts) {
      const TileBlock b{ceil_div(rows, row_parts), ceil_div(cols, col_parts)};
      if (cost(b) < cost(best)) best = b;
    }
  }
  return best;
}

void choose_blocks(const Problem& p, const Kept& kept, bool panels, Choice& choice) {
  const int64_t tasks = p.parallel ? p.target.cores : 1;
  const int64_t split_over = p.outer >= p.constants.enough_blocks * tasks ? 1 : tasks;
  const int64_t tile_rows = kept.down * p.unit_rows();
  const int64_t rows = row_products(p, tile_rows);
  const int64_t cols = ceil_div(p.cols, kept.across * amx::kLanes);
  const int64_t in_l2 = products_in_l2(p, tile_rows);
  const int64_t last = other_products(p, tile_rows);
  const int64_t others = p.stacks() ? p.other_rows / p.last_other_rows * last : p.other_rows;
  if (panels) {
    const TileBlock block =
        split_over == 1 ? TileBlock{rows, cols} : block_of_panels(p, kept, rows, cols, tasks);
    choice.set("row_block_tiles", block.rows, "rows that a thread reads, beside panels it copies");
    choice.set("col_block_tiles", block.cols, "panels that a thread copies, beside rows it reads");
    choice.set("other_block_rows", last, "there are none");
    return;
  }
  const bool share_rows = p.outer * others * rows >= 2 * tasks;
  const int64_t over = share_rows ? split_over : 1;
  choice.set("row_block_tiles", balanced_block(rows, in_l2, others > 1 ? 1 : over),
             "row tiles that stay in L2");
  choice.set("col_block_tiles", share_rows ? cols : balanced_block(cols, cols, split_over),
             share_rows ? "all: rows are shared out" : "columns are shared out");
  choice.set("other_block_rows", balanced_block(last, std::max<int64_t>(1, in_l2 / rows), over),
             "rows of the image a block");
}

}  // namespace

std::vector<int64_t> kept_tiles(const Problem& p, int64_t count) {
  std::vector<int64_t> out{1, 2, 3, 4};
  std::erase_if(out, [&](int64_t n) { return n > count || (!p.padded && count % n != 0); });
  return out;
}

int64_t row_products(const Problem& p, int64_t tile_rows) {
  return p.stacks() ? 1 : ceil_div(p.rows, tile_rows);
}

int64_t other_products(const Problem& p, int64_t tile_rows) {
  return p.stacks() ? ceil_div(p.last_other_rows, tile_rows) : p.last_other_rows;
}

Choice tile_rule(const Problem& p, const Choice& given) {
  Choice choice;
  Kept kept = choose_tiles(p, choice);
  const auto of_given = [&](std::string_view knob, int64_t unit, int64_t value) {
    return given.has(knob) ? std::max<int64_t>(1, given.value(knob) / unit) : value;
  };
  kept.down = of_given("tile_rows", p.unit_rows(), kept.down);
  kept.across = of_given("tile_cols", amx::kLanes, kept.across);
  const bool of_rule = choose_panels(p, choice);
  const bool panels = p.vector_constant ? of_rule
                                        : of_given("pack_vectors", 1,
                                                   choice.value("pack_vectors")) == kPackedPanels;
  choose_blocks(p, kept, panels, choice);
  choice.set("copy_rows", p.copies_rows,
             p.padded        ? "with zeros around it"
             : p.copies_rows ? "with the reduction innermost"
                             : "read where it lies");
  choice.set("store_tiles", 1, "there is no epilogue");
  return choice;
}

NamedFeatures TileProblem::features() const {
  NamedFeatures f = cpu_features(target);
  const auto add = [&](std::string_view name, auto value) {
    f.push_back({name, static_cast<double>(value)});
  };
  add("parallel", parallel);
  add("rows", rows);
  add("cols", cols);
  add("depth", depth);
  add("rows_of_tile", rows_of_tile);
  add("outer", outer);
  add("has_other_rows", has_other_rows);
  add("other_rows", other_rows);
  add("last_other_rows", last_other_rows);
  add("padded", padded);
  add("copies_rows", copies_rows);
  add("vector_constant", vector_constant);
  add("row_element_bytes", row_element_bytes);
  add("row_batch_bytes", row_batch_bytes);
  return f;
}

}  // namespace heddle::meta::cpu
