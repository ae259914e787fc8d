// Products of narrow types on CPUs with registers for tiles (AMX): bytes of any signs added up in
// i32, 16-bit floats in f32.
//
//   pack W in groups along k, in panels of columns         (root, once for constants)
//   parallel for batch, row block, column block {
//     for column tile, row tile {                          A's rows stay in L2
//       acc[..] = 0
//       tensorized for k { for row tiles, column tiles { for 16 rows, 16 groups of k: acc += a * w
//       } } epilogue(acc) -> output stage
//   } }
//
// Rows of A are read where they lie: what a tile takes of a row is 64 bytes along k. Where they
// cannot be (k is not contiguous, or computed by a stage such as padding), A is copied with k
// innermost. Tiles are whole: a matrix product of other sizes is padded with zeros, a convolution,
// whose image is no matrix, is taken where tiles divide it.
#include <functional>

#include "common/contraction_shape.h"
#include "cpu/balanced_block.h"
#include "cpu/copy_loops.h"
#include "cpu/narrow_product.h"
#include "cpu/vectors.h"

namespace heddle::meta {
namespace {

constexpr int64_t kTile = 16;       // rows of a tile; and lanes, groups in a row of 64 bytes
constexpr int64_t kGroupBytes = 4;  // of a group along the reduction
constexpr int64_t kLanes = 16;      // f32 or i32
constexpr int64_t kRegisters = 8;

bool has_tiles(const Target& target, const NarrowProduct& p) {
  if (target.kind != "llvm" || !target.is_x86() || target.vector_bytes < 64) return false;
  if (p.integers()) return p.x.bits == 8 && p.y.bits == 8 && target.has("amx-int8");
  if (p.x != p.y) return false;
  return target.has(p.x == bf16 ? "amx-bf16" : "amx-fp16");
}

// How a contraction is laid out in tiles.
struct TilePlan {
  ContractionShape sh;
  GroupedReduction k;
  int64_t size = 1;        // elements of a group
  int64_t rows = kTile;    // of a tile
  int64_t groups = kTile;  // of k in a tile
  bool padded = false;     // tiles do not divide the axes
  bool matrix = false;     // a plain product, which can be padded
  bool copies_rows = false;
};

int64_t largest_divisor(int64_t n, int64_t most) {
  int64_t d = std::min(n, most);
  while (n % d != 0) --d;
  return d;
}

bool at_own_axes(const Access& a) {
  return std::all_of(a.affine.begin(), a.affine.end(), [](const auto& index) {
    return index && index->constant == 0 && index->terms.size() == 1 &&
           index->terms[0].coefficient == 1;
  });
}

bool is_stored(const ComputeDag& dag, const StageGroup& g, const Access& a) {
  auto has = [&](const std::vector<int>& stages) {
    return std::find(stages.begin(), stages.end(), a.producer) != stages.end();
  };
  return dag.stage(a.producer).is_placeholder() ||
         (!has(g.operands) && !has(g.inlined) && !has(g.tunable));
}

bool is_constant(const ComputeDag& dag, const Access& a) {
  return a.tensor.op()->is_constant() || dag.info(a.producer).precomputable;
}

// nullopt where tiles do not pay, or do not fit.
std::optional<TilePlan> plan_tiles(const ComputeDag& dag, const StageGroup& g,
                                   const NarrowProduct& narrow) {
  const Operation& op = dag.stage(g.anchor);
  TilePlan p;
  p.sh = contraction_shape(dag, g.anchor, kLanes, /*scattered=*/true);
  const ContractionShape& sh = p.sh;
  const std::optional<GroupedReduction> k = grouped_reduction(op, sh);
  if (!k || sh.m < 0 || sh.vector_dim < 0 || sh.group < sh.rows) return {};
  if (sh.row->producer == sh.vector->producer) return {};
  p.k = *k;
  p.size = kGroupBytes / narrow.x.bytes();
  int64_t reuse = sh.rows;
  for (int i : sh.m_others) reuse *= op.axes()[static_cast<size_t>(i)].extent();
  if (sh.rows < 4 || sh.cols < kLanes || k->extent < kTile * p.size / 4 ||
      sh.depth < kTile * p.size || (!is_constant(dag, *sh.vector) && reuse < 32))
    return {};
  p.matrix = op.reduce_axes().size() == 1 && at_own_axes(*sh.row) && at_own_axes(*sh.vector);
  // Along a row of a tile the elements of A lie side by side, and rows at one distance.
  p.copies_rows = !is_stored(dag, g, *sh.row) || k->row_dim + 1 != sh.row->tensor.rank();
  const int64_t groups = k->extent / p.size;
  const bool whole_k = k->extent % p.size == 0;
  p.rows = sh.rows < kTile ? sh.rows : largest_divisor(sh.rows, kTile);
  if (whole_k) p.groups = largest_divisor(groups, kTile);
  const bool whole = whole_k && sh.cols % kLanes == 0;
  // Nearly whole tiles are better than a copy of A for the sake of quite whole ones.
  if (whole && p.rows >= std::min<int64_t>(sh.rows, p.matrix ? 14 : 7) &&
      p.groups >= std::min<int64_t>(groups, p.matrix ? 12 : 4))
    return p;
  if (!p.matrix) return {};
  p.padded = p.copies_rows = true;
  p.rows = std::min(sh.rows, kTile);
  p.groups = kTile;
  return p;
}

std::optional<TilePlan> plan_of(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (g.anchor_class != StageClass::ComplexReduction || g.attached || g.in_chain ||
      !g.chain.empty() || dag.stage(g.anchor).axes().empty() ||
      dag.stage(g.anchor).num_outputs() != 1 || streams_one_operand(dag, g.anchor))
    return {};
  const std::optional<NarrowProduct> narrow = narrow_product(dag.stage(g.anchor));
  if (!narrow || !has_tiles(target, *narrow)) return {};
  return plan_tiles(dag, g, *narrow);
}

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return plan_of(dag, g, target).has_value();
}

class Writer {
 public:
  Writer(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        g_(g),
        dag_(t.dag()),
        op_(dag_.stage(g.anchor)),
        p_(*plan_of(dag_, g, t.target())),
        sh_(p_.sh) {}

  void write() {
    t_.note("tiles of " + std::to_string(p_.rows) + " rows along " + axis(sh_.m).name() + " and " +
            std::to_string(p_.groups * p_.size) + " steps of " + reduced().name() +
            (p_.padded ? ", padded with zeros" : ""));
    parallel_ = worth_parallel(t_, stage_work(dag_, g_.anchor));
    choose_tiles();
    choose_panels();
    choose_blocks();
    choose_copies();
    const auto for_each_form = [&](const std::function<void(bool)>& write) {
      if (p_.copies_rows) return write(true);
      t_.when(copy_rows_, 0, [&] { write(false); });
      t_.when(copy_rows_, 1, [&] { write(true); });
    };
    const bool epilogue = g_.output_stage != g_.anchor;
    // Rows of a tile are rows of the result.
    const bool can_store = !epilogue && !p_.padded && sh_.v + 1 == std::ssize(op_.axes());
    if (can_store) {
      const Param store = t_.choice("store_tiles", true, "there is no epilogue");
      t_.when(store, 1, [&] { for_each_form([&](bool copies) { multiply_in_place(copies); }); });
      t_.when(store, 0, [&] { by_buffer(for_each_form); });
    } else {
      by_buffer(for_each_form);
    }
  }

 private:
  const Axis& axis(int i) const { return op_.axes()[static_cast<size_t>(i)]; }
  const Axis& reduced() const { return op_.reduce_axes()[static_cast<size_t>(p_.k.axis)]; }
  int64_t row_tiles() const { return ceil_div(sh_.rows, p_.rows); }
  int64_t col_tiles() const { return ceil_div(sh_.cols, kLanes); }

  // Of `count` tiles along an axis those numbers that a product may keep: any where the axis is
  // padded.
  std::vector<int64_t> kept(int64_t count) const {
    std::vector<int64_t> out{1, 2, 3, 4};
    std::erase_if(out, [&](int64_t n) { return n > count || (!p_.padded && count % n != 0); });
    return out;
  }

  // Two by two tiles take a load for each product; four in a row five for four.
  void choose_tiles() {
    // Where a row of an image is one tile, its neighbours are rows of the tile below.
    stacks_ = row_tiles() == 1 && !sh_.m_others.empty();
    stacked_ = stacks_ ? sh_.m_others.back() : -1;
    std::vector<int64_t> down = kept(stacks_ ? axis(stacked_).extent() : row_tiles()),
                         across = kept(col_tiles());
    auto has = [](const std::vector<int64_t>& list, int64_t n) {
      return std::find(list.begin(), list.end(), n) != list.end();
    };
    const int64_t rows = has(down, 2) ? 2 : 1;
    const int64_t cols = rows == 1 && has(across, 4) ? 4 : has(across, 2) ? 2 : 1;
    const int64_t most = cols == 1 && has(down, 4) ? 4 : rows;
    auto times = [](std::vector<int64_t> list, int64_t n) {
      for (int64_t& x : list) x *= n;
      return list;
    };
    const int64_t unit = stacks_ ? 1 : p_.rows;
    tile_rows_ = t_.knob("tile_rows", times(down, unit), most * unit,
                         stacks_ ? "rows of the image" : "tiles of " + std::to_string(p_.rows));
    tile_cols_ = t_.knob("tile_cols", times(across, kLanes), cols * kLanes, "tiles of 16 columns");
    Param r = tile_rows_, c = tile_cols_;
    t_.require("the tiles must fit the registers", [=](const auto& value) {
      const int64_t m = value(r) / unit, n = value(c) / kLanes;
      return m * n + std::min(m, n) + 1 <= kRegisters;
    });
  }

  // What is no constant may be packed as blocks come to it: a panel is read again by all rows while
  // it is in L2, and memory is passed once. So A must fit there too.
  void choose_panels() {
    if (is_constant(dag_, *sh_.vector)) return;
    int64_t bytes = bytes_of(sh_.row->tensor);
    for (int i : sh_.batch) bytes /= axis(i).extent();
    const bool chosen = sh_.m_others.empty() && 2 * bytes <= t_.target().l2_bytes;
    panels_ =
        t_.knob("pack_vectors", {1, 2}, chosen ? 2 : 1,
                chosen ? "2: a panel at a time, all rows stay in L2" : "1: read by many blocks");
    panels_chosen_ = chosen;
  }

  // Rows of A that stay in the second cache beside a panel of the other operand, and enough blocks
  // for the threads.
  void choose_blocks() {
    const Target& target = t_.target();
    auto extents = [&](const std::vector<int>& axes) {
      int64_t n = 1;
      for (int i : axes) n *= axis(i).extent();
      return n;
    };
    const int64_t tasks = parallel_ ? target.cores : 1;
    const int64_t outer = extents(sh_.batch) * extents(sh_.v_others);
    const int64_t split_over = outer >= 4 * tasks ? 1 : tasks;
    const int64_t unit_rows = t_.chosen(tile_rows_), unit_cols = t_.chosen(tile_cols_);
    const int64_t rows = stacks_ ? 1 : ceil_div(sh_.rows, unit_rows);
    const int64_t cols = ceil_div(sh_.cols, unit_cols);
    const int64_t bytes = std::max<int64_t>(1, p_.k.extent * sh_.row->tensor.dtype().bytes() *
                                                   (stacks_ ? sh_.rows * unit_rows : unit_rows));
    const int64_t in_l2 = std::max<int64_t>(1, target.l2_bytes * 5 / 8 / bytes);
    int64_t last = 1, others = extents(sh_.m_others);
    if (!sh_.m_others.empty()) {
      last = axis(sh_.m_others.back()).extent();
      if (stacks_) {
        others = others / last * ceil_div(last, unit_rows);
        last = ceil_div(last, unit_rows);
      }
    }
    const bool share_rows = !panels_chosen_ && outer * others * rows >= 2 * tasks;
    const int64_t over = share_rows ? split_over : 1;
    const int64_t block =
        panels_chosen_ ? rows : balanced_block(rows, in_l2, others > 1 ? 1 : over);
    row_block_ =
        t_.split_knob("row_block", rows, rows, block,
                      panels_chosen_ ? "all: a panel is packed once" : "row tiles that stay in L2");
    col_block_ = t_.split_knob("col_block", cols, cols,
                               share_rows ? cols : balanced_block(cols, cols, split_over),
                               share_rows ? "all: rows are shared out" : "columns are shared out");
    if (sh_.m_others.empty()) return;
    other_block_ = t_.split_knob("other_block", last, last,
                                 balanced_block(last, std::max<int64_t>(1, in_l2 / rows), over),
                                 "rows of the image a block");
  }

  void choose_copies() {
    // A knob even where there is no choice: what A is read from is then at the root.
    const std::vector<int64_t> values =
        p_.copies_rows ? std::vector<int64_t>{1} : std::vector<int64_t>{0, 1};
    copy_rows_ = t_.knob("copy_rows", values, p_.copies_rows ? 1 : 0,
                         p_.padded        ? "with zeros around it"
                         : p_.copies_rows ? "with the reduction innermost"
                                          : "read where it lies");
    t_.keep_at_root(sh_.row->producer, copy_rows_, 1);
    for (int64_t v : values) t_.keep_at_root(sh_.vector->producer, copy_rows_, v);
  }

  // A copy of operand `a` for `reader`; the loops come later.
  StageRef copied(const Access& a, StageRef reader) {
    return t_.stage(a.producer).cache_read({reader});
  }
  void share_out(const Access& a, StageRef p, const std::vector<Loop>& order) {
    if (!parallel_ || is_constant(dag_, a)) return;
    p.parallel(order.size() > 2 ? p.fuse(order[0], order[1]) : order[0]);
  }

  // `panel`: the loop of `host` over panels of columns in a block.
  void copy_loops(std::optional<StageRef> a, StageRef b, StageRef host, Loop panel) {
    if (a) {
      const int k = p_.k.row_dim;
      share_out(*sh_.row, *a, group_copy(*a, k, p_.size, -1, 1, k, true, kLanes));
    }
    const std::vector<Loop> order =
        group_copy(b, p_.k.vector_dim, p_.size, sh_.vector_dim, tile_cols_, -1, true, kLanes);
    if (panels_.is_const()) return;
    t_.when(panels_, 1, [&] { share_out(*sh_.vector, b, order); });
    t_.when(panels_, 2, [&] { b.compute_at(host, panel); });
  }

  // Tiles go through a buffer, from which the results are computed.
  void by_buffer(const std::function<void(const std::function<void(bool)>&)>& for_each_form) {
    StageRef anchor = t_.stage(g_.anchor), output_stage = t_.stage(g_.output_stage);
    StageRef sum = p_.padded || g_.output_stage != g_.anchor ? anchor : anchor.cache_write();
    for_each_form([&](bool copy_rows) {
      std::optional<StageRef> a;
      if (copy_rows) a = copied(*sh_.row, sum);
      StageRef b = copied(*sh_.vector, sum), acc = sum;
      if (p_.padded) {
        acc = sum.pad({{sum.axis(sh_.m), tile_rows_},
                       {sum.axis(sh_.v), tile_cols_},
                       {sum.reduce_axis(p_.k.axis), p_.groups, p_.size}});
        if (g_.output_stage != g_.anchor) sum.compute_inline();
      }
      const Blocks host = block_loops(output_stage);
      auto [vu, vl] = output_stage.split(host.cols, kLanes, TailStrategy::PredicateStores);
      std::vector<Loop> inside{host.rows, vu, vl};
      if (stacks_) inside.insert(inside.begin(), host.stacked);
      finish(output_stage, host, inside);
      output_stage.unroll(vu);
      output_stage.vectorize(vl);
      accumulate(acc, acc.axis(sh_.m), acc.axis(sh_.v), nullptr);
      if (sh_.v + 1 != acc.num_axes()) {
        std::vector<StageRef::StorageDim> dims;
        for (int i = 0; i < acc.num_axes(); ++i) {
          if (i != sh_.v) dims.push_back({i, 1, 0});
        }
        dims.push_back({sh_.v, 1, 0});
        acc.layout(dims);
      }
      acc.compute_at(output_stage, host.tiles.back());
      copy_loops(a, b, output_stage, host.tiles.front());
    });
  }

  // The results are the tiles.
  void multiply_in_place(bool copy_rows) {
    StageRef anchor = t_.stage(g_.anchor);
    std::optional<StageRef> a;
    if (copy_rows) a = copied(*sh_.row, anchor);
    StageRef b = copied(*sh_.vector, anchor);
    const Blocks host = block_loops(anchor);
    accumulate(anchor, host.rows, host.cols, &host);
    copy_loops(a, b, anchor, host.tiles.front());
  }

  // Blocks outside, the tiles of one product inside.
  struct Blocks {
    std::vector<Loop> outer, tiles;
    Loop stacked, rows, cols;  // of one product
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
      if (stacks_) {
        auto [o, rows] = h.split(l, tile_rows_, TailStrategy::PredicateStores);
        b.stacked = rows;
        l = o;
      }
      auto [lo, li] = h.split(l, other_block_);
      b.outer.push_back(lo);
      b.tiles.push_back(li);
    }
    b.rows = h.axis(sh_.m);
    if (!stacks_) {
      auto [mt, mi] = h.split(b.rows, tile_rows_, TailStrategy::PredicateStores);
      auto [mb, m] = h.split(mt, row_block_);
      b.outer.push_back(mb);
      b.tiles.push_back(m);
      b.rows = mi;
    }
    auto [vt, vi] = h.split(h.axis(sh_.v), tile_cols_, TailStrategy::PredicateStores);
    auto [vb, v] = h.split(vt, col_block_);
    for (int i : sh_.v_others) b.outer.push_back(h.axis(i));
    b.outer.push_back(vb);
    b.tiles.insert(b.tiles.begin(), v);
    b.cols = vi;
    return b;
  }

