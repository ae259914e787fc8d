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
//       epilogue(acc) -> sink                          bias, activation, conversion
//   } }
// mode 0 reduces at once; 1 cuts k into blocks that add into the result (panels too long for L1);
// 2 computes parts of the reduction in parallel where there is little else to share (split-K).
#include "common.h"
#include "contraction_blocks.h"
#include "narrow_product.h"
#include "operand_copy.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && !g.hosted && g.main_class == StageClass::ComplexReduction &&
         !dag.stage(g.main).axes().empty() && !streams_one_operand(dag, g.main);
}

using Shape = ContractionShape;

class Writer {
 public:
  Writer(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        g_(g),
        dag_(t.dag()),
        op_(dag_.stage(g.main)),
        lanes_(native_lanes(t, g.main)),
        sh_(contraction_shape(dag_, g.main, lanes_, /*scattered=*/true)),
        narrow_(narrow_product(op_)) {}

  void write() {
    const Target& target = t_.target();
    note_shape();
    // Both operands of a narrow product are copied.
    const bool copies = !forget_inlined(sh_, g_.inlined);
    if (!copies) narrow_.reset();
    Tile tile = best_tile(target, lanes_, sh_);
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
    if (copies) choose_channels();
    std::vector<int64_t> unrolls{1, 2, 4};
    // A short window whole: its loop would end, mispredicted, after a few rounds.
    const int64_t window = innermost_reduce_extent();
    if (window <= 8) unrolls.push_back(window);
    const bool whole_window = !sh_.row && window <= 8;
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
    choose_packing();
    t_.when(mode_, 0, [&] { whole(); });
    if (has_mode(1)) t_.when(mode_, 1, [&] { blocked(); });
    if (has_mode(2)) t_.when(mode_, 2, [&] { parts(); });
  }

 private:
  bool has_mode(int64_t m) const {
    return std::find(modes_.begin(), modes_.end(), m) != modes_.end();
  }

  void note_shape() {
    std::string text = "vector axis " + op_.axes()[sh_.v].name();
    if (sh_.m >= 0) text += ", row axis " + op_.axes()[sh_.m].name();
    if (sh_.vector) text += ", vectors from " + sh_.vector->tensor.name();
    if (sh_.row) text += ", broadcasts from " + sh_.row->tensor.name();
    t_.note(text);
  }

  // Vectors of filters read an image that has its channels in planes (NCHW) by a line of memory for
  // each channel. Copied with its channels innermost it is read as one that lies so.
  void choose_channels() {
    channels_ = grouped_reduction(op_, sh_);
    if (!channels_ || sh_.m < 0 || sh_.row_dim >= 0) return;
    if (channels_->row_dim + 1 == sh_.row->tensor.rank()) return;
    channels_chosen_ = channels_->extent >= lanes_;
    channels_last_ = t_.choice("channels_last", channels_chosen_,
                               channels_chosen_ ? "no line for each plane" : "few channels");
    t_.keep_at_root(sh_.row->producer, channels_last_, 1);
  }

  // Groups of products that one instruction adds up, where there is one. Both operands are then
  // copied with each group in one place.
  void choose_dot() {
    if (!narrow_ || !narrow_->integers()) return;
    grouped_ = grouped_reduction(op_, sh_);
    if (!grouped_) return;
    for (int64_t size : dot_sizes(*narrow_, t_.target())) {
      if (grouped_->extent >= size) dot_sizes_.push_back(size);
    }
    if (dot_sizes_.size() == 1) return;
    dot_ = t_.knob("dot", dot_sizes_, dot_sizes_.back(), "products that one instruction adds up");
    for (int64_t size : dot_sizes_) {
      if (size == 1) continue;
      t_.keep_at_root(sh_.vector->producer, dot_, size);
      t_.keep_at_root(sh_.row->producer, dot_, size);
    }
  }

  // Where the reduction is cut, no group may be.
  void keep_groups_whole() {
    if (dot_.knob < 0 || longest_ != grouped_->axis) return;
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
    parallel_ = worth_parallel(t_, stage_work(dag_, g_.main));
    const ContractionBlocks b = contraction_blocks(t_.target(), op_, sh_, tile, lanes_, parallel_,
                                                   vector_copy() == kPanels);
    row_block_ = t_.split_knob("row_block", b.row_tiles, b.row_tiles, b.row,
                               "row tiles whose operand stays near L2");
    col_block_ =
        t_.split_knob("col_block", b.col_tiles, b.col_tiles, b.col,
                      b.share_rows ? "all: rows are shared out" : "columns are shared out");
    if (sh_.m_others.empty()) return;
    const int64_t last = op_.axes()[sh_.m_others.back()].extent();
    other_block_ = t_.split_knob("other_block", last, last, b.other, "rows of the image a block");
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
        dag_.stage(g_.main).num_outputs() != 1)
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
      if (vector_copy() == kPanels && 2 * panel_bytes > target.l2_bytes) {
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
      if (parallel_ && tiles < 2 * cores && sh_.depth >= 4096) {
        chosen = 2;
        mode_reason_ = "too few results to share out over the cores";
      }
    }
    return chosen;
  }

