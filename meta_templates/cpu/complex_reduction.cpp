// Complex reductions: contractions whose operands are reused (matmul, convolution).
//
// One spatial axis is the vector axis v (an operand is contiguous along it, or is packed so),
// another the row axis m (the vector operand does not depend on it). A register tile of rows x
// vectors is kept in registers over the whole reduction, around it blocks for the caches:
//
//   pack W                                             (root, once for constants)
//   parallel for batch, row block, column block {
//     for column tile, row tile {                      column panel stays in L1, row block in L2
//       acc[mr][nv] = 0
//       for k { for mr, nv (unrolled): acc += a[m, k] (broadcast) * w[k, v] (vector) }
//       epilogue(acc) -> output stage                          bias, activation, conversion
//   } }
// mode 0 reduces at once; 1 cuts k into blocks that add into the result (panels too long for L1);
// 2 computes parts of the reduction in parallel where there is little else to share (split-K).
//
// Products whose rows another product reads (attention) are attached by that one: computed within
// its blocks of rows (location), with all columns, so that a block goes through both while it is in
// cache.
#include "cpu/contraction_blocks.h"
#include "cpu/operand_copies.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && g.anchor_class == StageClass::ComplexReduction &&
         !dag.stage(g.anchor).axes().empty() && !streams_one_operand(dag, g.anchor);
}

using Shape = ContractionShape;

