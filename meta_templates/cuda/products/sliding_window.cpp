// clang-format off
// Windows that slide over an image on a GPU: depthwise convolutions, and other sums where no element
// of the filter is read by two channels; pooling. A matrix unit has no use for them, and memory
// bounds them.
//
//   for blocks, threads: vectors of the last axis x tiles of the window's axes
//     window[..] = the part of the image that the tile reads     registers, by vectors
//     acc[..] = 0; for taps, tile: acc += window * filter         unrolled (pooling: no filter)
//     output stage[..] = epilogue(acc)
// clang-format on
//
// Neighbouring threads have neighbouring vectors of the last axis. Each element of the image is
// loaded once by a thread, and again by those of neighbouring tiles, from the caches. A window that
// is too large for the registers is loaded row by row, inside of the loop over its rows. Pooling of
// padded images whose channels are innermost keeps no window: the padding is computed where it is
// read. Knobs: lanes, tile_x and tile_y (points of a thread along the last two axes of the window
// that are no vectors), threads, by_rows (the window row by row).
#include <algorithm>

#include "cuda/common.h"
#include "cuda/products/sliding_window_rule.h"
#include "heddle/dag/operations.h"

namespace heddle::meta {
namespace {

constexpr int64_t kMostTaps = 64, kMostTapsOfRow = 7;

// The image: each output has its own elements of it, which overlap along some axes only. The filter
// depends on fewer axes; pooling has none.
struct Operands {
  const Access *image = nullptr, *filter = nullptr;
};

// Whether some dimension is read by a window that goes along it: a point of the result has several
// neighbouring elements, few of them along the last axis. Lanes share longer rows.
bool pools(const Operation& op, const Access& image) {
  if (image.affine.empty()) return false;
  bool slides = false;
  for (const auto& f : image.affine) {
    const auto uses = [&](const std::vector<Axis>& axes) {
      return std::any_of(axes.begin(), axes.end(),
                         [&](const Axis& a) { return f->coefficient(a.var()) != 0; });
    };
    slides |= uses(op.axes()) && uses(op.reduce_axes());
  }
  const Affine& last = *image.affine.back();
  int64_t taps = 1;
  for (const Axis& a : op.reduce_axes())
    taps += std::abs(last.coefficient(a.var())) * (a.extent() - 1);
  return slides && image.reuse_axes.empty() && last.coefficient(op.axes().back().var()) > 0 &&
         taps <= kMostTapsOfRow;
}

std::optional<Operands> operands_of(const ComputeDag& dag, int stage) {
  const std::vector<Access>& reads = dag.info(stage).reads;
  for (const Access& a : reads) {
    for (const auto& f : a.affine) {
      if (!f) return {};
    }
  }
  if (reads.size() == 1 && pools(dag.stage(stage), reads[0])) return Operands{&reads[0], nullptr};
  if (reads.size() != 2) return {};
  for (const auto& [x, y] : {std::pair{0, 1}, std::pair{1, 0}}) {
    const Access &image = reads[static_cast<size_t>(x)], &filter = reads[static_cast<size_t>(y)];
    if (image.reuse_axes.empty() && !image.window_axes.empty() && !filter.reuse_axes.empty() &&
        filter.window_axes.empty() && image.producer != filter.producer)
      return Operands{&image, &filter};
  }
  return {};
}

// The stage as a window that slides over an image.
class Window {
 public:
  Window(const ComputeDag& dag, const StageGroup& g, const Target& target, Operands operands)
      : operands(operands), op_(dag.stage(g.anchor)) {
    const int last = static_cast<int>(op_.axes().size()) - 1;
    for (const int a : operands.image->window_axes) {
      if (a == last) continue;
      y = x;
      x = a;
    }
    find_problem(dag.info(g.anchor), last);
    const auto is_in = [&](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), operands.image->producer) != list.end();
    };
    // What pads for pooling along other axes is computed where it is read: by vectors, from the
    // caches.
    const bool pads = is_in(g.operands) && !operands.filter && problem.taps_last == 1;
    kept = !pads && !is_in(g.inlined);
    problem.epilogue_flops = epilogue_flops(dag, g);
    problem.gpu = target.gpu;
    problem.has_rows = kept && goes_by_rows() && !problem.fits({.lanes = problem.widest_lanes()});
  }