  // Orders the host's loops, `inside` innermost, and shares out the blocks.
  void finish(StageRef h, const Blocks& b, const std::vector<Loop>& inside) {
    std::vector<Loop> order = b.outer;
    order.insert(order.end(), b.tiles.begin(), b.tiles.end());
    order.insert(order.end(), inside.begin(), inside.end());
    h.reorder(order);
    const Loop blocks = h.fuse(b.outer);
    if (parallel_) h.parallel(blocks);
    t_.offer_place(h, blocks, "block");
  }

  // The product of tiles: `rows` and `cols` of stage `acc`, which is the host itself where that is
  // given.
  void accumulate(StageRef acc, Loop rows, Loop cols, const Blocks* host) {
    std::vector<Loop> before, order;
    for (int i = 0; i < acc.num_reduce_axes(); ++i) {
      if (i != p_.k.axis) order.push_back(acc.reduce_axis(i));
    }
    auto [groups, member] = acc.split(acc.reduce_axis(p_.k.axis), p_.size);
    auto [step, group] = acc.split(groups, p_.groups);
    order.push_back(step);
    const Loop outermost = order.front();
    auto [nt, lanes] =
        host ? acc.split(cols, kLanes, TailStrategy::PredicateStores) : acc.split(cols, kLanes);
    if (stacks_) {
      order.push_back(host ? host->stacked : acc.axis(stacked_));
    } else {
      auto [mt, mi] =
          host ? acc.split(rows, p_.rows, TailStrategy::PredicateStores) : acc.split(rows, p_.rows);
      order.push_back(mt);
      rows = mi;
    }
    order.insert(order.end(), {nt, rows, group, member, lanes});
    if (host) {
      finish(acc, *host, order);
    } else {
      for (int i = 0; i < acc.num_axes(); ++i) {
        if (i != sh_.v && i != sh_.m && i != stacked_) before.push_back(acc.axis(i));
      }
      order.insert(order.begin(), before.begin(), before.end());
      acc.reorder(order);
    }
    acc.unroll(member);
    acc.vectorize(lanes);
    acc.tensorize(outermost);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputeDag& dag_;
  const Operation& op_;
  const TilePlan p_;
  const ContractionShape& sh_;
  Param tile_rows_, tile_cols_, row_block_, col_block_, other_block_, copy_rows_;
  Param panels_;
  bool parallel_ = false, stacks_ = false, panels_chosen_ = false;
  int stacked_ = -1;  // an axis of the row operand, whose rows are tiles of one product
};

void build(TemplateBuilder& t, const StageGroup& g) { Writer(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"tile_product", 1, matches, build});

}  // namespace
}  // namespace heddle::meta
