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
//
// mode 0 reduces at once; 1 cuts k into blocks that add into the result (panels too long for L1);
// 2 computes parts of the reduction in parallel where there is little else to share (split-K).
#include <cmath>

#include "common.h"
#include "contraction_shape.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && !g.hosted && g.main_class == StageClass::ComplexReduction &&
         !dag.stage(g.main).axes().empty() && !streams_one_operand(dag, g.main);
}

using Shape = ContractionShape;

// What a stream from L2 sustains beside the arithmetic (32 and 64 bytes a cycle at best).
constexpr double kL2BytesPerCycle = 17;

// How well a tile of mr rows x nv vectors keeps the multiply-adders busy, and how little of the
// edge tiles is lost. Measured figures behind it: docs/architecture.md, "register tiles".
double tile_score(const Target& target, int64_t mr, int64_t nv, int64_t lanes, const Shape& sh) {
  double accumulators = static_cast<double>(mr * nv);
  double in_flight = std::min(1.0, accumulators / (5.0 * target.fma_units));
  double loads = static_cast<double>(mr + nv) / accumulators;  // per multiply-add
  double feed = std::min(1.0, 1.08 - 0.12 * loads);
  auto edge = [&](int64_t extent, int64_t tile) {
    int64_t rest = extent % tile;
    // A partial tile costs nearly as much as a full one when it leaves too few accumulators.
    double cost = static_cast<double>((extent - rest) / tile) +
                  (rest ? 0.3 + 0.7 * static_cast<double>(rest) / static_cast<double>(tile) : 0);
    return static_cast<double>(extent) / (static_cast<double>(tile) * cost);
  };
  double lanes_used =
      static_cast<double>(sh.cols) / static_cast<double>(ceil_div(sh.cols, lanes) * lanes);
  // A panel that is longer than L1 streams from L2 at the rate that its rows of reuse allow.
  int64_t panel = std::min<int64_t>(sh.depth, 1024) * nv * target.vector_bytes;
  if (panel > target.l1d_bytes / 2) {
    double bytes_per_cycle =
        static_cast<double>(target.fma_units * target.vector_bytes) / static_cast<double>(mr);
    feed *= std::min(1.0, kL2BytesPerCycle / bytes_per_cycle);
  }
  return in_flight * feed * edge(sh.rows, mr) * edge(ceil_div(sh.cols, lanes), nv) * lanes_used;
}

struct Tile {
  int64_t mr = 1, nv = 1;
};

bool fits_registers(const Target& target, int64_t mr, int64_t nv) {
  // Accumulators, one row of the vector operand, one broadcast (folded into the multiply-add of a
  // 512-bit vector when it is used once).
  return mr * nv + nv + (nv == 1 && target.vector_bytes >= 64 ? 0 : 1) <= target.vector_registers;
}

Tile best_tile(const Target& target, int64_t lanes, const Shape& sh) {
  Tile best;
  double score = -1;
  // Nothing is broadcast (depthwise convolution): the accumulators hide the latency, and more of
  // them only evict the weights from the registers (144x56 3x3: 4x2 119 us, 4x3 280, 7x1 122).
  if (!sh.row) {
    for (int64_t nv = 1; nv <= std::min<int64_t>(2, ceil_div(sh.cols, lanes)); ++nv) {
      for (int64_t mr = 1; mr * nv <= 8 && mr <= sh.rows; ++mr) {
        double s = tile_score(target, mr, nv, lanes, sh);
        if (s <= score + 1e-9) continue;
        score = s;
        best = {mr, nv};
      }
    }
    return best;
  }
  for (int64_t nv = 1; nv <= std::min<int64_t>(sh.rows == 1 ? 12 : 4, ceil_div(sh.cols, lanes));
       ++nv) {
    for (int64_t mr = 1; mr <= std::min<int64_t>(30, sh.rows); ++mr) {
      if (!fits_registers(target, mr, nv)) continue;
      double s = tile_score(target, mr, nv, lanes, sh);
      if (s > score + 1e-9) {
        score = s;
        best = {mr, nv};
      }
    }
  }
  return best;
}