class Writer {
 public:
  Writer(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        g_(g),
        dag_(t.dag()),
        op_(dag_.stage(g.anchor)),
        lanes_(native_lanes(t, g.anchor)),
        sh_(contraction_shape(dag_, g.anchor, lanes_, /*scattered=*/true)),
        narrow_(narrow_product(op_)),
        copies_(t, g, lanes_, sh_, narrow_) {}

  void write() {
    const Target& target = t_.target();
    note_shape();
    if (g_.attached) choose_location();
    Shape tiled = sh_;
    if (chained()) tiled.rows = 1 << 20;  // blocks of a chain are whole tiles
    if (sh_.group > 1 && sh_.group < sh_.rows) tiled.rows = sh_.group;  // others share no vector
    copies_.choose_channels();
    const Axis& innermost =
        op_.reduce_axes()[static_cast<size_t>(copies_.innermost_reduce(copies_.channels_chosen()))];
    // A window of few channels, unrolled whole: what neighbouring rows have of it in common takes
    // registers as well (first convolutions: 4x16 1.0 to 2.6 times as fast as 6x16 in a loop, 6x16
    // unrolled 0.4 to 1.3).
    const bool shared = innermost.extent() <= 8 && slides_along_rows(innermost);
    Tile tile = best_tile(target, lanes_, tiled,
                          shared ? target.vector_registers / 2 : target.vector_registers);
    tile.mr = std::min(tile.mr, sh_.rows);
    std::vector<int64_t> rows{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14}, vectors{1, 2, 3, 4};
    // One row reuses nothing: long runs of the vector operand are all there is to gain.
    if (sh_.rows == 1) vectors.insert(vectors.end(), {6, 8, 12});
    std::erase_if(rows, [&](int64_t r) { return r > sh_.rows; });
    std::erase_if(vectors, [&](int64_t v) { return v > ceil_div(sh_.cols, lanes_); });
    std::vector<int64_t> cols;
    for (int64_t v : vectors) cols.push_back(v * lanes_);
    mr_ = t_.knob("tile_rows", rows, tile.mr, "register tile");
    nr_ = t_.knob("tile_cols", cols, tile.nv * lanes_,
                  "register tile: " + std::to_string(tile.nv) + " vectors");
    int64_t lanes = lanes_;
    Param mr = mr_, nr = nr_;
    Target tg = target;
    t_.require("the register tile must fit the vector registers", [=](const auto& value) {
      return fits_registers(tg, value(mr), ceil_div(value(nr), lanes));
    });
    std::vector<int64_t> unrolls{1, 2, 4};
    // A short window whole: its loop would end, mispredicted, after a few rounds.
    const int64_t window = innermost.extent();
    if (window <= 8) unrolls.push_back(window);
    const bool slides = sh_.vector && uses_var(sh_.vector->indices.back(), innermost.var());
    const bool whole_window = sh_.row ? shared || (slides && window <= 5) : window <= 8;
    // Four steps share the loop's bookkeeping and a line of the broadcast operand
    // (docs/benchmarks.md, "knobs of the register tile"). Not where much of a short loop would be
    // its tail.
    const int64_t steps = window >= 16 || window % 4 == 0 ? 4 : window >= 4 ? 2 : 1;
    unroll_k_ = t_.knob("unroll_k", unrolls,
                        whole_window ? window
                        : sh_.row    ? steps
                                     : 1,
                        whole_window ? "a window" : "the loop's own instructions weigh less");

    choose_dot();
    choose_blocks(tile);
    int mode = choose_mode(tile);
    mode_ = t_.knob("mode", modes_, mode, mode_reason_);
    keep_groups_whole();
    copies_.choose(
        {.tile_rows = mr_, .tile_cols = nr_, .pairs = has_dot(2), .parallel = parallel_});
    if (g_.attached) return write_located();
    t_.when(mode_, 0, [&] { whole(); });
    if (has_mode(1)) t_.when(mode_, 1, [&] { blocked(); });
    if (has_mode(2)) t_.when(mode_, 2, [&] { parts(); });
  }

 private:
  // One of the products that blocks of rows go through.
  bool chained() const { return g_.in_chain || !g_.chain.empty(); }
  bool has_mode(int64_t m) const {
    return std::find(modes_.begin(), modes_.end(), m) != modes_.end();
  }

  // Whether neighbouring rows of the tile read overlapping windows along this axis.
  bool slides_along_rows(const Axis& window) const {
    if (!sh_.row || sh_.m < 0 || window.extent() == 1) return false;
    const Var row = op_.axes()[static_cast<size_t>(sh_.m)].var();
    return std::any_of(sh_.row->indices.begin(), sh_.row->indices.end(), [&](const Expr& e) {
      return uses_var(e, row) && uses_var(e, window.var());
    });
  }

  // Within the host's blocks of rows, or whole, before it.
  void choose_location() {
    std::vector<int64_t> where{0};
    for (size_t p = 0; p < g_.places.size(); ++p) where.push_back(static_cast<int64_t>(p) + 1);
    location_ = t_.knob("location", where, g_.deepest, "its rows are used while they are in cache");
    t_.set_location(g_.output_stage, location_);
  }

  void write_located() {
    t_.when(location_, 0, [&] { whole(); });
    for (size_t p = 0; p < g_.places.size(); ++p) {
      t_.when(location_, static_cast<int64_t>(p) + 1, [&] { within(g_.places[p]); });
    }
  }

  void note_shape() {
    std::string text = "vector axis " + op_.axes()[sh_.v].name();
    if (sh_.m >= 0) text += ", row axis " + op_.axes()[sh_.m].name();
    if (sh_.vector) text += ", vectors from " + sh_.vector->tensor.name();
    if (sh_.row) text += ", broadcasts from " + sh_.row->tensor.name();
    t_.note(text);
  }

  // Groups of products that one instruction adds up, where there is one. Both operands are then
  // copied with each group in one place.
  void choose_dot() {
    if (!narrow_) return;
    grouped_ = grouped_reduction(op_, sh_);
    if (!grouped_) return;
    for (int64_t size : dot_sizes(*narrow_, t_.target())) {
      if (grouped_->extent >= size) dot_sizes_.push_back(size);
    }
    if (dot_sizes_.size() == 1) return;
    // Halves that are read a few times are best left where they lie.
    const bool packed = narrow_->integers() || copies_.of_vectors() != OperandCopies::kAsItLies;
    const bool faster = narrow_->integers() || t_.target().prefers_bf16_dots();
    dot_ = t_.knob("dot", dot_sizes_, packed && faster ? dot_sizes_.back() : 1,
                   !packed  ? "not worth a copy"
                   : faster ? "products that one instruction adds up"
                            : "widened once: multiply-adds of f32 are as fast");
    for (int64_t size : dot_sizes_) {
      if (size == 1) continue;
      t_.keep_at_root(sh_.vector->producer, dot_, size);
      t_.keep_at_root(sh_.row->producer, dot_, size);
    }
  }

  // Where the reduction is cut, no group may be.
  void keep_groups_whole() {
    if (dot_.is_const() || longest_ != grouped_->axis) return;
    Param dot = dot_, which = mode_;
    const int64_t k = grouped_->extent;
    for (auto [mode, length] : {std::pair{1, k_block_}, std::pair{2, k_part_}}) {
      if (!has_mode(mode)) continue;
      t_.require("parts of the reduction must be whole groups", [=, mode = mode, length = length](
                                                                    const auto& value) {
        return value(which) != mode || value(length) >= k || value(length) % value(dot) == 0;
      });
    }
  }
  int64_t whole_groups(int64_t length) const {
    return ceil_div(length, dot_sizes_.back()) * dot_sizes_.back();
  }

  // Blocks for the second cache, and enough of them for the threads.
  void choose_blocks(const Tile& tile) {
    parallel_ = worth_parallel(t_, stage_work(dag_, g_.anchor));
    bool whole_batch = true;  // a block has all rows of a batch
    if (!g_.chain.empty()) whole_batch = choose_chain_rows(tile.mr);
    if (g_.attached) whole_batch = g_.deepest > 0 && g_.places[g_.deepest - 1].whole_batch;
    copies_.allow_panels(whole_batch);
    ContractionBlocks b = contraction_blocks(t_.target(), op_, sh_, tile, lanes_, parallel_,
                                             copies_.of_vectors() == OperandCopies::kPanels);
    if (g_.chain.empty()) {
      row_block_ = t_.split_knob("row_block", b.row_tiles, b.row_tiles, b.row,
                                 "row tiles whose operand stays near L2");
    } else {
      b.col = b.col_tiles;  // else the whole chain would be computed for each
      b.other = 1;
    }
    col_block_ = t_.split_knob(
        "col_block", b.col_tiles, b.col_tiles, b.col,
        b.share_rows || !g_.chain.empty() ? "all: rows are shared out" : "columns are shared out");
    if (sh_.m_others.empty()) return;
    const int64_t last = op_.axes()[sh_.m_others.back()].extent();
    other_block_ = t_.split_knob("other_block", last, last, b.other, "rows of the image a block");
  }

  // Rows that go through the whole chain at a time, in tiles of `tile`: what it keeps of them must
  // stay in the second cache. Whether they are all rows of a batch.
  bool choose_chain_rows(int64_t tile) {
    int64_t bytes = 1, lead = 1;
    for (size_t d = 0; d + 1 < op_.axes().size(); ++d) lead *= op_.axes()[d].extent();
    for (int s : g_.chain)
      bytes += dag_.info(s).points / lead * dag_.stage(s).output(0).dtype().bytes();
    const int64_t tasks = parallel_ ? t_.target().cores : 1;
    const int64_t most = std::clamp<int64_t>(t_.target().l2_bytes / 2 / bytes, tile, sh_.rows);
    const int64_t even = balanced_block(sh_.rows, most, lead / sh_.rows >= 4 * tasks ? 1 : tasks);
    const int64_t rows = even == sh_.rows
                             ? even
                             : std::max(tile, std::min(ceil_div(even, tile), most / tile) * tile);
    std::vector<int64_t> values{rows, sh_.rows};
    for (int64_t r = tile; r < sh_.rows; r *= 2) values.push_back(r);
    chain_rows_ = t_.knob("chain_rows", values, rows,
                          "rows that stay near L2 from the first product to the last");
    chain_has_batch_ = rows == sh_.rows;
    return chain_has_batch_;
  }

  bool has_dot(int64_t size) const {
    return std::find(dot_sizes_.begin(), dot_sizes_.end(), size) != dot_sizes_.end();
  }

  int choose_mode(const Tile& tile) {
    modes_ = {0};
    mode_reason_ = "the whole reduction in one go";
    const Target& target = t_.target();
    longest_ = 0;
    for (size_t i = 0; i < op_.reduce_axes().size(); ++i) {
      if (op_.reduce_axes()[i].extent() > op_.reduce_axes()[longest_].extent())
        longest_ = static_cast<int>(i);
    }
    int64_t k = op_.reduce_axes()[longest_].extent();
    if (!op_.bodies()[0].as<Reduce>()->combiner->commutative ||
        dag_.stage(g_.anchor).num_outputs() != 1 || g_.attached)
      return 0;
    int chosen = 0;
    if (k >= 64) {
      modes_.push_back(1);
      int64_t block = sh_.depth > 1024 ? balanced_k(k, std::max<int64_t>(64, 1024 * k / sh_.depth))
                                       : ceil_div(k, 2);
      block = whole_groups(block);
      k_block_ = t_.split_knob("k_block", k, k, block, "a panel of the vector operand stays near");
      // A panel is read again by each row tile of its block.
      const int64_t panel_bytes = sh_.depth * tile.nv * target.vector_bytes;
      if (!g_.chain.empty()) {
        // What is computed within a block is read by the whole reduction.
      } else if (copies_.of_vectors() == OperandCopies::kPanels &&
                 2 * panel_bytes > target.l2_bytes) {
        chosen = 1;
        mode_reason_ = "a panel of the whole reduction is too long for L2";
      } else if (sh_.depth > 1536 && sh_.rows * sh_.cols >= int64_t{256} * 256) {
        chosen = 1;
        mode_reason_ = "the reduction is too long for the caches";
      }
    }
    const int64_t cores = target.cores;
    if (k >= 8 * cores && cores > 1) {
      modes_.push_back(2);
      const int64_t part = whole_groups(ceil_div(k, cores));
      k_part_ =
          t_.knob("k_part", {part, whole_groups(ceil_div(k, 2 * cores))}, part, "one part a core");
      int64_t tiles = spatial_points(op_) / std::max<int64_t>(1, 16 * lanes_);
      if (parallel_ && tiles < 2 * cores && sh_.depth >= 4096 && g_.chain.empty()) {
        chosen = 2;
        mode_reason_ = "too few results to share out over the cores";
      }
    }
    return chosen;
  }

  static int64_t balanced_k(int64_t k, int64_t most) { return ceil_div(k, ceil_div(k, most)); }

  struct HostLoops {
    Loop outer;               // all block loops, fused
    std::vector<Loop> inner;  // the loops inside a block, outermost first
    Loop micro;               // the innermost of them: where the register tile belongs
    std::vector<Loop> tile;   // rows (unrolled), vectors (unrolled), lanes
  };

  // The loops of the stage that the register tile is written into. `first`: leading axes that are
  // not the declaration's (the part of a reduction cut in parts); `fuse_outer`: whether blocks
  // become one loop.
  HostLoops host_loops(StageRef h, int first) {
    HostLoops out;
    auto axis = [&](int i) { return h.axis(first + i); };
    auto [vt, vi] = h.split(axis(sh_.v), nr_);
    auto [vu, vl] = h.split(vi, lanes_);
    auto [vb, vtile] = h.split(vt, col_block_);
    std::vector<Loop> outer, inner;
    for (int i = 0; i < first; ++i) outer.push_back(h.axis(i));
    for (int i : sh_.batch) outer.push_back(axis(i));
    std::vector<Loop> m_inner;
    for (size_t i = 0; i < sh_.m_others.size(); ++i) {
      Loop l = axis(sh_.m_others[i]);
      if (i + 1 == sh_.m_others.size()) {
        auto [lo, li] = h.split(l, other_block_);
        outer.push_back(lo);
        m_inner.push_back(li);
      } else {
        outer.push_back(l);
      }
    }
    Loop mrow;
    if (sh_.m >= 0) {
      if (g_.chain.empty()) {
        auto [mt, mi] = h.split(axis(sh_.m), mr_);
        auto [mb, mtile] = h.split(mt, row_block_);
        outer.push_back(mb);
        m_inner.push_back(mtile);
        mrow = mi;
      } else {
        auto [mb, rows] = h.split(axis(sh_.m), chain_rows_);
        auto [mtile, mi] = h.split(rows, mr_);
        outer.push_back(mb);
        m_inner.push_back(mtile);
        mrow = mi;
      }
    }
    for (int i : sh_.v_others) outer.push_back(axis(i));
    outer.push_back(vb);
    // Where nothing is broadcast, no panel of the vector operand is read again: one that comes from
    // memory is read in its order then, all columns of some rows at a time.
    const bool in_order =
        !sh_.row && sh_.vector && bytes_of(sh_.vector->tensor) > 2 * t_.target().l2_bytes;
    inner.insert(inner.end(), m_inner.begin(), m_inner.end());
    inner.insert(in_order ? inner.end() : inner.begin(), vtile);
    if (mrow.valid()) out.tile.push_back(mrow);
    out.tile.push_back(vu);
    out.tile.push_back(vl);
    std::vector<Loop> order = outer;
    order.insert(order.end(), inner.begin(), inner.end());
    order.insert(order.end(), out.tile.begin(), out.tile.end());
    h.reorder(order);
    if (mrow.valid()) h.unroll(mrow);
    h.unroll(vu);
    h.vectorize(vl);
    out.outer = h.fuse(outer);
    out.inner = inner;
    out.micro = inner.back();
    return out;
  }

  // What is inside of the blocks: the register tile, and the copies that it reads.
  void inside(StageRef acc, int first, StageRef host, const HostLoops& h) {
    auto write = [&](int64_t size, bool channels_last) {
      register_tile(acc, first, host, h.micro, size, channels_last);
      if (size > 1) copies_.write_groups(acc, *grouped_, size, channels_last);
      if (size == 1) copies_.write(acc, host, h.inner.front(), channels_last);
    };
    auto when = [&](Param knob, int64_t value, auto&& body) {
      if (knob.is_const()) return value == knob.value ? body() : void();
      t_.when(knob, value, body);
    };
    for (int64_t size : dot_sizes_) {
      when(dot_, size, [&] {
        for (bool last : {false, true})
          when(copies_.channels_last(), last, [&] { write(size, last); });
      });
    }
  }

  // The register tile: stage `acc` with all of the reduction inside, its results in registers.
  void register_tile(StageRef acc, int first, StageRef host, Loop micro, int64_t group,
                     bool channels_last) {
    std::vector<Loop> order, reduce = acc.all_reduce_axes();
    // Side by side for each vector of results: one instruction (codegen/llvm/dot_product.cpp).
    Loop together;
    if (group > 1) {
      auto [groups, members] = acc.split(reduce[static_cast<size_t>(grouped_->axis)], group);
      reduce[static_cast<size_t>(grouped_->axis)] = groups;
      together = members;
    }
    for (int i = 0; i < acc.num_axes(); ++i) {
      if (i - first != sh_.v && i - first != sh_.m) order.push_back(acc.axis(i));
    }
    const int last = copies_.innermost_reduce(channels_last);
    for (size_t i = 0; i < reduce.size(); ++i) {
      if (static_cast<int>(i) != last) order.push_back(reduce[i]);
    }
    auto [ko, ki] = acc.split(reduce[last], unroll_k_);
    order.push_back(ko);
    order.push_back(ki);
    if (sh_.m >= 0) order.push_back(acc.axis(first + sh_.m));
    auto [vu, vl] = acc.split(acc.axis(first + sh_.v), lanes_);
    order.push_back(vu);
    if (together.valid()) order.push_back(together);
    order.push_back(vl);
    acc.reorder(order);
    acc.unroll(ki);
    if (together.valid()) acc.unroll(together);
    if (sh_.m >= 0) acc.unroll(acc.axis(first + sh_.m));
    acc.unroll(vu);
    acc.vectorize(vl);
    // Lanes lie side by side in registers, wherever they go in the end.
    if (sh_.v + 1 != static_cast<int>(op_.axes().size())) {
      std::vector<StageRef::StorageDim> dims;
      for (int i = 0; i < acc.num_axes(); ++i) {
        if (i - first != sh_.v) dims.push_back({i, 1, 0});
      }
      dims.push_back({first + sh_.v, 1, 0});
      acc.layout(dims);
    }
    acc.compute_at(host, micro);
  }

  bool has_epilogue() const { return g_.output_stage != g_.anchor; }

  void whole() {
    StageRef anchor = t_.stage(g_.anchor), output_stage = t_.stage(g_.output_stage);
    StageRef acc = has_epilogue() ? anchor : anchor.cache_write();
    HostLoops h = host_loops(output_stage, 0);
    if (parallel_) output_stage.parallel(h.outer);
    // Padding, casts and other producers of an operand may be computed a block at a time.
    if (!g_.attached) t_.offer_place(output_stage, h.outer, "block", {}, chain_has_batch_);
    inside(acc, 0, output_stage, h);
  }

  // What an iteration of the host's loop reads.
  void within(const StageGroup::Place& place) {
    StageRef anchor = t_.stage(g_.anchor), host = t_.stage(place.stage);
    StageRef acc = anchor.cache_write();
    auto [vt, vi] = anchor.split(anchor.axis(sh_.v), nr_);
    auto [vu, vl] = anchor.split(vi, lanes_);
    HostLoops h;
    std::vector<Loop> order;
    for (int i = 0; i < anchor.num_axes(); ++i) {
      if (i != sh_.v && i != sh_.m) order.push_back(anchor.axis(i));
    }
    h.inner = {vt};
    h.tile = {vu, vl};
    if (sh_.m >= 0) {
      auto [mt, mi] = anchor.split(anchor.axis(sh_.m), mr_);
      anchor.unroll(mi);
      h.inner.push_back(mt);
      h.tile.insert(h.tile.begin(), mi);
    }
    h.micro = h.inner.back();
    order.insert(order.end(), h.inner.begin(), h.inner.end());
    order.insert(order.end(), h.tile.begin(), h.tile.end());
    anchor.reorder(order);
    anchor.unroll(vu);
    anchor.vectorize(vl);
    inside(acc, 0, anchor, h);
    anchor.compute_at(host, place.loop);
  }

  void blocked() {
    StageRef anchor = t_.stage(g_.anchor), output_stage = t_.stage(g_.output_stage);
    StageRef rf = anchor.rfactor(anchor.reduce_axis(longest_), k_block_, false);
    HostLoops h;
    if (has_epilogue()) {
      // A block of the result is finished, then goes through the epilogue while it is in cache.
      HostLoops outer = host_loops(output_stage, 0);
      if (parallel_) output_stage.parallel(outer.outer);
      anchor.compute_at(output_stage, outer.outer);
      h = host_loops(anchor, 0);
    } else {
      h = host_loops(anchor, 0);
      if (parallel_) anchor.parallel(h.outer);
    }
    std::vector<Loop> order{anchor.reduce_axis(0)};
    order.insert(order.end(), h.inner.begin(), h.inner.end());
    order.insert(order.end(), h.tile.begin(), h.tile.end());
    anchor.reorder(order);
    inside(rf, 1, anchor, h);
  }

  void parts() {
    StageRef anchor = t_.stage(g_.anchor);
    StageRef rf = anchor.rfactor(anchor.reduce_axis(longest_), k_part_, false);
    StageRef acc = rf.cache_write();
    HostLoops h = host_loops(rf, 1);
    rf.parallel(h.outer);
    inside(acc, 1, rf, h);
    // What is left, the sum of the parts, streams memory: parts outside, vectors inside.
    std::vector<Loop> order;
    for (Loop l : anchor.all_axes()) order.push_back(l);
    auto [o, i] = anchor.split(anchor.axis(-1), lanes_);
    order.back() = anchor.reduce_axis(0);
    order.push_back(o);
    order.push_back(i);
    anchor.reorder(order);
    anchor.vectorize(i);
    if (has_epilogue()) {
      StageRef output_stage = t_.stage(g_.output_stage);
      auto [so, si] = output_stage.split(output_stage.axis(-1), lanes_);
      (void)so;
      output_stage.vectorize(si);
    }
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputeDag& dag_;
  const Operation& op_;
  int64_t lanes_;
  Shape sh_;
  std::optional<NarrowProduct> narrow_;
  std::optional<GroupedReduction> grouped_;
  std::vector<int64_t> dot_sizes_{1};
  OperandCopies copies_;
  Param location_, mr_, nr_, unroll_k_, row_block_, chain_rows_, col_block_, other_block_, mode_,
      k_block_, k_part_, dot_ = 1;
  std::vector<int64_t> modes_;
  std::string mode_reason_;
  bool parallel_ = false, chain_has_batch_ = false;
  int longest_ = 0;
};

void build(TemplateBuilder& t, const StageGroup& g) { Writer(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"complex_reduction", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