  static int64_t balanced_k(int64_t k, int64_t most) { return ceil_div(k, ceil_div(k, most)); }

  VectorCopy vector_copy() const {
    const bool constant = sh_.vector && is_constant(*sh_.vector);
    return meta::vector_copy(t_.target(), op_, sh_, constant, halves());
  }

  void choose_packing() {
    auto constant = [&](const Access* a) { return a && is_constant(*a); };
    if (sh_.vector && sh_.vector_dim >= 0 && sh_.row) {  // else nothing of it is used again
      const int64_t chosen = vector_copy();
      std::vector<int64_t> forms{kAsItLies, kWhole};
      if (!constant(sh_.vector)) forms.push_back(kPanels);
      pack_vector_ = t_.knob("pack_vectors", forms, chosen,
                             constant(sh_.vector) ? "constant: packed once"
                             : chosen == kPanels  ? "2: long strides, a panel at a time"
                             : chosen == kWhole   ? "long strides, read often"
                                                  : "read in order as it lies");
      // The lines of a panel are each of another page, where no stream runs ahead: the next panel's
      // are fetched while one is copied.
      if (!constant(sh_.vector) && sh_.cols >= 64)
        ahead_ = t_.knob("prefetch_panels", {0, 16, 32, 64}, chosen == kPanels ? 32 : 0,
                         "columns ahead of those that are copied");
    }
    if (sh_.row && sh_.row_dim >= 0) {
      // As it lies, a block is many rows that compete for sets of L2. Worth it from where it no
      // longer fits there and is read often (docs/benchmarks.md, "packing the broadcast operand").
      bool large = sh_.cols >= 512 && bytes_a_batch(op_, sh_, *sh_.row) >= t_.target().l2_bytes;
      // A line for each step of k otherwise, of which a tile uses some elements.
      const Axis* along = contiguous_axis(*sh_.row, op_.reduce_axes());
      bool across = sh_.cols >= 256 && sh_.depth >= 128 && (!along || along->extent() == 1);
      bool chosen = constant(sh_.row) || large || across;
      const std::string reason = constant(sh_.row) ? "constant: packed once"
                                 : large           ? "larger than L2, read for many columns"
                                 : across          ? "rows lie across the lines of memory"
                                                   : "broadcasts read it in order";
      if (halves()) {
        pack_row_ = t_.knob("pack_broadcasts", {0, 1, 2}, sh_.cols >= 32 ? 2 : 0,
                            sh_.cols >= 32 ? "2: widened as it lies, for many columns" : reason);
      } else {
        pack_row_ = t_.choice("pack_broadcasts", chosen, reason);
      }
    }
    for (int64_t form : {kWhole, kPanels}) {
      if (pack_vector_.knob >= 0) t_.keep_at_root(sh_.vector->producer, pack_vector_, form);
    }
    if (pack_row_.knob >= 0) {
      t_.keep_at_root(sh_.row->producer, pack_row_, 1);
      if (halves()) t_.keep_at_root(sh_.row->producer, pack_row_, 2);
    }
    choose_widening();
  }

  // Packing converts each element once, the inner loop each time that it is read. What is read
  // little is better kept short.
  void choose_widening() {
    if (!narrow_) return;
    const bool pairs = has_dot(2), floats = halves();
    auto choose = [&](const char* name, const Access* a, Param pack, bool chosen) {
      const bool narrow = a && a->tensor.dtype().bits < 16;
      if (floats ? pack.knob < 0 : !pairs || !narrow) return Param(0);
      return t_.choice(name, chosen, chosen ? "converted once, read often" : "kept short");
    };
    widen_vector_ = choose("widen_vectors", sh_.vector, pack_vector_, sh_.rows >= 8);
    widen_row_ = choose("widen_broadcasts", sh_.row, pack_row_, true);
  }
  // 16-bit floats: their conversions cost more than the multiply-adds that they are for.
  bool halves() const { return narrow_ && !narrow_->integers(); }
  bool has_dot(int64_t size) const {
    return std::find(dot_sizes_.begin(), dot_sizes_.end(), size) != dot_sizes_.end();
  }

  // Weights, or what is made of them alone: computed and packed once.
  bool is_constant(const Access& a) const {
    return a.tensor.op()->is_constant() || dag_.info(a.producer).preparable;
  }