// The number of tiles a block should have so that `count` tiles in blocks of at most `most` share
// evenly over `tasks`.
int64_t balanced_block(int64_t count, int64_t most, int64_t tasks) {
  most = std::clamp<int64_t>(most, 1, count);
  int64_t blocks = ceil_div(count, most);
  if (tasks > 1) blocks = ceil_div(blocks, tasks) * tasks;
  return std::max<int64_t>(1, ceil_div(count, blocks));
}

class Writer {
 public:
  Writer(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        g_(g),
        dag_(t.dag()),
        op_(dag_.stage(g.main)),
        lanes_(native_lanes(t, g.main)),
        sh_(contraction_shape(dag_, g.main, lanes_)) {}

  void write() {
    const Target& target = t_.target();
    note_shape();
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
    std::vector<int64_t> unrolls{1, 2, 4};
    // A short window whole: its loop would end, mispredicted, after a few rounds.
    const int64_t window = innermost_reduce_extent();
    if (window <= 8) unrolls.push_back(window);
    const bool whole_window = !sh_.row && window <= 8;
    unroll_k_ = t_.knob("unroll_k", unrolls, whole_window ? window : 1,
                        whole_window ? "a window" : "the tile alone fills the pipeline");

    choose_blocks(tile);
    int mode = choose_mode();
    mode_ = t_.knob("mode", modes_, mode, mode_reason_);
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

  // Blocks for the second cache, and enough of them for the threads.
  void choose_blocks(const Tile& tile) {
    const Target& target = t_.target();
    int64_t bytes = sh_.row ? sh_.row->tensor.dtype().bytes() : 4;
    int64_t row_tiles = ceil_div(sh_.rows, tile.mr),
            col_tiles = ceil_div(sh_.cols, tile.nv * lanes_);
    // The block of the broadcast operand may spill over L2: it is read in long streams, and larger
    // blocks read the vector operand less often, the more so where the reduction is cut and results
    // are read again too (docs/benchmarks.md, "blocks of 2048^3").
    int64_t block_bytes = target.l2_bytes * (sh_.depth > 1536 ? 6 : 3) / 2;
    int64_t in_l2 = std::max<int64_t>(
        1,
        block_bytes / std::max<int64_t>(1, std::min<int64_t>(sh_.depth, 1024) * bytes * tile.mr));
    bool threads = worth_parallel(t_, stage_work(dag_, g_.main));
    int64_t tasks = threads ? target.cores : 1;
    int64_t outer = 1;
    for (int i : sh_.batch) outer *= op_.axes()[i].extent();
    for (int i : sh_.v_others) outer *= op_.axes()[i].extent();
    int64_t others = 1;
    for (int i : sh_.m_others) others *= op_.axes()[i].extent();
    // Rows of a convolution's image count as rows of the block.
    int64_t other_block = std::clamp<int64_t>(in_l2 / std::max<int64_t>(1, row_tiles), 1,
                                              std::max<int64_t>(1, others));
    bool share_rows = outer * (others > 1 ? others : row_tiles) >= tasks * 2;
    int64_t split_over = outer >= 4 * tasks ? 1 : tasks;
    int64_t mb =
        others > 1 ? row_tiles : balanced_block(row_tiles, in_l2, share_rows ? split_over : 1);
    int64_t nb = share_rows ? col_tiles : balanced_block(col_tiles, col_tiles, split_over);
    row_block_ = t_.split_knob("row_block", row_tiles, row_tiles, mb,
                               "row tiles whose operand stays near L2");
    col_block_ = t_.split_knob("col_block", col_tiles, col_tiles, nb,
                               share_rows ? "all: rows are shared out" : "columns are shared out");
    if (!sh_.m_others.empty()) {
      int64_t last = op_.axes()[sh_.m_others.back()].extent();
      other_block_ =
          t_.split_knob("other_block", last, last, balanced_block(last, other_block, split_over),
                        "rows of the image a block");
    }
    parallel_ = threads;
  }

  int choose_mode() {
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
      k_block_ = t_.split_knob("k_block", k, k, block, "a panel of the vector operand stays near");
      if (sh_.depth > 1536 && sh_.rows * sh_.cols >= int64_t{256} * 256) {
        chosen = 1;
        mode_reason_ = "the reduction is too long for the caches";
      }
    }
    const int64_t cores = target.cores;
    if (k >= 8 * cores && cores > 1) {
      modes_.push_back(2);
      k_part_ = t_.knob("k_part", {ceil_div(k, cores), ceil_div(k, 2 * cores)}, ceil_div(k, cores),
                        "one part a core");
      int64_t tiles = spatial_points(op_) / std::max<int64_t>(1, 16 * lanes_);
      if (parallel_ && tiles < 2 * cores && sh_.depth >= 4096) {
        chosen = 2;
        mode_reason_ = "too few results to share out over the cores";
      }
    }
    return chosen;
  }

  static int64_t balanced_k(int64_t k, int64_t most) { return ceil_div(k, ceil_div(k, most)); }

  void choose_packing() {
    auto constant = [&](const Access* a) { return a && is_constant(*a); };
    if (sh_.vector && sh_.vector_dim >= 0) {
      const auto& e = sh_.vector->tensor.extents();
      bool last = sh_.vector_dim + 1 == static_cast<int>(e.size());
      int64_t row_bytes = e.back() * sh_.vector->tensor.dtype().bytes();
      int64_t reuse = sh_.rows;
      for (int i : sh_.m_others) reuse *= op_.axes()[i].extent();
      bool chosen = constant(sh_.vector) || (reuse >= 32 && (!last || row_bytes > 1024));
      pack_vector_ = t_.choice("pack_vectors", chosen,
                               constant(sh_.vector) ? "constant: packed once"
                               : chosen             ? "long strides, read often"
                                                    : "read in order as it lies");
    }
    if (sh_.row && sh_.row_dim >= 0) {
      // In tile order it is one stream, whatever pages it lies on; as it lies, a block is many rows
      // that compete for sets of L2. Worth it from where it no longer fits there and is read often:
      // 512^3 to 2048^3 gain 5 to 30 % (docs/benchmarks.md, "packing the broadcast operand").
      bool large = sh_.cols >= 512 && bytes_of(sh_.row->tensor) >= t_.target().l2_bytes;
      bool chosen = constant(sh_.row) || large;
      pack_row_ = t_.choice("pack_broadcasts", chosen,
                            constant(sh_.row) ? "constant: packed once"
                            : chosen          ? "larger than L2, read for many columns"
                                              : "broadcasts read it in order");
    }
    if (pack_vector_.knob >= 0) t_.keep_at_root(sh_.vector->producer, pack_vector_, 1);
    if (pack_row_.knob >= 0) t_.keep_at_root(sh_.row->producer, pack_row_, 1);
  }

  // Weights, or what is made of them alone: computed and packed once.
  bool is_constant(const Access& a) const {
    return a.tensor.op()->is_constant() || dag_.info(a.producer).preparable;
  }

  // Copies operand `a` into tiles of `tile` along `dim`: [dim/tile][the others...][dim%tile].
  // `squares`: the tile is whole vectors.
  void pack(const Access& a, int dim, Param tile, StageRef reader, bool squares) {
    StageRef p = t_.stage(a.producer).cache_read({reader});
    std::vector<StageRef::StorageDim> dims{{dim, tile, 0}};
    for (int d = 0; d < p.num_axes(); ++d) {
      if (d != dim) dims.push_back({d, 1, 0});
    }
    dims.push_back({dim, 1, tile});
    p.layout(dims);
    auto [to, ti] = p.split(p.axis(dim), tile);
    std::vector<Loop> order{to};
    for (int d = 0; d < p.num_axes(); ++d) {
      if (d != dim) order.push_back(p.axis(d));
    }
    order.push_back(ti);
    p.reorder(order);
    // A transposition goes by squares, whose rows are whole vectors of the operand.
    const int run = a.tensor.rank() - 1;
    if (squares && run != dim && a.tensor.extent(run) >= lanes_) {
      auto [ro, ri] = p.split(p.axis(run), lanes_);
      auto [vo, vi] = p.split(ti, lanes_);
      *std::find(order.begin(), order.end(), p.axis(run)) = ro;
      order.back() = vo;
      p.reorder({ro, vo, ri, vi});
      p.unroll(ri);
      p.vectorize(vi);
    } else {
      p.vectorize(ti);
    }
    // Not worth waking the threads for a constant, which is packed once.
    if (parallel_ && !is_constant(a)) p.parallel(order.size() > 2 ? p.fuse(to, order[1]) : to);
  }

  void pack_operands(StageRef reader) {
    if (pack_vector_.knob >= 0)
      t_.when(pack_vector_, 1, [&] {
        // (A constant is packed once.)
        const bool squares = !is_constant(*sh_.vector) && sh_.vector->tensor.dtype().bits == 32;
        pack(*sh_.vector, sh_.vector_dim, nr_, reader, squares);
      });
    if (pack_row_.knob >= 0)
      t_.when(pack_row_, 1, [&] { pack(*sh_.row, sh_.row_dim, mr_, reader, false); });
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
  int innermost_reduce() const {
    int last = static_cast<int>(op_.reduce_axes().size()) - 1;
    if (!sh_.row) return last;
    const Axis* c = contiguous_axis(*sh_.row, op_.reduce_axes());
    for (size_t i = 0; c && i < op_.reduce_axes().size(); ++i) {
      if (op_.reduce_axes()[i].same_as(*c) && c->extent() >= 4) last = static_cast<int>(i);
    }
    return last;
  }
  int64_t innermost_reduce_extent() const {
    return op_.reduce_axes()[static_cast<size_t>(innermost_reduce())].extent();
  }

  // The register tile: stage `acc` with all of the reduction inside, its results in registers.
  void register_tile(StageRef acc, int first, StageRef host, Loop micro) {
    std::vector<Loop> order, reduce = acc.all_reduce_axes();
    for (int i = 0; i < acc.num_axes(); ++i) {
      if (i - first != sh_.v && i - first != sh_.m) order.push_back(acc.axis(i));
    }
    const int last = innermost_reduce();
    for (size_t i = 0; i < reduce.size(); ++i) {
      if (static_cast<int>(i) != last) order.push_back(reduce[i]);
    }
    auto [ko, ki] = acc.split(reduce[last], unroll_k_);
    order.push_back(ko);
    order.push_back(ki);
    if (sh_.m >= 0) order.push_back(acc.axis(first + sh_.m));
    auto [vu, vl] = acc.split(acc.axis(first + sh_.v), lanes_);
    order.push_back(vu);
    order.push_back(vl);
    acc.reorder(order);
    acc.unroll(ki);
    if (sh_.m >= 0) acc.unroll(acc.axis(first + sh_.m));
    acc.unroll(vu);
    acc.vectorize(vl);
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
    register_tile(acc, 0, sink, h.micro);
    pack_operands(acc);
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
    register_tile(rf, 1, main, h.micro);
    pack_operands(rf);
  }

  void parts() {
    StageRef main = t_.stage(g_.main);
    StageRef rf = main.rfactor(main.reduce_axis(longest_), k_part_, false);
    StageRef acc = rf.cache_write();
    HostLoops h = host_loops(rf, 1);
    rf.parallel(h.outer);
    register_tile(acc, 1, rf, h.micro);
    pack_operands(acc);
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
  Param mr_, nr_, unroll_k_, row_block_, col_block_, other_block_, mode_, k_block_, k_part_,
      pack_vector_, pack_row_;
  std::vector<int64_t> modes_;
  std::string mode_reason_;
  bool parallel_ = false;
  int longest_ = 0;
};

void build(TemplateBuilder& t, const StageGroup& g) { Writer(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"complex_reduction", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
