// Contractions of 16-bit floats on the tensor cores of a GPU, by mma.sync (the path of sm_80 to
// sm_89, and of Hopper for what wgmma does not take).
//
//   for blocks (blockIdx): a tile of rows x columns
//     C.local[..] = 0                              fragments in registers: a warp's part of the
//     tile for k in steps of tile_k:                    `stages` tiles of A and B under way
//     (cp.async)
//       for warps: for k in steps of 16:
//         A.frag, B.frag = ldmatrix(tiles)
//         for 16 rows, for 8 columns: mma          (unrolled)
//     epilogue(C.local) -> sink                    two columns a lane
//
// Takes products of which rows, columns and depth divide by 16, 8 and 16.
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
        sh_(contraction_shape(dag_, g.main, 8)) {}

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

  // What divides `extent`, of `values`.
  static std::vector<int64_t> divisors(int64_t extent, std::vector<int64_t> values) {
    std::erase_if(values, [&](int64_t v) { return extent % v != 0; });
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
    const double blocks =
        static_cast<double>((sh_.rows / t.rows()) * (sh_.cols / t.cols()) * batch() * parts);
    const double per_sm = blocks / static_cast<double>(gpu.sms);
    const double rounds = per_sm > 8 ? per_sm : std::ceil(per_sm);
    const double r = static_cast<double>(t.rows()), c = static_cast<double>(t.cols());
    const double warps = static_cast<double>(t.warps()) * std::clamp(rounds, 1.0, 2.0);
    const double mma = r * c * 2 / 2600 * (1 + 1.5 / warps);
    const double l2 = (r + c) * 2 / 25;
    const double warp_r = static_cast<double>(kRows * t.row_tiles),
                 warp_c = static_cast<double>(kCols * t.col_tiles);
    const double shared = (warp_r + warp_c) * 2 * static_cast<double>(t.warps()) / 128;
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
            if (sh_.rows % t.rows() || sh_.cols % t.cols() || t.warps() > 8) continue;
            if (t.row_tiles * t.col_tiles > 32) continue;
            for (int64_t parts : {1, 2, 4, 8, 16, 32, 64, 128}) {
              if (sh_.depth % (parts * kDepth) || (parts > 1 && sh_.depth / parts < 128)) break;
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
    row_tiles_ = t_.knob("row_tiles", divisors(sh_.rows / kRows, {1, 2, 4}), best.row_tiles,
                         "16-row tiles of a warp");
    row_warps_ = t_.knob("row_warps", divisors(sh_.rows / kRows, {1, 2, 4}), best.row_warps,
                         "warps down the block's tile");
    col_tiles_ = t_.knob("col_tiles", divisors(sh_.cols / kCols, {1, 2, 4, 8, 16}), best.col_tiles,
                         "8-column tiles of a warp");
    col_warps_ = t_.knob("col_warps", divisors(sh_.cols / kCols, {1, 2, 4, 8}), best.col_warps,
                         "warps across the block's tile");
    const int64_t steps = sh_.depth / kDepth;
    std::vector<int64_t> k = divisors(steps, {1, 2, 4, 8});
    tile_k_ = t_.knob("tile_k", k, k.size() > 2 ? k[2] : k.back(),
                      "steps of 16 of the reduction in shared memory");
    stages_ = t_.knob("stages", {2, 3, 4, 5, 6}, 4, "loads three steps ahead");
    has_parts_ = sh_.depth >= 512;
    std::vector<int64_t> lengths;
    for (int64_t parts : {2, 4, 8, 16, 32, 64, 128}) {
      if (sh_.depth % (parts * kDepth) == 0 && sh_.depth / parts >= 64)
        lengths.push_back(sh_.depth / parts);
    }
    has_parts_ &= !lengths.empty();
    const bool split = has_parts_ && best_parts > 1;
    mode_ = t_.knob("mode", has_parts_ ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0},
                    split ? 1 : 0,
                    split ? "too few tiles for the SMs: parts of the reduction side by side"
                          : "the whole reduction in one block");
    if (has_parts_) {
      const int64_t length = sh_.depth / best_parts;
      k_part_ = t_.knob("k_part", lengths, std::clamp(length, lengths.back(), lengths.front()),
                        "steps of the reduction in a part");
    }
    const Gpu gpu = t_.target().gpu;
    Param rt = row_tiles_, rw = row_warps_, ct = col_tiles_, cw = col_warps_, tk = tile_k_,
          st = stages_;
    const int64_t rows = sh_.rows, cols = sh_.cols;
    t_.require("the tile must divide the result", [=](const auto& v) {
      return rows % (kRows * v(rt) * v(rw)) == 0 && cols % (kCols * v(ct) * v(cw)) == 0;
    });
    t_.require("a block has at most 16 warps", [=](const auto& v) { return v(rw) * v(cw) <= 16; });
    t_.require("the fragments must fit the registers", [=](const auto& v) {
      const int64_t registers = v(rt) * v(ct) * 4 + v(rt) * 8 + v(ct) * 4 + 40;
      return registers <= 250 && registers * v(rw) * v(cw) * 32 <= gpu.registers_per_sm;
    });
    t_.require("the tiles must fit shared memory", [=](const auto& v) {
      const int64_t r = kRows * v(rt) * v(rw), c = kCols * v(ct) * v(cw), k = kDepth * v(tk);
      const int64_t elements =
          std::max(r * (k + 8), k * (r + 8)) + std::max(c * (k + 8), k * (c + 8));
      return elements * 2 * v(st) <= gpu.smem_per_block;
    });
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
      auto [o, i] = s.split(axis, unit);
      auto [o2, t] = s.split(o, tiles);
      *in = i;
      *tile = t;
      *warp = o2;
      if (has_blocks) {
        auto [b, w] = s.split(o2, warps);
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
    auto [k_step, k] = acc.split(acc.reduce_axis(0), kDepth);
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
    operand(*sh_.row, sh_.m, true, acc, k_tile, step);
    operand(*sh_.vector, sh_.v, false, acc, k_tile, step);
  }

  // A tile of an operand in shared memory, and the fragments that a warp takes from it.
  void operand(const Access& a, int axis, bool rows, StageRef acc, Loop k_tile, Loop step) {
    StageRef tile = t_.stage(a.producer).cache_read({acc});
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
      dims.insert(dims.end(),
                  {{s, 16, 0}, {k, 16, 0}, {s, 1, 8}, {k, 2, 4}, {k, 8, 2}, {s, 8, 2}, {k, 1, 2}});
      order.insert(order.end(), {so, si, ki});
    } else {
      dims.insert(dims.end(), {{k, 16, 0}, {s, 8, 0}, {s, 1, 8}, {k, 2, 4}, {k, 8, 2}, {k, 1, 2}});
      order.insert(order.end(), {so, ki, si});
    }
    frag.layout(dims);
    frag.multi_buffer(2);  // the next step's fragments are loaded while this one's multiply
    frag.reorder(order);
    frag.unroll(so);
    frag.tensorize(rows ? si : ki);

    tile.compute_at(acc, k_tile);
    tile.set_scope(Scope::Shared);
    tile.storage_pad(8);  // 16 bytes: the rows of a matrix lie in different banks
    tile.multi_buffer(stages_);
    Loop f = tile.fuse(tile.all_axes());
    auto [o, v] = tile.split(f, 8);
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

  bool has_epilogue() const { return g_.sink != g_.main; }

  void whole() {
    StageRef main = t_.stage(g_.main), sink = t_.stage(g_.sink);
    StageRef acc = has_epilogue() ? main : main.cache_write();
    accumulate(acc, 0, sink, host_loops(sink, 0));
  }

  void parts() {
    StageRef main = t_.stage(g_.main);
    StageRef rf = main.rfactor(main.reduce_axis(0), k_part_, false);
    StageRef acc = rf.cache_write();
    accumulate(acc, 1, rf, host_loops(rf, 1));
    sum_of_parts(t_, g_);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputeDag& dag_;
  const Operation& op_;
  ContractionShape sh_;
  Param row_tiles_, row_warps_, col_tiles_, col_warps_, tile_k_, stages_, mode_, k_part_;
  bool has_parts_ = false;
};

void build(TemplateBuilder& t, const StageGroup& g) { Writer(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"cuda_tensor_core", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