  // Copies operand `a` into tiles of `tile` along `dim`. `inner`: the dimension next to the tile's.
  // `squares`: the tile is whole vectors. `shared`: among the threads, before all else.
  StageRef pack(const Access& a, int dim, Param tile, int inner, Param widen, StageRef reader,
                bool squares, bool shared = true) {
    StageRef p = t_.stage(a.producer).cache_read({reader});
    const int run = a.tensor.rank() - 1;
    squares = squares && run != dim && a.tensor.extent(run) >= lanes_;
    const std::vector<Loop> order = tile_copy(p, dim, tile, inner, squares, lanes_);
    if (shared) share_out(a, p, order);
    if (widen.knob >= 0) t_.when(widen, 1, [&] { p.widen(narrow_->wide); });
    return p;
  }

  // Not worth waking the threads for a constant, which is packed once.
  void share_out(const Access& a, StageRef p, const std::vector<Loop>& order) {
    if (!parallel_ || is_constant(a)) return;
    p.parallel(order.size() > 2 ? p.fuse(order[0], order[1]) : order[0]);
  }

  // Copies operand `a` as it lies, in the wide type.
  void widen_whole(const Access& a, StageRef reader) {
    StageRef p = t_.stage(a.producer).cache_read({reader});
    p.widen(narrow_->wide);
    std::vector<Loop> order = p.all_axes();
    auto [lo, li] = p.split(order.back(), lanes_);
    order.back() = lo;
    order.push_back(li);
    p.vectorize(li);
    share_out(a, p, order);
  }

  void pack_operands(StageRef reader, StageRef host, Loop panel, bool channels_last) {
    if (pack_vector_.knob >= 0) {
      const bool squares = !is_constant(*sh_.vector) && sh_.vector->tensor.dtype().bits == 32;
      const int inner = channels_last ? channels_->vector_dim : -1;
      auto copy = [&](bool whole) {
        return pack(*sh_.vector, sh_.vector_dim, nr_, inner, widen_vector_, reader, squares, whole);
      };
      t_.when(pack_vector_, kWhole, [&] { copy(true); });
      if (!is_constant(*sh_.vector))
        t_.when(pack_vector_, kPanels, [&] {
          StageRef p = copy(false).compute_at(host, panel);
          if (ahead_.knob < 0) return;
          prefetch_ahead(t_, p, t_.stage(sh_.vector->producer), sh_.vector_dim, ahead_,
                         {16, 32, 64});
        });
    }
    if (channels_last) {
      StageRef p = t_.stage(sh_.row->producer).cache_read({reader});
      const bool squares = sh_.row->tensor.dtype().bits == 32;
      share_out(*sh_.row, p, innermost_copy(p, channels_->row_dim, squares, lanes_));
      if (halves()) p.widen(narrow_->wide);
    }
    if (pack_row_.knob < 0) return;
    t_.when(pack_row_, 1, [&] { pack(*sh_.row, sh_.row_dim, mr_, -1, widen_row_, reader, false); });
    if (halves()) t_.when(pack_row_, 2, [&] { widen_whole(*sh_.row, reader); });
  }

  // Copies operand `a` with groups of `size` along dimension `k` in one place (group_copy).
  void pack_groups(const Access& a, int k, int64_t size, int dim, Param tile, int last,
                   bool k_inner, Param widen, StageRef reader) {
    StageRef p = t_.stage(a.producer).cache_read({reader});
    share_out(a, p, group_copy(p, k, size, dim, tile, last, k_inner, lanes_));
    if (size == 2 && widen.knob >= 0) t_.when(widen, 1, [&] { p.widen(i16); });
  }

  void pack_in_groups(StageRef reader, int64_t size, bool k_inner) {
    const GroupedReduction& g = *grouped_;
    pack_groups(*sh_.vector, g.vector_dim, size, sh_.vector_dim, nr_, g.lane_dim, k_inner,
                widen_vector_, reader);
    auto row = [&](int dim) {
      pack_groups(*sh_.row, g.row_dim, size, dim, mr_, -1, k_inner, widen_row_, reader);
    };
    if (pack_row_.knob < 0) return row(-1);
    t_.when(pack_row_, 0, [&] { row(-1); });
    t_.when(pack_row_, 1, [&] { row(sh_.row_dim); });
  }

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
      auto [mt, mi] = h.split(axis(sh_.m), mr_);
      auto [mb, mtile] = h.split(mt, row_block_);
      outer.push_back(mb);
      m_inner.push_back(mtile);
      mrow = mi;
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

