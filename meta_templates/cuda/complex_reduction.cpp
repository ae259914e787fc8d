// Complex reductions on a GPU: contractions whose operands are reused (matmul, convolution).
//
//   for blocks (blockIdx): a tile of rows x columns (x a few of the other rows)
//     acc[..] = 0                                           each thread a few rows x columns
//     for k in steps of tile_k:                             `stages` tiles of A and B under way
//       A.copy, B.copy = tiles of the operands              shared memory, cp.async
//       for threads: for k (unrolled): acc += A.copy[k][rows] * B.copy[k][columns]
//     epilogue(acc) -> output stage
//
// A thread's rows and columns lie in groups of `group_rows` and 4 that are `threads * group` apart,
// so that the warp's reads of shared memory are 16 bytes wide and free of bank conflicts. mode 0
// reduces at once; 1 computes parts of the reduction in blocks of their own, summed by a second
// kernel (split-K), where there are too few tiles for the SMs.
#include <cmath>

#include "cuda/common.h"
#include "cuda/product_loops.h"
#include "cuda/tensor_core.h"

namespace heddle::meta {
namespace {

constexpr int64_t kVector = 4;  // columns side by side in a thread

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (!target.is_cuda() || g.attached || g.anchor_class != StageClass::ComplexReduction ||
      feeds_tensor_cores(dag, g, target))
    return false;
  const Operation& op = dag.stage(g.anchor);
  return !op.axes().empty() && op.bodies()[0].as<Reduce>()->combiner->size() == 1;
}

// What a block of threads computes, by thread: rows x columns.
struct Tile {
  int64_t group_rows = 4, row_groups = 2, row_threads = 16;
  int64_t col_threads = 16, col_groups = 2;
  int64_t rows() const { return group_rows * row_groups * row_threads; }
  int64_t cols() const { return kVector * col_groups * col_threads; }
  int64_t threads() const { return row_threads * col_threads; }
  int64_t accumulators() const { return group_rows * row_groups * kVector * col_groups; }
};

// Cycles that an SM spends on one step of the reduction of one tile, its multiply-adds, reads of
// shared memory, instructions and traffic from L2 overlapping for the most part. The constants are
// set by hand after a few tiles timed on an H200 (docs/benchmarks.md, "SIMT tiles").
double step_cycles(const Tile& t, const Gpu& gpu) {
  const double rows = static_cast<double>(t.rows()), cols = static_cast<double>(t.cols());
  const double warps = static_cast<double>(t.threads()) / 32;
  const double across = static_cast<double>(std::min<int64_t>(32, t.col_threads));
  // A warp's read of 16 bytes a lane: one pass when all lanes read the same, else two or more.
  auto passes = [](double lanes) { return lanes <= 1 ? 1.0 : std::max(2.0, lanes * 16 / 128); };
  const double row_reads = static_cast<double>(t.row_groups * t.group_rows) / 4,
               col_reads = static_cast<double>(t.col_groups);
  const double fma = rows * cols / gpu.f32_lanes;
  const double shared = warps * (row_reads * passes(32 / across) + col_reads * passes(across));
  const double copies = 3 * (rows + cols / kVector) / 32;
  const double issue = (rows * cols / 32 + warps * (row_reads + col_reads) + copies) / 4;
  const double l2 = (rows + cols) * 4 / 42;  // about 42 bytes a cycle come to an SM
  const double most = std::max({fma, shared, issue, l2});
  return most + 0.25 * (fma + shared + issue + l2 - most);
}

class Writer {
 public:
  Writer(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        g_(g),
        dag_(t.dag()),
        op_(dag_.stage(g.anchor)),
        sh_(contraction_shape(dag_, g.anchor, kVector)),
        view_(several_axes_view(op_)) {
    if (!view_) return;
    sh_.rows = ContractionView::points(view_->rows);
    sh_.cols = ContractionView::points(view_->cols);
    sh_.depth = ContractionView::points(view_->depth);
  }

  void write() {
    choose_tile();
    choose_parts();
    t_.when(mode_, 0, [&] { whole(); });
    if (has_parts_) t_.when(mode_, 1, [&] { parts(); });
  }

 private:
  // The view of a product of matrices some dimension of which is several axes.
  static std::optional<ContractionView> several_axes_view(const Operation& op) {
    // Of fewer than a thread takes, no thread but the first would have any.
    constexpr int64_t kFew = 5;
    std::optional<ContractionView> view =
        op.num_outputs() == 1 ? contraction_view(op) : std::nullopt;
    if (!view) return {};
    bool several = false;
    for (const auto* list : {&view->rows, &view->cols, &view->depth}) {
      several |= std::count_if(list->begin(), list->end(),
                               [](const ViewDigit& d) { return d.extent > 1; }) > 1;
      if (ContractionView::points(*list) < kFew) return {};
    }
    return several ? view : std::nullopt;
  }

  int64_t others() const {
    if (view_) return ContractionView::points(view_->batch);
    int64_t n = 1;
    for (const auto* list : {&sh_.batch, &sh_.m_others, &sh_.v_others}) {
      for (int i : *list) n *= op_.axes()[static_cast<size_t>(i)].extent();
    }
    return n;
  }

  int64_t tiles(const Tile& t) const {
    return ceil_div(sh_.rows, t.rows()) * ceil_div(sh_.cols, t.cols()) * others();
  }

  // Cycles of the whole with tile `t`: as long as the SM with the most blocks takes.
  double cost(const Tile& t, int64_t parts) const {
    const Gpu& gpu = t_.target().gpu;
    const double blocks = static_cast<double>(tiles(t) * parts);
    const int64_t registers = t.threads() * (t.accumulators() + 48);
    const int64_t fit = std::clamp<int64_t>(
        std::min<int64_t>(gpu.threads_per_sm / t.threads(), gpu.registers_per_sm / registers), 1,
        16);
    const double per_sm = blocks / static_cast<double>(gpu.sms);
    const double rounds = per_sm > 16 ? per_sm : std::ceil(per_sm);
    const int64_t resident = std::min<int64_t>(fit, static_cast<int64_t>(std::ceil(per_sm)));
    // Other warps hide the latency of each.
    const double warps = static_cast<double>(t.threads() * resident) / 32;
    const double block = step_cycles(t, gpu) * (1 + 1.5 / warps) *
                         (static_cast<double>(sh_.depth) / static_cast<double>(parts) + 24);
    // The second kernel of a cut reduction reads the parts.
    const double sum = parts > 1
                           ? 3000 + static_cast<double>(sh_.rows * sh_.cols * others() * parts) *
                                        4 / (42.0 * gpu.sms)
                           : 0;
    return rounds * block + sum;
  }

  void choose_tile() {
    Tile best;
    best_parts_ = 1;
    double least = -1;
    for (int64_t group_rows : {4, 2, 1}) {
      for (int64_t row_groups : {1, 2, 4}) {
        for (int64_t row_threads : {1, 2, 4, 8, 16, 32}) {
          for (int64_t col_threads : {4, 8, 16, 32}) {
            for (int64_t col_groups : {1, 2}) {
              Tile t{group_rows, row_groups, row_threads, col_threads, col_groups};
              if (row_groups > 1 && group_rows < 4) continue;
              if (!legal(t)) continue;
              if (t.rows() >= 2 * sh_.rows && t.rows() > 1) continue;
              if (t.cols() >= 2 * sh_.cols && t.col_threads * t.col_groups > 4) continue;
              for (int64_t parts : {1, 2, 4, 8, 16, 32}) {
                if (parts > 1 && sh_.depth / parts < 64) break;
                const double c = cost(t, parts);
                if (least >= 0 && c >= least * 0.999) continue;  // the first of equals
                least = c;
                best = t;
                best_parts_ = parts;
              }
            }
          }
        }
      }
    }
    // A result so small that no tile of a whole warp is of use takes the usual one.
    while (best.threads() > most_block_threads(t_.target().gpu)) best.row_threads /= 2;
    auto knob = [&](const char* name, std::vector<int64_t> values, int64_t chosen,
                    const char* why) { return t_.knob(name, std::move(values), chosen, why); };
    group_rows_ = knob("group_rows", {1, 2, 4}, best.group_rows, "rows side by side in a thread");
    row_groups_ = knob("row_groups", {1, 2, 4}, best.row_groups, "groups of rows of a thread");
    row_threads_ = knob("row_threads", {1, 2, 4, 8, 16, 32}, best.row_threads, "threads down");
    col_threads_ = knob("col_threads", {4, 8, 16, 32, 64}, best.col_threads, "threads across");
    col_groups_ = knob("col_groups", {1, 2, 4}, best.col_groups, "groups of 4 columns of a thread");
    last_reduce_ = innermost_reduce();
    const int64_t depth = depth_of_steps();
    std::vector<int64_t> steps{4, 8, 16, 32};
    std::erase_if(steps, [&](int64_t k) { return k > depth; });
    if (steps.empty()) steps.push_back(depth);
    const int64_t want = best.accumulators() >= 32 ? 16 : 32;
    int64_t step = steps.front();
    for (int64_t k : steps) {
      if (k <= want && (depth % k == 0 || depth % step != 0)) step = k;
    }
    const Gpu gpu = t_.target().gpu;
    const int64_t bytes = view_        ? view_->col_operand.load->dtype.bytes()
                          : sh_.vector ? sh_.vector->tensor.dtype().bytes()
                                       : 4;
    // Of a tile of so many rows and columns, and so many copies of it.
    auto memory_fits = [=](int64_t rows, int64_t cols, int64_t k, int64_t copies) {
      return (rows + 4 + cols + 4) * k * copies * bytes * 5 / 4 <= gpu.smem_per_block;
    };
    int64_t stages = 3;
    while (stages > 1 && !memory_fits(best.rows(), best.cols(), steps.front(), stages)) --stages;
    while (step > steps.front() && !memory_fits(best.rows(), best.cols(), step, stages)) {
      step = *std::prev(std::find(steps.begin(), steps.end(), step));
    }
    tile_k_ = knob("tile_k", steps, step, "one step of the reduction in shared memory");
    stages_ = knob("stages", {1, 2, 3, 4}, stages, "loads ahead of the step at hand");
    Param gr = group_rows_, rg = row_groups_, rt = row_threads_, ct = col_threads_,
          cg = col_groups_, tk = tile_k_, st = stages_;
    t_.require("a block has whole warps, and no more threads than it may", [=](const auto& v) {
      const int64_t n = v(rt) * v(ct);
      return n >= 32 && n <= gpu.threads_per_block && n % 32 == 0;
    });
    t_.require("the accumulators must fit the registers", [=](const auto& v) {
      const int64_t acc = v(gr) * v(rg) * kVector * v(cg);
      return acc <= 160 && (acc + 40) * v(rt) * v(ct) <= gpu.registers_per_sm;
    });
    t_.require("the tiles must fit shared memory", [=](const auto& v) {
      return memory_fits(v(gr) * v(rg) * v(rt), kVector * v(cg) * v(ct), v(tk), v(st));
    });
  }

  bool legal(const Tile& t) const {
    return t.threads() >= 32 &&
           t.threads() <= std::min<int64_t>(512, most_block_threads(t_.target().gpu)) &&
           t.threads() % 32 == 0 && t.accumulators() <= 64 && t.accumulators() >= 2;
  }

  // What is cut into steps.
  int64_t depth_of_steps() const {
    return view_ ? sh_.depth : op_.reduce_axes()[static_cast<size_t>(last_reduce_)].extent();
  }

  // The axis that is cut into steps: along which an operand is contiguous, else the longest.
  int innermost_reduce() const {
    const auto& axes = op_.reduce_axes();
    int longest = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].extent() > axes[static_cast<size_t>(longest)].extent())
        longest = static_cast<int>(i);
    }
    return longest;
  }

  void choose_parts() {
    const int64_t depth = depth_of_steps();
    has_parts_ = op_.bodies()[0].as<Reduce>()->combiner->commutative && depth >= 128;
    const bool chosen = has_parts_ && best_parts_ > 1;
    std::vector<int64_t> modes{0};
    if (has_parts_) modes.push_back(1);
    mode_ = t_.knob("mode", modes, chosen ? 1 : 0,
                    chosen ? "too few tiles for the SMs: parts of the reduction side by side"
                           : "the whole reduction in one block");
    if (!has_parts_) return;
    std::vector<int64_t> lengths;
    for (int64_t parts : {2, 4, 8, 16, 32, 64}) {
      const int64_t n = ceil_div(depth, parts);
      if (n >= 32) lengths.push_back(ceil_div(n, 32) * 32);
    }
    k_part_ = t_.knob("k_part", lengths,
                      std::clamp(ceil_div(ceil_div(depth, best_parts_), 32) * 32, lengths.back(),
                                 lengths.front()),
                      "steps of the reduction in a part");
  }

  struct Loops {
    std::vector<Loop> blocks;  // outermost first: others, row tiles, column tiles
    Loop row_tile, col_tile, other;
    std::vector<Loop> threads, inner;
    Loop vector;
  };

  bool has_rows() const { return view_ || sh_.m >= 0; }

  // The loops over batch (to `blocks`), rows (none: an invalid loop) and columns of stage `s`,
  // which has the axes of the sum behind `first` others, or, `output stage`, those of the
  // declaration.
  std::array<Loop, 2> rows_and_columns(StageRef s, int first, bool output_stage,
                                       std::vector<Loop>* blocks) {
    for (int i = 0; i < first; ++i) blocks->push_back(s.axis(i));
    if (view_ && output_stage) {
      const ProductLoops p = taken_together(s, *view_);
      blocks->insert(blocks->end(), p.batch.begin(), p.batch.end());
      return {p.rows, p.cols};
    }
    if (view_) {
      const int batch = first + static_cast<int>(view_->batch.size());
      for (int i = first; i < batch; ++i) blocks->push_back(s.axis(i));
      return {s.axis(batch), s.axis(batch + 1)};
    }
    for (const auto* list : {&sh_.batch, &sh_.m_others, &sh_.v_others}) {
      for (int i : *list) blocks->push_back(s.axis(first + i));
    }
    return {sh_.m >= 0 ? s.axis(first + sh_.m) : Loop(), s.axis(first + sh_.v)};
  }

  // rows -> (tile, group, thread, in group), columns -> (tile, group, thread, lane)
  Loops tile_loops(StageRef s, int first, bool has_tiles, bool output_stage) {
    Loops l;
    // A viewed sum is one of whole tiles.
    const auto split = [&](Loop loop, Param factor) {
      return s.split(loop, factor, view_ ? TailStrategy::PredicateStores : TailStrategy::Shorten);
    };
    const auto [rows, cols] = rows_and_columns(s, first, output_stage, &l.blocks);
    Loop row_group, row_thread, row_in;
    if (rows.valid()) {
      auto [o, in] = split(rows, group_rows_);
      auto [o2, thread] = split(o, row_threads_);
      row_in = in;
      row_thread = thread;
      row_group = o2;
      if (has_tiles) {
        auto [tile, group] = split(o2, row_groups_);
        l.row_tile = tile;
        row_group = group;
      }
    }
    auto [vo, lane] = split(cols, kVector);
    auto [vo2, col_thread] = split(vo, col_threads_);
    Loop col_group = vo2;
    if (has_tiles) {
      auto [tile, group] = split(vo2, col_groups_);
      l.col_tile = tile;
      col_group = group;
    }
    if (rows.valid()) {
      l.threads.push_back(row_thread);
      l.inner.push_back(row_group);
      l.inner.push_back(row_in);
    }
    l.threads.push_back(col_thread);
    l.inner.push_back(col_group);
    l.vector = lane;
    return l;
  }

  void bind_threads(StageRef s, const Loops& l) {
    if (l.threads.size() == 2) s.bind(l.threads[0], LoopKind::ThreadY);
    s.bind(l.threads.back(), LoopKind::ThreadX);
    for (Loop i : l.inner) s.unroll(i);
    s.vectorize(l.vector);
  }

  // The loops of the stage at the root that a tile of results goes to; returns the innermost block
  // loop.
  Loop host_loops(StageRef s, int first, bool output_stage) {
    Loops l = tile_loops(s, first, true, output_stage);
    std::vector<Loop> order = l.blocks;
    if (l.col_tile.valid()) order.push_back(l.col_tile);
    if (l.row_tile.valid()) order.push_back(l.row_tile);
    order.insert(order.end(), l.threads.begin(), l.threads.end());
    order.insert(order.end(), l.inner.begin(), l.inner.end());
    order.push_back(l.vector);
    s.reorder(order);
    if (!l.blocks.empty()) s.bind(s.fuse(l.blocks), LoopKind::BlockZ);
    s.bind(l.col_tile, LoopKind::BlockY);
    if (l.row_tile.valid()) s.bind(l.row_tile, LoopKind::BlockX);
    bind_threads(s, l);
    return l.row_tile.valid() ? l.row_tile : l.col_tile;
  }

  // The accumulators, in registers, with all of the reduction inside; operands in shared memory.
  void accumulate(StageRef acc, int first, StageRef host, Loop place) {
    Loops l = tile_loops(acc, first, false, false);
    std::vector<Loop> order, reduce = acc.all_reduce_axes();
    for (size_t i = 0; i < reduce.size(); ++i) {
      if (!view_ && static_cast<int>(i) != last_reduce_) order.push_back(reduce[i]);
    }
    auto [ko, ki] = acc.split(reduce[view_ ? 0 : static_cast<size_t>(last_reduce_)], tile_k_);
    order.insert(order.begin(), l.blocks.begin(), l.blocks.end());
    order.push_back(ko);
    order.insert(order.end(), l.threads.begin(), l.threads.end());
    order.push_back(ki);
    order.insert(order.end(), l.inner.begin(), l.inner.end());
    order.push_back(l.vector);
    acc.reorder(order);
    acc.unroll(ki);
    bind_threads(acc, l);
    acc.compute_at(host, place);
    if (view_) {
      share_viewed(view_->row_operand, operands_[0], acc, ko);
      return share_viewed(view_->col_operand, operands_[1], acc, ko);
    }
    // A copy of what both read would have to hold its rows and its columns: caches do that.
    if (sh_.row && sh_.vector && sh_.row->producer == sh_.vector->producer) return;
    for (const Access* a : {sh_.row, sh_.vector}) {
      if (a) share(*a, acc, ko);
    }
  }

  // A tile of operand `a` in shared memory: the dimensions of the reduction outside, so that what
  // threads read side by side lies side by side.
  void share(const Access& a, StageRef acc, Loop at) {
    StageRef p = t_.stage(a.producer).cache_read({acc});
    p.compute_at(acc, at);
    p.set_scope(Scope::Shared);
    p.multi_buffer(stages_);
    std::vector<StageRef::StorageDim> reduce_dims, dims;
    const int rank = p.num_axes();
    bool last_is_reduce = false;
    for (int d = 0; d < rank; ++d) {
      const bool spatial = on_spatial(a, d);
      (spatial ? dims : reduce_dims).push_back({d, 1, 0});
      if (d == rank - 1) last_is_reduce = !spatial;
    }
    const bool transposed = last_is_reduce && !dims.empty();
    if (!reduce_dims.empty() && !dims.empty()) {
      reduce_dims.insert(reduce_dims.end(), dims.begin(), dims.end());
      p.layout(reduce_dims);
    }
    fill(p, transposed, kVector);
  }

  // The same, of the stage of an operand of a viewed sum.
  void share_viewed(const ViewOperand& operand, StageRef p, StageRef acc, Loop at) {
    p.compute_at(acc, at);
    p.set_scope(Scope::Shared);
    p.multi_buffer(stages_);
    const int rank = p.num_axes(), depth = operand.along_depth ? rank - 1 : rank - 2;
    std::vector<StageRef::StorageDim> dims{{depth, 1, 0}};
    for (int d = 0; d < rank; ++d) {
      if (d != depth) dims.push_back({d, 1, 0});
    }
    p.layout(dims);
    fill(p, operand.along_depth, whole_vector(operand.vector, kVector));
  }

  // All threads load, 16 bytes each where source and tile are contiguous alike.
  void fill(StageRef p, bool transposed, int64_t vector) {
    if (transposed) p.storage_pad(4);
    Loop f = p.fuse(p.all_axes());
    if (!transposed) {
      auto [o, v] = p.split(f, vector);
      p.vectorize(v);
      f = o;
    }
    auto [o, x] = p.split(f, col_threads_);
    if (has_rows()) {
      auto [o2, y] = p.split(o, row_threads_);
      p.bind(y, LoopKind::ThreadY);
      p.unroll(o2);
      p.reorder({y, x, o2});
    }
    p.bind(x, LoopKind::ThreadX);
  }

  bool on_spatial(const Access& a, int d) const {
    const auto& f = a.affine[static_cast<size_t>(d)];
    if (!f) return true;
    return std::any_of(op_.axes().begin(), op_.axes().end(),
                       [&](const Axis& x) { return f->coefficient(x.var()) != 0; });
  }

  bool has_epilogue() const { return g_.output_stage != g_.anchor; }

  // The sum as a product of matrices, of whole tiles; its depth is a multiple of `depth`.
  StageRef viewed_sum(Param depth) {
    StageRef anchor = t_.stage(g_.anchor);
    StageRef::ProductView v = product_step(anchor, *view_);
    v.row_multiple = {group_rows_, row_groups_, row_threads_};
    v.col_multiple = {kVector, col_groups_, col_threads_};
    v.depth_multiple = {depth, 1, 1};
    const StageRef::Product made = anchor.as_product(v);
    operands_ = {made.rows, made.cols};
    if (has_epilogue()) anchor.compute_inline();
    return made.sum;
  }

  void whole() {
    StageRef anchor = t_.stage(g_.anchor), output_stage = t_.stage(g_.output_stage);
    StageRef acc = view_ ? viewed_sum(tile_k_) : has_epilogue() ? anchor : anchor.cache_write();
    accumulate(acc, 0, output_stage, host_loops(output_stage, 0, true));
  }

  void parts() {
    StageRef sum = view_ ? viewed_sum(k_part_) : t_.stage(g_.anchor);
    StageRef rf = sum.rfactor(sum.reduce_axis(view_ ? 0 : last_reduce_), k_part_, false);
    StageRef acc = rf.cache_write();
    accumulate(acc, 1, rf, host_loops(rf, 1, false));
    if (view_) return sum_of_parts(t_, g_, sum);
    sum_of_parts(t_, g_);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputeDag& dag_;
  const Operation& op_;
  ContractionShape sh_;
  std::optional<ContractionView> view_;  // where several axes are taken as one; sh_ has its sizes
  std::vector<StageRef> operands_;       // of the viewed sum: of rows, of columns
  Param group_rows_, row_groups_, row_threads_, col_threads_, col_groups_, tile_k_, stages_, mode_,
      k_part_;
  int64_t best_parts_ = 1;
  int last_reduce_ = 0;
  bool has_parts_ = false;
};

void build(TemplateBuilder& t, const StageGroup& g) { Writer(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"cuda_complex_reduction", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
