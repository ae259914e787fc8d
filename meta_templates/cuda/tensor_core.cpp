// Contractions of 16-bit floats, bytes and (where allowed) tf32 on the tensor cores of a GPU, by
// mma.sync (the path of sm_80 to sm_89, and of Hopper for what wgmma does not take).
//
//   for blocks (blockIdx): a tile of rows x columns
//     C.local[..] = 0                       fragments in registers: a warp's part of the tile
//     for k in steps of tile_k:             `stages` tiles of A and B under way (cp.async)
//       for warps: for k in steps of one mma:
//         A.frag, B.frag = ldmatrix(tiles)
//         for 16 rows, for 8 columns: mma   (unrolled)
//     epilogue(C.local) -> output stage     two columns a lane
//
// A convolution is a product too, of as many rows as it has pixels (implicit GEMM, product_view.h):
// its tiles are fetched from computed addresses, its padding as zeros.
//
// Any size: what a tile has beyond an operand is zero, and results there are not stored. Rows of
// which the length is no multiple of 16 bytes are copied in shorter pieces.
#include <cmath>

#include "cuda/common.h"
#include "cuda/product_loops.h"
#include "cuda/tensor_core_tiles.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return feeds_tensor_cores(dag, g, target);
}

class Writer {
 public:
  Writer(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        g_(g),
        dag_(t.dag()),
        op_(dag_.stage(g.anchor)),
        sh_(contraction_shape(dag_, g.anchor, 8)),
        view_(tensor_core_view(dag_, g.anchor, g.allow_tf32)),
        pack_(4 / tensor_core_operands(op_, g.allow_tf32)->bytes()),
        depth_(8 * pack_),
        size_(size_of_product()) {}

  void write() {
    choose();
    choose_copies();
    if (!innermost_) return modes();
    t_.when(copies_, 0, [&] { modes(); });
    t_.when(copies_, 1, [&] {
      view_ = innermost_->view;
      copying_ = true;
      modes();
    });
  }

 private:
  void modes() {
    t_.when(mode_, 0, [&] { whole(); });
    if (has_parts_) t_.when(mode_, 1, [&] { parts(); });
  }

  // Whether what does not lie along the depth is copied so first: what is constant once, at no
  // cost; an image, of which each element is read many times, where its tiles would come by single
  // elements.
  void choose_copies() {
    if (view_) innermost_ = depth_innermost(op_, *view_);
    if (!innermost_) return;
    bool chosen = false, reused = true;
    for (size_t o = 0; o < 2; ++o) {
      if (!innermost_->copied[o]) continue;
      const ViewOperand& old = o == 0 ? view_->row_operand : view_->col_operand;
      const int p = producer_of(dag_, g_.anchor, old.load);
      const bool constant = dag_.stage(p).is_constant() || dag_.info(p).precomputable;
      const bool single = by_elements(old);
      chosen |= single || (constant && pack_ == 4 && !old.along_depth);
      reused &= constant || !single || (o == 0 ? size_.cols : size_.rows) >= 32;
    }
    copies_ = t_.choice("channels_last", chosen && reused,
                        "operands whose elements along the depth lie side by side");
  }

  static constexpr int64_t kElementsUnderWay = 8;
  // Whether cp.async cannot copy the operand's tiles.
  static bool by_elements(const ViewOperand& o) { return o.vector * o.load->dtype.bytes() < 4; }

  // Those of `values` that are less than twice what `extent` needs.
  static std::vector<int64_t> useful(int64_t extent, std::vector<int64_t> values) {
    std::erase_if(values, [&](int64_t v) { return v > 1 && v >= 2 * extent; });
    return values;
  }

  ProductSize size_of_product() const {
    if (view_)
      return {ContractionView::points(view_->rows), ContractionView::points(view_->cols),
              ContractionView::points(view_->depth), ContractionView::points(view_->batch), pack_};
    int64_t batch = 1;
    for (const auto* list : {&sh_.batch, &sh_.m_others, &sh_.v_others}) {
      for (int i : *list) batch *= op_.axes()[static_cast<size_t>(i)].extent();
    }
    return {sh_.rows, sh_.cols, sh_.depth, batch, pack_};
  }

  void choose() {
    const int64_t most_warps = std::min<int64_t>(16, most_block_threads(t_.target().gpu) / kWarp);
    const TensorCoreTile best = choose_tensor_core_tile(size_, t_.target().gpu);
    const int64_t row_units = ceil_div(size_.rows, kRows), col_units = ceil_div(size_.cols, kCols);
    row_tiles_ = t_.knob("row_tiles", useful(row_units, {1, 2, 4}), best.row_tiles,
                         "16-row tiles of a warp");
    row_warps_ = t_.knob("row_warps", useful(row_units, {1, 2, 4}), best.row_warps,
                         "warps down the block's tile");
    col_tiles_ = t_.knob("col_tiles", useful(col_units, {1, 2, 4, 8, 16}), best.col_tiles,
                         "8-column tiles of a warp");
    col_warps_ = t_.knob("col_warps", useful(col_units, {1, 2, 4, 8}), best.col_warps,
                         "warps across the block's tile");
    has_parts_ = size_.depth >= 512;
    std::vector<int64_t> lengths;
    for (int64_t parts : {2, 4, 8, 16, 32, 64, 128}) {
      if (size_.depth / parts >= 64) lengths.push_back(part_length(parts));
    }
    const bool split = has_parts_ && best.parts > 1;
    mode_ = t_.knob("mode", has_parts_ ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0},
                    split ? 1 : 0,
                    split ? "too few tiles for the SMs: parts of the reduction side by side"
                          : "the whole reduction in one block");
    int64_t length = round_up(size_.depth, depth_);
    if (has_parts_) {
      const int64_t part = std::clamp(part_length(best.parts), lengths.back(), lengths.front());
      k_part_ = t_.knob("k_part", lengths, part, "steps of the reduction in a part");
      if (split) length = part;
    }
    choose_tile_k(length / depth_, best);
    const Gpu gpu = t_.target().gpu;
    Param rt = row_tiles_, rw = row_warps_, ct = col_tiles_, cw = col_warps_, tk = tile_k_,
          st = stages_;
    const int64_t pack = pack_, depth = depth_;
    const int64_t row_limit = std::max(2 * size_.rows, 2 * kRows),
                  col_limit = std::max(2 * size_.cols, 2 * kCols);
    t_.require("half of the tile must be of use", [=](const auto& v) {
      return kRows * v(rt) * v(rw) < row_limit && kCols * v(ct) * v(cw) < col_limit;
    });
    if (has_parts_) {
      Param kp = k_part_, mode = mode_;
      t_.require("a part must be whole tiles",
                 [=](const auto& v) { return v(mode) == 0 || v(kp) % (depth * v(tk)) == 0; });
    }
    t_.require("a block has at most " + std::to_string(most_warps) + " warps",
               [=](const auto& v) { return v(rw) * v(cw) <= most_warps; });
    t_.require("the fragments must fit the registers", [=](const auto& v) {
      const int64_t registers = v(rt) * v(ct) * 4 + v(rt) * 8 + v(ct) * 4 + 40;
      return registers <= 250 && registers * v(rw) * v(cw) * 32 <= gpu.registers_per_sm;
    });
    t_.require("the tiles must fit shared memory", [=](const auto& v) {
      const int64_t r = kRows * v(rt) * v(rw), c = kCols * v(ct) * v(cw);
      return tile_bytes(r, c, depth * v(tk), pack) * v(st) <= gpu.smem_per_block;
    });
  }