  // The reduce axis that goes innermost: along which the broadcast operand is contiguous.
  int innermost_reduce(bool channels_last) const {
    if (channels_last) return channels_->axis;
    int last = static_cast<int>(op_.reduce_axes().size()) - 1;
    // The window of a 1x1 convolution is no loop.
    while (last > 0 && op_.reduce_axes()[static_cast<size_t>(last)].extent() == 1) --last;
    if (!sh_.row) return last;
    const Axis* c = contiguous_axis(*sh_.row, op_.reduce_axes());
    for (size_t i = 0; c && i < op_.reduce_axes().size(); ++i) {
      if (op_.reduce_axes()[i].same_as(*c) && c->extent() >= 4) last = static_cast<int>(i);
    }
    return last;
  }
  int64_t innermost_reduce_extent() const {
    return op_.reduce_axes()[static_cast<size_t>(innermost_reduce(channels_chosen_))].extent();
  }

  // What is inside of the blocks: the register tile, and the copies that it reads.
  void inside(StageRef acc, int first, StageRef host, const HostLoops& h) {
    auto write = [&](int64_t size, bool channels_last) {
      register_tile(acc, first, host, h.micro, size, channels_last);
      if (size > 1) pack_in_groups(acc, size, channels_last);
      if (size == 1) pack_operands(acc, host, h.inner.front(), channels_last);
    };
    auto when = [&](Param knob, int64_t value, auto&& body) {
      if (knob.knob < 0) return value == knob.value ? body() : void();
      t_.when(knob, value, body);
    };
    for (int64_t size : dot_sizes_) {
      when(dot_, size, [&] {
        for (bool last : {false, true}) when(channels_last_, last, [&] { write(size, last); });
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
    const int last = innermost_reduce(channels_last);
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

  bool has_epilogue() const { return g_.sink != g_.main; }

  void whole() {
    StageRef main = t_.stage(g_.main), sink = t_.stage(g_.sink);
    StageRef acc = has_epilogue() ? main : main.cache_write();
    HostLoops h = host_loops(sink, 0);
    if (parallel_) sink.parallel(h.outer);
    // Padding, casts and other producers of an operand may be computed a block at a time.
    t_.offer_place(sink, h.outer, "block");
    inside(acc, 0, sink, h);
  }

  void blocked() {
    StageRef main = t_.stage(g_.main), sink = t_.stage(g_.sink);
    StageRef rf = main.rfactor(main.reduce_axis(longest_), k_block_, false);
    HostLoops h;
    if (has_epilogue()) {
      // A block of the result is finished, then goes through the epilogue while it is in cache.
      HostLoops outer = host_loops(sink, 0);
      if (parallel_) sink.parallel(outer.outer);
      main.compute_at(sink, outer.outer);
      h = host_loops(main, 0);
    } else {
      h = host_loops(main, 0);
      if (parallel_) main.parallel(h.outer);
    }
    std::vector<Loop> order{main.reduce_axis(0)};
    order.insert(order.end(), h.inner.begin(), h.inner.end());
    order.insert(order.end(), h.tile.begin(), h.tile.end());
    main.reorder(order);
    inside(rf, 1, main, h);
  }

  void parts() {
    StageRef main = t_.stage(g_.main);
    StageRef rf = main.rfactor(main.reduce_axis(longest_), k_part_, false);
    StageRef acc = rf.cache_write();
    HostLoops h = host_loops(rf, 1);
    rf.parallel(h.outer);
    inside(acc, 1, rf, h);
    // What is left, the sum of the parts, streams memory: parts outside, vectors inside.
    std::vector<Loop> order;
    for (Loop l : main.all_axes()) order.push_back(l);
    auto [o, i] = main.split(main.axis(-1), lanes_);
    order.back() = main.reduce_axis(0);
    order.push_back(o);
    order.push_back(i);
    main.reorder(order);
    main.vectorize(i);
    if (has_epilogue()) {
      StageRef sink = t_.stage(g_.sink);
      auto [so, si] = sink.split(sink.axis(-1), lanes_);
      (void)so;
      sink.vectorize(si);
    }
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputeDag& dag_;
  const Operation& op_;
  int64_t lanes_;
  Shape sh_;
  std::optional<NarrowProduct> narrow_;
  std::optional<GroupedReduction> grouped_, channels_;
  std::vector<int64_t> dot_sizes_{1};
  Param mr_, nr_, unroll_k_, row_block_, col_block_, other_block_, mode_, k_block_, k_part_,
      pack_vector_, pack_row_, ahead_, dot_ = 1, widen_vector_, widen_row_, channels_last_;
  std::vector<int64_t> modes_;
  std::string mode_reason_;
  bool parallel_ = false, channels_chosen_ = false;
  int longest_ = 0;
};

void build(TemplateBuilder& t, const StageGroup& g) { Writer(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"complex_reduction", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