  Operands operands;
  WindowProblem problem;
  int x = -1, y = -1;  ///< axes of the tile; -1: none
  bool kept = false;   ///< the part of the image that a tile reads is kept in registers

 private:
  int64_t extent(int axis) const {
    return axis < 0 ? 1 : op_.axes()[static_cast<size_t>(axis)].extent();
  }

  void find_problem(const StageInfo& info, int last) {
    problem.points = info.points;
    problem.last = extent(last);
    problem.x = extent(x);
    problem.y = extent(y);
    problem.taps = info.reduce_points;
    find_window(x, &problem.taps_x, &problem.stride_x);
    find_window(y, &problem.taps_y, &problem.stride_y);
    find_window(last, &problem.taps_last, &problem.stride_last);
    problem.pools = !operands.filter;
    problem.element_bytes = operands.image->tensor.dtype().bytes();
  }

  // What is computed of a point after the window, as instructions.
  static double epilogue_flops(const ComputeDag& dag, const StageGroup& g) {
    double sum = 0;
    for (int s = g.anchor + 1; s <= g.output_stage; ++s) {
      if (s != g.output_stage &&
          std::find(g.inlined.begin(), g.inlined.end(), s) == g.inlined.end())
        continue;
      sum += operations_per_point(dag.info(s));
    }
    return sum;
  }

  // The elements of the image that one point reads along `axis`, and their distance from point to
  // point.
  void find_window(int axis, int64_t* taps, int64_t* stride) const {
    if (axis < 0) return;
    for (const auto& f : operands.image->affine) {
      const int64_t step = f->coefficient(op_.axes()[static_cast<size_t>(axis)].var());
      if (step == 0) continue;
      *stride = std::max<int64_t>(*stride, std::abs(step));
      for (const Axis& r : op_.reduce_axes())
        *taps += std::abs(f->coefficient(r.var())) * (r.extent() - 1);
    }
  }

  // Whether the first reduce axis alone goes along the rows of the window.
  bool goes_by_rows() const {
    if (y < 0) return false;
    for (const auto& f : operands.image->affine) {
      const bool of_rows = f->coefficient(op_.axes()[static_cast<size_t>(y)].var()) != 0;
      for (size_t r = 0; r < op_.reduce_axes().size(); ++r) {
        const bool along = f->coefficient(op_.reduce_axes()[r].var()) != 0;
        if (along && of_rows != (r == 0)) return false;
      }
    }
    return true;
  }

  const Operation& op_;
};