  static int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

  // Of whole steps, several where that adds little to the reduction.
  int64_t part_length(int64_t parts) const {
    const int64_t n = ceil_div(size_.depth, parts);
    int64_t unit = depth_;
    while (unit < 8 * depth_ && n >= 16 * unit) unit *= 2;
    return round_up(n, n % unit == 0 || n < 8 * depth_ ? depth_ : unit);
  }

  // The longest of at most four steps that adds little to `steps` of them, and as many of such
  // tiles as shared memory holds.
  void choose_tile_k(int64_t steps, const TensorCoreTile& tile) {
    const bool split = t_.chosen(mode_) == 1;
    std::vector<int64_t> values = useful(steps, {1, 2, 4, 8});
    int64_t chosen = 1;
    for (int64_t k : values) {
      const bool fits = k == 1 || most_stages(tile, k, pack_, t_.target().gpu) >= 3;
      if (k <= 4 && fits && (split ? steps % k == 0 : round_up(steps, k) * 8 <= steps * 9))
        chosen = k;
    }
    tile_k_ = t_.knob("tile_k", values, chosen, "steps of the reduction in shared memory");
    const int64_t stages = std::min<int64_t>(4, most_stages(tile, chosen, pack_, t_.target().gpu));
    stages_ = t_.knob("stages", {2, 3, 4, 5, 6}, stages,
                      "loads " + std::to_string(stages - 1) + " tiles ahead");
  }

