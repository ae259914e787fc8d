// Contractions of 16-bit floats, bytes and (where allowed) tf32 on the tensor cores of a GPU, by
// mma.sync (the path of sm_80 to sm_89, and of Hopper for what wgmma does not take).
//
//   for blocks (blockIdx): a tile of rows x columns
//     C.local[..] = 0                              fragments in registers: a warp's part of the
//     tile for k in steps of tile_k:                    `stages` tiles of A and B under way
//     (cp.async)
//       for warps: for k in steps of one mma:
//         A.frag, B.frag = ldmatrix(tiles)
//         for 16 rows, for 8 columns: mma          (unrolled)
//     epilogue(C.local) -> sink                    two columns a lane
//
// Any size: what a tile has beyond an operand is zero, and results there are not stored. Rows of
// which the length is no multiple of 16 bytes are copied in shorter pieces.
#include <cmath>

#include "cuda_common.h"
#include "tensor_core.h"

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
        op_(dag_.stage(g.main)),
        sh_(contraction_shape(dag_, g.main, 8)),
        pack_(4 / tensor_core_operands(op_)->bytes()),
        depth_(8 * pack_) {}

  void write() {
    choose();
    t_.when(mode_, 0, [&] { whole(); });
    if (has_parts_) t_.when(mode_, 1, [&] { parts(); });
  }

 private:
  struct Tile {
    int64_t row_tiles, row_warps, col_tiles, col_warps;
    int64_t rows() const { return kRows * row_tiles * row_warps; }
    int64_t cols() const { return kCols * col_tiles * col_warps; }
    int64_t warps() const { return row_warps * col_warps; }
  };

  // Those of `values` that are less than twice what `extent` needs.
  static std::vector<int64_t> useful(int64_t extent, std::vector<int64_t> values) {
    std::erase_if(values, [&](int64_t v) { return v > 1 && v >= 2 * extent; });
    return values;
  }

  int64_t batch() const {
    int64_t n = 1;
    for (const auto* list : {&sh_.batch, &sh_.m_others, &sh_.v_others}) {
      for (int i : *list) n *= op_.axes()[static_cast<size_t>(i)].extent();
    }
    return n;
  }

  // Cycles of the whole with tile `t`: the rounds that the busiest SM runs, each as long as
  // mma.sync, L2 or shared memory needs for its part of the reduction, whichever is slowest.
  double cost(const Tile& t, int64_t parts) const {
    const Gpu& gpu = t_.target().gpu;
    const double blocks = static_cast<double>(ceil_div(sh_.rows, t.rows()) *
                                              ceil_div(sh_.cols, t.cols()) * batch() * parts);
    const double per_sm = blocks / static_cast<double>(gpu.sms);
    const double rounds = per_sm > 8 ? per_sm : std::ceil(per_sm);
    const double r = static_cast<double>(t.rows()), c = static_cast<double>(t.cols());
    const double warps = static_cast<double>(t.warps()) * std::clamp(rounds, 1.0, 2.0);
    const double bytes = 4 / static_cast<double>(pack_);
    const double mma = r * c * bytes / 2600 * (1 + 1.5 / warps);
    // An SM gets 25 bytes a cycle where enough are under way: three tiles of 64 steps, over the
    // 1100 cycles that memory takes. Lines of which a block reads a half cost it the whole.
    const double under_way = 3 * 64 * (r + c) * bytes * std::clamp(rounds, 1.0, 2.0);
    const double half_lines = c * bytes < 128 ? 1.5 : 1;
    const double l2 = (r + c) * bytes * half_lines / std::min(25.0, under_way / 1100);
    const double warp_r = static_cast<double>(kRows * t.row_tiles),
                 warp_c = static_cast<double>(kCols * t.col_tiles);
    const double shared = (warp_r + warp_c) * bytes * static_cast<double>(t.warps()) / 128;
    const double step =
        std::max({mma, l2, shared}) + 0.25 * (mma + l2 + shared - std::max({mma, l2, shared}));
    const double depth = static_cast<double>(sh_.depth / parts);
    const double sum = parts > 1
                           ? 4000 + static_cast<double>(sh_.rows * sh_.cols * batch() * parts) * 8 /
                                        (25.0 * gpu.sms)
                           : 0;
    return rounds * (step * depth + 1500) + sum;
  }

  void choose() {
    Tile best{1, 1, 1, 1};
    int64_t best_parts = 1;
    double least = -1;
    for (int64_t rt : {1, 2, 4}) {
      for (int64_t rw : {1, 2, 4}) {
        for (int64_t ct : {1, 2, 4, 8}) {
          for (int64_t cw : {1, 2, 4}) {
            Tile t{rt, rw, ct, cw};
            if (t.rows() >= 2 * sh_.rows && t.rows() > kRows) continue;
            if (t.cols() >= 2 * sh_.cols && t.cols() > kCols) continue;
            if (t.warps() > 8 || most_stages(t, 1) < 2) continue;
            if (t.row_tiles * t.col_tiles > 32) continue;
            for (int64_t parts : {1, 2, 4, 8, 16, 32, 64, 128}) {
              if (parts > 1 && sh_.depth / parts < 128) break;
              const double c = cost(t, parts);
              if (least >= 0 && c >= least * 0.999) continue;
              least = c;
              best = t;
              best_parts = parts;
            }
          }
        }
      }
    }
    const int64_t row_units = ceil_div(sh_.rows, kRows), col_units = ceil_div(sh_.cols, kCols);
    row_tiles_ = t_.knob("row_tiles", useful(row_units, {1, 2, 4}), best.row_tiles,
                         "16-row tiles of a warp");
    row_warps_ = t_.knob("row_warps", useful(row_units, {1, 2, 4}), best.row_warps,
                         "warps down the block's tile");
    col_tiles_ = t_.knob("col_tiles", useful(col_units, {1, 2, 4, 8, 16}), best.col_tiles,
                         "8-column tiles of a warp");
    col_warps_ = t_.knob("col_warps", useful(col_units, {1, 2, 4, 8}), best.col_warps,
                         "warps across the block's tile");
    has_parts_ = sh_.depth >= 512;
    std::vector<int64_t> lengths;
    for (int64_t parts : {2, 4, 8, 16, 32, 64, 128}) {
      if (sh_.depth / parts >= 64) lengths.push_back(part_length(parts));
    }
    const bool split = has_parts_ && best_parts > 1;
    mode_ = t_.knob("mode", has_parts_ ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0},
                    split ? 1 : 0,
                    split ? "too few tiles for the SMs: parts of the reduction side by side"
                          : "the whole reduction in one block");
    int64_t length = round_up(sh_.depth, depth_);
    if (has_parts_) {
      const int64_t part = std::clamp(part_length(best_parts), lengths.back(), lengths.front());
      k_part_ = t_.knob("k_part", lengths, part, "steps of the reduction in a part");
      if (split) length = part;
    }
    choose_tile_k(length / depth_, best);
    const Gpu gpu = t_.target().gpu;
    Param rt = row_tiles_, rw = row_warps_, ct = col_tiles_, cw = col_warps_, tk = tile_k_,
          st = stages_;
    const int64_t pack = pack_, depth = depth_;
    const int64_t row_limit = std::max(2 * sh_.rows, 2 * kRows),
                  col_limit = std::max(2 * sh_.cols, 2 * kCols);
    t_.require("half of the tile must be of use", [=](const auto& v) {
      return kRows * v(rt) * v(rw) < row_limit && kCols * v(ct) * v(cw) < col_limit;
    });
    if (has_parts_) {
      Param kp = k_part_, mode = mode_;
      t_.require("a part must be whole tiles",
                 [=](const auto& v) { return v(mode) == 0 || v(kp) % (depth * v(tk)) == 0; });
    }
    t_.require("a block has at most 16 warps", [=](const auto& v) { return v(rw) * v(cw) <= 16; });
    t_.require("the fragments must fit the registers", [=](const auto& v) {
      const int64_t registers = v(rt) * v(ct) * 4 + v(rt) * 8 + v(ct) * 4 + 40;
      return registers <= 250 && registers * v(rw) * v(cw) * 32 <= gpu.registers_per_sm;
    });
    t_.require("the tiles must fit shared memory", [=](const auto& v) {
      const int64_t r = kRows * v(rt) * v(rw), c = kCols * v(ct) * v(cw);
      return tile_bytes(r, c, depth * v(tk), pack) * v(st) <= gpu.smem_per_block;
    });
  }

  // Of shared memory, for the operands of `k` steps of the reduction.
  static int64_t tile_bytes(int64_t rows, int64_t cols, int64_t k, int64_t pack) {
    const int64_t pad = std::max<int64_t>(8, 4 * pack);
    return (std::max(rows * (k + pad), k * (rows + pad)) +
            std::max(cols * (k + pad), k * (cols + pad))) *
           4 / pack;
  }

  static int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

  // Of whole steps, several where that adds little to the reduction.
  int64_t part_length(int64_t parts) const {
    const int64_t n = ceil_div(sh_.depth, parts);
    int64_t unit = depth_;
    while (unit < 8 * depth_ && n >= 16 * unit) unit *= 2;
    return round_up(n, n % unit == 0 || n < 8 * depth_ ? depth_ : unit);
  }

  // The longest of at most four steps that adds little to `steps` of them, and as many of such
  // tiles as shared memory holds.
  void choose_tile_k(int64_t steps, const Tile& tile) {
    const bool split = t_.chosen(mode_) == 1;
    std::vector<int64_t> values = useful(steps, {1, 2, 4, 8});
    int64_t chosen = 1;
    for (int64_t k : values) {
      const bool fits = k == 1 || most_stages(tile, k) >= 3;
      if (k <= 4 && fits && (split ? steps % k == 0 : round_up(steps, k) * 8 <= steps * 9))
        chosen = k;
    }
    tile_k_ = t_.knob("tile_k", values, chosen, "steps of the reduction in shared memory");
    const int64_t stages = std::min<int64_t>(4, most_stages(tile, chosen));
    stages_ = t_.knob("stages", {2, 3, 4, 5, 6}, stages,
                      "loads " + std::to_string(stages - 1) + " tiles ahead");
  }

  int64_t most_stages(const Tile& t, int64_t tile_k) const {
    return t_.target().gpu.smem_per_block / tile_bytes(t.rows(), t.cols(), depth_ * tile_k, pack_);
  }

  struct Loops {
    std::vector<Loop> outer;  // batch and the like
    Loop row_block, col_block, row_warp, col_warp, row_tile, col_tile, row, col;
  };

  Loops tile_loops(StageRef s, int first, bool has_blocks) {
    Loops l;
    for (int i = 0; i < first; ++i) l.outer.push_back(s.axis(i));
    for (const auto* list : {&sh_.batch, &sh_.m_others, &sh_.v_others}) {
      for (int i : *list) l.outer.push_back(s.axis(first + i));
    }
    auto cut = [&](Loop axis, int64_t unit, Param tiles, Param warps, Loop* block, Loop* warp,
                   Loop* tile, Loop* in) {
      auto [o, i] = s.split_whole(axis, unit);
      auto [o2, t] = s.split_whole(o, tiles);
      *in = i;
      *tile = t;
      *warp = o2;
      if (has_blocks) {
        auto [b, w] = s.split_whole(o2, warps);
        *block = b;
        *warp = w;
      }
    };
    cut(s.axis(first + sh_.m), kRows, row_tiles_, row_warps_, &l.row_block, &l.row_warp,
        &l.row_tile, &l.row);
    cut(s.axis(first + sh_.v), kCols, col_tiles_, col_warps_, &l.col_block, &l.col_warp,
        &l.col_tile, &l.col);
    return l;
  }

  // The sum over whole tiles, of operands with zeros around them, which come to tiles_; the parts
  // of the reduction are multiples of what `depth` says.
  StageRef padded_sum(Param depth, Param steps) {
    StageRef main = t_.stage(g_.main);
    tiles_.clear();
    sources_.clear();
    for (const Access* a : {sh_.row, sh_.vector}) {
      StageRef source = t_.stage(a->producer);
      sources_.push_back(turned(*a) ? source.cache_read({main}) : source);
      tiles_.push_back(sources_.back().cache_read({main}));
    }
    StageRef sum = main.pad({{main.axis(sh_.m), kRows, row_tiles_, row_warps_},
                             {main.axis(sh_.v), kCols, col_tiles_, col_warps_},
                             {main.reduce_axis(0), depth, steps}});
    if (g_.sink != g_.main) main.compute_inline();
    return sum;
  }

  // The stage at the root that a tile of results goes to, two columns a lane: row = 8*i + lane / 4,
  // column = 2*(lane % 4) + j.
  Loop host_loops(StageRef s, int first) {
    Loops l = tile_loops(s, first, true);
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
    Loops l = tile_loops(acc, first, false);
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
    const int m = first + sh_.m, n = first + sh_.v;
    std::vector<StageRef::StorageDim> dims;
    for (int d = 0; d < acc.num_axes(); ++d) {
      if (d != m && d != n) dims.push_back({d, 1, 0});
    }
    dims.insert(dims.end(), {{m, 16, 0}, {n, 8, 0}, {m, 1, 8}, {n, 2, 4}, {m, 8, 2}, {n, 1, 2}});
    acc.layout(dims);
    acc.compute_at(host, place);
    operand(*sh_.row, 0, sh_.m, true, acc, k_tile, step);
    operand(*sh_.vector, 1, sh_.v, false, acc, k_tile, step);
  }

  // A tile of an operand in shared memory, and the fragments that a warp takes from it.
  void operand(const Access& a, size_t which, int axis, bool rows, StageRef acc, Loop k_tile,
               Loop step) {
    StageRef tile = tiles_[which];
    StageRef frag = tile.cache_read({acc});
    const int s = plain_dim(a, op_.axes()[static_cast<size_t>(axis)]);
    const int k = plain_dim(a, op_.reduce_axes()[0]);
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
    if (turned(a)) return turn(a, which, s, k);
    Loop f = tile.fuse(tile.all_axes());
    // All rows of the operand start at a multiple of this: 16 bytes or less, as its length allows.
    auto [o, v] = tile.split(f, whole_vector(a.tensor.extents().back(), 4 * pack_));
    auto [o2, x] = tile.split(o, 32);
    auto [o3, y] = tile.split(o2, col_warps_);
    auto [o4, z] = tile.split(o3, row_warps_);
    tile.reorder({z, y, x, o4, v});
    tile.bind(x, LoopKind::ThreadX);
    tile.bind(y, LoopKind::ThreadY);
    tile.bind(z, LoopKind::ThreadZ);
    tile.unroll(o4);
    tile.vectorize(v);
  }

  // Whether an operand of bytes lies the other way than a fragment, in which four neighbours along
  // k share a register: ldmatrix turns 16-bit elements only.
  bool turned(const Access& a) const {
    return pack_ == 4 &&
           plain_dim(a, op_.reduce_axes()[0]) + 1 < static_cast<int>(a.indices.size());
  }

  // Such a tile is turned on its way to shared memory: a thread takes 4 x 4 bytes to registers,
  // four along the operand's rows, and leaves them as four along k.
  void turn(const Access& a, size_t which, int s, int k) {
    StageRef tile = tiles_[which], block = sources_[which];
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
    if (a.tensor.extents().back() % 4 == 0) {
      block.vectorize(bs);
    } else {
      block.unroll(bs);
    }
  }

  void whole() {
    StageRef sink = t_.stage(g_.sink);
    StageRef acc = padded_sum(depth_, tile_k_);
    accumulate(acc, 0, sink, host_loops(sink, 0));
  }

  void parts() {
    StageRef sum = padded_sum(k_part_, 1);
    StageRef rf = sum.rfactor(sum.reduce_axis(0), k_part_, false);
    StageRef acc = rf.cache_write();
    accumulate(acc, 1, rf, host_loops(rf, 1));
    sum_of_parts(t_, g_, sum);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputeDag& dag_;
  const Operation& op_;
  ContractionShape sh_;
  Param row_tiles_, row_warps_, col_tiles_, col_warps_, tile_k_, stages_, mode_, k_part_;
  bool has_parts_ = false;
  const int64_t pack_, depth_;  // operands in a register of 32 bits; along k, in one mma
  // Of rows, of columns: in shared memory, and what that copies.
  std::vector<StageRef> tiles_, sources_;
};

void build(TemplateBuilder& t, const StageGroup& g) { Writer(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"cuda_tensor_core", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