std::optional<Window> window_of(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  const std::optional<Operands> operands = operands_of(dag, g.anchor);
  if (!operands) return {};
  Window window(dag, g, target, *operands);
  if (!window.problem.fits({.by_rows = window.problem.has_rows})) return {};
  return window;
}

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  const Operation& op = dag.stage(g.anchor);
  if (!target.is_cuda() || g.attached || !op.is_reduction()) return false;
  return op.axes().size() > 1 && op.bodies()[0].as<Reduce>()->combiner->size() == 1 &&
         dag.info(g.anchor).reduce_points <= kMostTaps && window_of(dag, g, target).has_value();
}

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g)
      : t_(t), g_(g), window_(*window_of(t.dag(), g, t.target())), problem_(window_.problem) {
    window_.problem.constants = t.constants().gpu;
  }

  void write() {
    const Choice choice = t_.decide("cuda_sliding_window", problem_, sliding_window_rule);
    lanes_ = t_.knob("lanes", {1, 2, 4, 8}, choice);
    tile_x_ = t_.knob("tile_x",
                      problem_.pools ? std::vector<int64_t>{1, 2, 3, 4, 5, 8} : powers_of_two(1, 8),
                      choice);
    tile_y_ = t_.knob("tile_y", {1, 2, 4}, choice);
    const Param threads = t_.knob("threads", {64, 128, 256}, choice);
    const Param by_rows = problem_.has_rows ? t_.choice("by_rows", choice) : Param();
    t_.require("the tile of a thread must fit its registers",
               [p = problem_, l = lanes_, x = tile_x_, y = tile_y_, rows = by_rows](const auto& v) {
                 return p.fits({v(l), v(x), v(y), 1, v(rows) != 0});
               });
    t_.require("lanes are whole vectors of the last axis",
               [p = problem_, l = lanes_](const auto& v) { return p.last % v(l) == 0; });
    t_.require("a block has no more threads than it may", [p = problem_, threads](const auto& v) {
      return v(threads) <= most_block_threads(p.gpu);
    });
    StageRef out = t_.stage(g_.output_stage), anchor = t_.stage(g_.anchor);
    StageRef acc = g_.output_stage == g_.anchor ? anchor.cache_write() : anchor;
    std::optional<StageRef> window;
    if (window_.kept) window = t_.stage(window_.operands.image->producer).cache_read({acc});
    const Tile of_out = cut(out);
    std::vector<Loop> order = of_out.outer;
    order.insert(order.end(), of_out.inner.begin(), of_out.inner.end());
    out.reorder(order);
    auto [block, thread] = out.split(out.fuse(of_out.outer), threads);
    out.bind(block, LoopKind::BlockX);
    out.bind(thread, LoopKind::ThreadX);
    finish(out, of_out);
    acc.compute_at(out, thread);
    const Tile of_acc = cut(acc);
    order = of_acc.outer;
    for (const Loop r : acc.all_reduce_axes()) order.push_back(r);
    order.insert(order.end(), of_acc.inner.begin(), of_acc.inner.end());
    acc.reorder(order);
    for (const Loop r : acc.all_reduce_axes()) acc.unroll(r);
    finish(acc, of_acc);
    if (!window) return;
    if (problem_.has_rows) {
      t_.when(by_rows, 0, [&] { window->compute_at(out, thread); });
      t_.when(by_rows, 1, [&] { window->compute_at(acc, acc.all_reduce_axes().front()); });
    } else {
      window->compute_at(out, thread);
    }
    load(*window);
  }

 private:
  struct Tile {
    std::vector<Loop> outer, inner;  // the last loop of `inner` is that of the lanes
  };
  Tile cut(StageRef s) const {
    Tile tile;
    std::vector<Loop> inner;
    const int last = s.num_axes() - 1;
    for (int a = 0; a < last; ++a) {
      if (a != window_.x && a != window_.y) {
        tile.outer.push_back(s.axis(a));
        continue;
      }
      auto [o, i] =
          s.split(s.axis(a), a == window_.x ? tile_x_ : tile_y_, TailStrategy::PredicateStores);
      tile.outer.push_back(o);
      tile.inner.push_back(i);
    }
    auto [o, lane] = s.split(s.axis(last), lanes_, TailStrategy::PredicateStores);
    tile.outer.push_back(o);
    tile.inner.push_back(lane);
    return tile;
  }
  static void finish(StageRef s, const Tile& tile) {
    for (size_t i = 0; i + 1 < tile.inner.size(); ++i) s.unroll(tile.inner[i]);
    s.vectorize(tile.inner.back());
  }

  // Loads the window: vectors along its last dimension where points of a vector read whole vectors
  // of it.
  void load(StageRef window) const {
    const int last = window.num_axes() - 1;
    for (int a = 0; a < last; ++a) window.unroll(window.axis(a));
    if (problem_.taps_last > 1 || problem_.stride_last > 1) {
      window.unroll(window.axis(last));
      return;
    }
    auto [o, lane] = window.split(window.axis(last), lanes_);
    window.unroll(o);
    window.vectorize(lane);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  Window window_;  // its constants are those of the template
  const WindowProblem& problem_;
  Param lanes_, tile_x_, tile_y_;
};

void build(TemplateBuilder& t, const StageGroup& g) { Recipe(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"cuda_sliding_window", 2, matches, build});

}  // namespace
}  // namespace heddle::meta