  struct Loops {
    std::vector<Loop> outer;  // batch and the like
    Loop all_rows, all_cols;
    Loop row_block, col_block, row_warp, col_warp, row_tile, col_tile, row, col;
  };

  // The loops over batch, rows and columns of a stage with the axes of the sum, behind `first`
  // others; `output stage`: of one with the axes of the declaration.
  Loops outer_loops(StageRef s, int first, bool output_stage) {
    Loops l;
    for (int i = 0; i < first; ++i) l.outer.push_back(s.axis(i));
    if (view_ && output_stage) {
      const ProductLoops p = taken_together(s, *view_);
      l.outer = p.batch;
      l.all_rows = p.rows;
      l.all_cols = p.cols;
      return l;
    }
    if (view_) {
      const int batch = static_cast<int>(view_->batch.size());
      for (int i = 0; i < batch; ++i) l.outer.push_back(s.axis(first + i));
    } else {
      for (const auto* list : {&sh_.batch, &sh_.m_others, &sh_.v_others}) {
        for (int i : *list) l.outer.push_back(s.axis(first + i));
      }
    }
    l.all_rows = s.axis(first + row_axis());
    l.all_cols = s.axis(first + col_axis());
    return l;
  }

  // Where the sum's stage has rows and columns.
  int row_axis() const { return view_ ? static_cast<int>(view_->batch.size()) : sh_.m; }
  int col_axis() const { return view_ ? static_cast<int>(view_->batch.size()) + 1 : sh_.v; }

  Loops tile_loops(StageRef s, int first, bool has_blocks, bool output_stage) {
    Loops l = outer_loops(s, first, output_stage);
    auto cut = [&](Loop axis, int64_t unit, Param tiles, Param warps, Loop* block, Loop* warp,
                   Loop* tile, Loop* in) {
      auto [o, i] = s.split(axis, unit, TailStrategy::PredicateStores);
      auto [o2, t] = s.split(o, tiles, TailStrategy::PredicateStores);
      *in = i;
      *tile = t;
      *warp = o2;
      if (has_blocks) {
        auto [b, w] = s.split(o2, warps, TailStrategy::PredicateStores);
        *block = b;
        *warp = w;
      }
    };
    cut(l.all_rows, kRows, row_tiles_, row_warps_, &l.row_block, &l.row_warp, &l.row_tile, &l.row);
    cut(l.all_cols, kCols, col_tiles_, col_warps_, &l.col_block, &l.col_warp, &l.col_tile, &l.col);
    return l;
  }

  // The sum over whole tiles, of operands with zeros around them, which come to tiles_; the parts
  // of the reduction are multiples of what `depth` says.
  StageRef padded_sum(Param depth, Param steps) {
    StageRef anchor = t_.stage(g_.anchor);
    tiles_.clear();
    sources_.clear();
    if (view_) return viewed_sum(anchor, depth, steps);
    for (const Access* a : {sh_.row, sh_.vector}) {
      StageRef source = t_.stage(a->producer);
      sources_.push_back(turned(tiles_.size()) ? source.cache_read({anchor}) : source);
      tiles_.push_back(sources_.back().cache_read({anchor}));
    }
    StageRef sum = anchor.pad({{anchor.axis(sh_.m), kRows, row_tiles_, row_warps_},
                               {anchor.axis(sh_.v), kCols, col_tiles_, col_warps_},
                               {anchor.reduce_axis(0), depth, steps}});
    if (g_.output_stage != g_.anchor) anchor.compute_inline();
    return sum;
  }

  // The same, of several axes taken as one.
  StageRef viewed_sum(StageRef anchor, Param depth, Param steps) {
    StageRef::ProductView v = product_step(anchor, *view_);
    v.row_multiple = {kRows, row_tiles_, row_warps_};
    v.col_multiple = {kCols, col_tiles_, col_warps_};
    v.depth_multiple = {depth, steps, 1};
    for (size_t o = 0; copying_ && o < 2; ++o) {
      if (innermost_->copied[o]) copy_innermost(t_, g_.anchor, *innermost_, o);
    }
    const StageRef::Product made = anchor.as_product(v);
    for (StageRef source : {made.rows, made.cols}) {
      sources_.push_back(source);
      tiles_.push_back(turned(tiles_.size()) ? source.cache_read({made.sum}) : source);
    }
    if (g_.output_stage != g_.anchor) anchor.compute_inline();
    return made.sum;
  }

  // The stage at the root that a tile of results goes to, two columns a lane: row = 8*i + lane / 4,
  // column = 2*(lane % 4) + j.
  Loop host_loops(StageRef s, int first, bool output_stage) {
    Loops l = tile_loops(s, first, true, output_stage);
    auto [half, lane_row] = s.split(l.row, 8);
    auto [lane_col, pair] = s.split(l.col, 2);
    std::vector<Loop> order = l.outer;
    order.insert(order.end(), {l.col_block, l.row_block, l.row_warp, l.col_warp, lane_row, lane_col,
                               l.row_tile, l.col_tile, half, pair});
    s.reorder(order);
    s.bind(s.fuse(lane_row, lane_col), LoopKind::ThreadX);
    if (!l.outer.empty()) s.bind(s.fuse(l.outer), LoopKind::BlockZ);
    s.bind(l.col_block, LoopKind::BlockY);
    s.bind(l.row_block, LoopKind::BlockX);
    bind_warps(s, l);
    for (Loop u : {l.row_tile, l.col_tile, half}) s.unroll(u);
    s.vectorize(pair);
    return l.row_block;
  }

  void bind_warps(StageRef s, const Loops& l) {
    s.bind(l.row_warp, LoopKind::ThreadZ);
    s.bind(l.col_warp, LoopKind::ThreadY);
  }

  void accumulate(StageRef acc, int first, StageRef host, Loop place) {
    Loops l = tile_loops(acc, first, false, false);
    auto [k_step, k] = acc.split(acc.reduce_axis(0), depth_);
    auto [k_tile, step] = acc.split(k_step, tile_k_);
    std::vector<Loop> order = l.outer;
    order.insert(order.end(),
                 {k_tile, l.row_warp, l.col_warp, step, l.row_tile, l.col_tile, l.row, l.col, k});
    acc.reorder(order);
    bind_warps(acc, l);
    for (Loop u : {step, l.row_tile, l.col_tile}) acc.unroll(u);
    acc.tensorize(l.row);
    // [.. m/16][n/8] [m%8][n/2%4] [m/8%2][n%2]
    const int m = first + row_axis(), n = first + col_axis();
    std::vector<StageRef::StorageDim> dims;
    for (int d = 0; d < acc.num_axes(); ++d) {
      if (d != m && d != n) dims.push_back({d, 1, 0});
    }
    dims.insert(dims.end(), {{m, 16, 0}, {n, 8, 0}, {m, 1, 8}, {n, 2, 4}, {m, 8, 2}, {n, 1, 2}});
    acc.layout(dims);
    acc.compute_at(host, place);
    operand(0, acc, k_tile, step);
    operand(1, acc, k_tile, step);
  }

  // How operand `which` (of rows, of columns) lies.
  struct Lie {
    int s = -1, k = -1;  // its dimensions of rows or columns, and of the depth
    int64_t vector = 1;  // elements that begin at a multiple of their number wherever they do
  };
  Lie lie(size_t which) const {
    if (view_) {
      const ViewOperand& o = which == 0 ? view_->row_operand : view_->col_operand;
      const int last = static_cast<int>(view_->batch.size()) + 1;
      return {o.along_depth ? last - 1 : last, o.along_depth ? last : last - 1, o.vector};
    }
    const Access& a = which == 0 ? *sh_.row : *sh_.vector;
    // All rows of the operand start at a multiple of this: 16 bytes or less, as its length allows.
    return {plain_dim(a, op_.axes()[static_cast<size_t>(which == 0 ? sh_.m : sh_.v)]),
            plain_dim(a, op_.reduce_axes()[0]), whole_vector(a.tensor.extents().back(), 4 * pack_)};
  }

  // A tile of an operand in shared memory, and the fragments that a warp takes from it.
  void operand(size_t which, StageRef acc, Loop k_tile, Loop step) {
    const bool rows = which == 0;
    StageRef tile = tiles_[which];
    StageRef frag = tile.cache_read({acc});
    const auto [s, k, vector] = lie(which);
    frag.compute_at(acc, step);
    std::vector<StageRef::StorageDim> dims;
    std::vector<Loop> order;
    for (int d = 0; d < frag.num_axes(); ++d) {
      if (d == s || d == k) continue;
      dims.push_back({d, 1, 0});
      order.push_back(frag.axis(d));
    }
    // Two tiles of columns at once: one ldmatrix.x4.
    auto [so, si] = frag.split(frag.axis(s), 16);
    Loop ki = frag.axis(k);
    if (rows) {
      dims.insert(dims.end(), {{s, 16, 0},
                               {k, depth_, 0},
                               {s, 1, 8},
                               {k, pack_, 4},
                               {k, 4 * pack_, 2},
                               {s, 8, 2},
                               {k, 1, pack_}});
      order.insert(order.end(), {so, si, ki});
    } else {
      dims.insert(
          dims.end(),
          {{k, depth_, 0}, {s, 8, 0}, {s, 1, 8}, {k, pack_, 4}, {k, 4 * pack_, 2}, {k, 1, pack_}});
      order.insert(order.end(), {so, ki, si});
    }
    frag.layout(dims);
    frag.multi_buffer(2);  // the next step's fragments are loaded while this one's multiply
    frag.reorder(order);
    frag.unroll(so);
    frag.tensorize(rows ? si : ki);

    tile.compute_at(acc, k_tile);
    tile.set_scope(Scope::Shared);
    // 16 bytes: the rows of a matrix lie in different banks. Four rows of f32 that the lanes of a
    // warp read eight elements of each: those eight banks.
    tile.storage_pad(pack_ == 1 && k < s ? 8 : 4 * pack_);
    tile.multi_buffer(stages_);
    if (turned(which)) return turn(which);
    Loop f = tile.fuse(tile.all_axes());
    auto [o, v] = tile.split(f, vector);
    auto [o2, x] = tile.split(o, 32);
    auto [o3, y] = tile.split(o2, col_warps_);
    auto [o4, z] = tile.split(o3, row_warps_);
    tile.reorder({z, y, x, o4, v});
    tile.bind(x, LoopKind::ThreadX);
    tile.bind(y, LoopKind::ThreadY);
    tile.bind(z, LoopKind::ThreadZ);
    // Elements that come through registers, each by an index of its own: a few at a time.
    const bool single = view_ && by_elements(which == 0 ? view_->row_operand : view_->col_operand);
    tile.unroll(single ? tile.split(o4, kElementsUnderWay)[1] : o4);
    tile.vectorize(v);
  }

  // Whether an operand of bytes lies the other way than a fragment, in which four neighbours along
  // k share a register: ldmatrix turns 16-bit elements only.
  bool turned(size_t which) const {
    if (pack_ != 4) return false;
    const Lie l = lie(which);
    return l.k < l.s;
  }

  // Such a tile is turned on its way to shared memory: a thread takes 4 x 4 bytes to registers,
  // four along the operand's rows, and leaves them as four along k.
  void turn(size_t which) {
    StageRef tile = tiles_[which], block = sources_[which];
    const auto [s, k, vector] = lie(which);
    std::vector<StageRef::StorageDim> dims;
    std::vector<Loop> order;
    for (int d = 0; d < tile.num_axes(); ++d) {
      if (d == s || d == k) continue;
      dims.push_back({d, 1, 0});
      order.push_back(tile.axis(d));
    }
    dims.insert(dims.end(), {{s, 1, 0}, {k, 1, 0}});
    tile.layout(dims);
    auto [so, si] = tile.split(tile.axis(s), 4);
    auto [ko, ki] = tile.split(tile.axis(k), 4);
    // Eight lanes along k: what they store lies in different banks, two of each at most; and what
    // the others read lies side by side.
    auto [ko2, kl] = tile.split(ko, 8);
    auto [so2, sl] = tile.split(so, 2);
    order.insert(order.end(), {ko2, so2, kl, sl});
    std::vector<Loop> all = order;
    all.insert(all.end(), {si, ki});
    tile.reorder(all);
    auto [o, x] = tile.split(tile.fuse(order), 32);
    auto [o2, y] = tile.split(o, col_warps_);
    auto [o3, z] = tile.split(o2, row_warps_);
    tile.reorder({z, y, x, o3, si, ki});
    tile.bind(x, LoopKind::ThreadX);
    tile.bind(y, LoopKind::ThreadY);
    tile.bind(z, LoopKind::ThreadZ);
    for (Loop u : {o3, si}) tile.unroll(u);
    tile.vectorize(ki);
    block.compute_at(tile, o3);
    Loop bk = block.axis(k), bs = block.axis(s);
    std::vector<Loop> inner;
    for (int d = 0; d < block.num_axes(); ++d) {
      if (d != s && d != k) inner.push_back(block.axis(d));
    }
    inner.insert(inner.end(), {bk, bs});
    block.reorder(inner);
    block.unroll(bk);
    if (vector % 4 == 0) {
      block.vectorize(bs);
    } else {
      block.unroll(bs);
    }
  }

  void whole() {
    StageRef output_stage = t_.stage(g_.output_stage);
    StageRef acc = padded_sum(depth_, tile_k_);
    accumulate(acc, 0, output_stage, host_loops(output_stage, 0, true));
  }

  void parts() {
    StageRef sum = padded_sum(k_part_, 1);
    StageRef rf = sum.rfactor(sum.reduce_axis(0), k_part_, false);
    StageRef acc = rf.cache_write();
    accumulate(acc, 1, rf, host_loops(rf, 1, false));
    sum_of_parts(t_, g_, sum);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputeDag& dag_;
  const Operation& op_;
  ContractionShape sh_;
  std::optional<ContractionView> view_;  // where several axes are taken as one
  std::optional<DepthInnermost> innermost_;
  bool copying_ = false;
  Param copies_;
  Param row_tiles_, row_warps_, col_tiles_, col_warps_, tile_k_, stages_, mode_, k_part_;
  bool has_parts_ = false;
  const int64_t pack_, depth_;  // operands in a register of 32 bits; along k, in one mma
  const ProductSize size_;
  // Of rows, of columns: in shared memory, and what that copies.
  std::vector<StageRef> tiles_, sources_;
};

void build(TemplateBuilder& t, const StageGroup& g) { Writer(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"cuda_tensor_core", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
