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
// loaded once by a thread, and again by those of neighbouring tiles, from the caches. Pooling of
// padded images whose channels are innermost keeps no window: the padding is computed where it is
// read. Knobs: lanes, tile_x and tile_y (points of a thread along the last two axes of the window
// that are no vectors), threads.
#include <algorithm>

#include "cuda/common.h"

namespace heddle::meta {
namespace {

constexpr int64_t kMostTaps = 64, kMostTapsOfRow = 7;
// The most accumulators of a thread, elements of its window, and multiply-adds in its text.
constexpr int64_t kMostAccumulators = 64, kMostWindow = 192, kMostSteps = 1024;

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

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  const Operation& op = dag.stage(g.anchor);
  if (!target.is_cuda() || g.attached || !op.is_reduction()) return false;
  return op.axes().size() > 1 && op.bodies()[0].as<Reduce>()->combiner->size() == 1 &&
         dag.info(g.anchor).reduce_points <= kMostTaps && operands_of(dag, g.anchor).has_value();
}

// The facts that the rule uses. An axis of extent 1 stands for one that is absent.
struct Problem {
  int64_t points = 1, last = 1;  ///< of the result; along its last axis
  int64_t x = 1, y = 1;          ///< extents of the axes of the tile
  int64_t taps = 1;
  bool pools = false;                             ///< there is no filter
  int64_t taps_x = 1, taps_y = 1, taps_last = 1;  ///< extents of the window along these axes, and
                                                  ///< along the last one
  int64_t stride_x = 1, stride_y = 1, stride_last = 1;
  Gpu gpu;

  int64_t window(int64_t lanes, int64_t tile_x, int64_t tile_y) const {
    return ((lanes - 1) * stride_last + taps_last) * ((tile_x - 1) * stride_x + taps_x) *
           ((tile_y - 1) * stride_y + taps_y);
  }
  bool fits(int64_t lanes, int64_t tile_x, int64_t tile_y) const {
    const int64_t tile = lanes * tile_x * tile_y;
    return tile <= kMostAccumulators && window(lanes, tile_x, tile_y) <= kMostWindow &&
           tile * taps <= kMostSteps;
  }
  NamedFeatures features() const {
    const auto number = [](int64_t x) { return static_cast<double>(x); };
    return {{"points", number(points)}, {"last", number(last)},   {"x", number(x)},
            {"y", number(y)},           {"taps", number(taps)},   {"taps_last", number(taps_last)},
            {"pools", number(pools)},   {"sms", number(gpu.sms)}, {"stride", number(stride_x)}};
  }
};

// Whole vectors of channels; tiles as long as there are enough threads. Where pooling slides along
// the last axis, neighbouring threads have neighbouring points, and a tile only rows that leave no
// rest: the window of a thread then has constant extents.
Choice rule(const Problem& p) {
  constexpr int64_t kThreads = 128, kThreadsOfSm = 512;
  const bool rows = p.pools && p.taps_last > 1;
  int64_t lanes = rows ? 1 : whole_vector(p.last, p.taps_last > 1 ? 4 : 8), x = 1, y = 1;
  const auto enough = [&](int64_t tile) { return p.points >= tile * kThreadsOfSm * p.gpu.sms; };
  while (lanes > 2 && !enough(lanes)) lanes /= 2;
  for (const int64_t n : {2, 3, 4, 5}) {
    const bool of_x = rows ? p.x % n == 0 : n % 2 == 0, of_y = n == 2 && (!rows || p.y % n == 0);
    if (of_x && n <= p.x && p.fits(lanes, n, y) && enough(lanes * n * y)) x = n;
    if (of_y && n <= p.y && p.fits(lanes, x, n) && enough(lanes * x * n)) y = n;
  }
  return Choice()
      .set("lanes", lanes, "neighbouring points along the last axis, as vectors")
      .set("tile_x", x, "points that share a window in registers, while threads are enough")
      .set("tile_y", y, "rows of points that share a window")
      .set("threads", std::min(kThreads, most_block_threads(p.gpu)), "several blocks to an SM");
}

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g)
      : t_(t), g_(g), op_(t.dag().stage(g.anchor)), operands_(*operands_of(t.dag(), g.anchor)) {
    const int last = static_cast<int>(op_.axes().size()) - 1;
    for (const int a : operands_.image->window_axes) {
      if (a == last) continue;
      y_ = x_;
      x_ = a;
    }
    find_problem(last);
  }

  void write() {
    const Choice choice = t_.decide("cuda_sliding_window", problem_, rule);
    lanes_ = t_.knob("lanes", {1, 2, 4, 8}, choice);
    tile_x_ = t_.knob("tile_x",
                      problem_.pools ? std::vector<int64_t>{1, 2, 3, 4, 5, 8} : powers_of_two(1, 8),
                      choice);
    tile_y_ = t_.knob("tile_y", {1, 2, 4}, choice);
    const Param threads = t_.knob("threads", {64, 128, 256}, choice);
    t_.require("the tile of a thread must fit its registers",
               [p = problem_, l = lanes_, x = tile_x_, y = tile_y_](const auto& v) {
                 return p.fits(v(l), v(x), v(y));
               });
    t_.require("lanes are whole vectors of the last axis",
               [p = problem_, l = lanes_](const auto& v) { return p.last % v(l) == 0; });
    t_.require("a block has no more threads than it may", [p = problem_, threads](const auto& v) {
      return v(threads) <= most_block_threads(p.gpu);
    });
    StageRef out = t_.stage(g_.output_stage), anchor = t_.stage(g_.anchor);
    StageRef acc = g_.output_stage == g_.anchor ? anchor.cache_write() : anchor;
    const int image = operands_.image->producer;
    // What pads for pooling along other axes is computed where it is read: by vectors, from the
    // caches.
    const auto is_in = [&](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), image) != list.end();
    };
    const bool keeps = operands_.filter || !is_in(g_.operands) || problem_.taps_last > 1;
    std::optional<StageRef> window;
    if (keeps && !is_in(g_.inlined)) window = t_.stage(image).cache_read({acc});
    const Tile of_out = cut(out);
    std::vector<Loop> order = of_out.outer;
    order.insert(order.end(), of_out.inner.begin(), of_out.inner.end());
    out.reorder(order);
    auto [block, thread] = out.split(out.fuse(of_out.outer), threads);
    out.bind(block, LoopKind::BlockX);
    out.bind(thread, LoopKind::ThreadX);
    finish(out, of_out);
    acc.compute_at(out, thread);
    if (window) window->compute_at(out, thread);
    const Tile of_acc = cut(acc);
    order = of_acc.outer;
    for (const Loop r : acc.all_reduce_axes()) order.push_back(r);
    order.insert(order.end(), of_acc.inner.begin(), of_acc.inner.end());
    acc.reorder(order);
    for (const Loop r : acc.all_reduce_axes()) acc.unroll(r);
    finish(acc, of_acc);
    if (window) load(*window);
  }

 private:
  void find_problem(int last) {
    const auto extent = [&](int axis) {
      return axis < 0 ? 1 : op_.axes()[static_cast<size_t>(axis)].extent();
    };
    problem_.points = t_.dag().info(g_.anchor).points;
    problem_.last = extent(last);
    problem_.x = extent(x_);
    problem_.y = extent(y_);
    problem_.taps = t_.dag().info(g_.anchor).reduce_points;
    find_window(x_, &problem_.taps_x, &problem_.stride_x);
    find_window(y_, &problem_.taps_y, &problem_.stride_y);
    find_window(last, &problem_.taps_last, &problem_.stride_last);
    problem_.gpu = t_.target().gpu;
    problem_.pools = !operands_.filter;
  }

  // The elements of the image that one point reads along `axis`, and their distance from point to
  // point.
  void find_window(int axis, int64_t* taps, int64_t* stride) const {
    if (axis < 0) return;
    for (const auto& f : operands_.image->affine) {
      const int64_t step = f->coefficient(op_.axes()[static_cast<size_t>(axis)].var());
      if (step == 0) continue;
      *stride = std::max<int64_t>(*stride, std::abs(step));
      for (const Axis& r : op_.reduce_axes())
        *taps += std::abs(f->coefficient(r.var())) * (r.extent() - 1);
    }
  }

  struct Tile {
    std::vector<Loop> outer, inner;  // the last loop of `inner` is that of the lanes
  };
  Tile cut(StageRef s) const {
    Tile tile;
    std::vector<Loop> inner;
    const int last = s.num_axes() - 1;
    for (int a = 0; a < last; ++a) {
      if (a != x_ && a != y_) {
        tile.outer.push_back(s.axis(a));
        continue;
      }
      auto [o, i] = s.split(s.axis(a), a == x_ ? tile_x_ : tile_y_, TailStrategy::PredicateStores);
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
  const Operation& op_;
  const Operands operands_;
  Problem problem_;
  int x_ = -1, y_ = -1;  // axes of the tile; -1: none
  Param lanes_, tile_x_, tile_y_;
};

void build(TemplateBuilder& t, const StageGroup& g) { Recipe(t, g).write(); }

HEDDLE_REGISTER_META_TEMPLATE({"cuda_sliding_window", 2, matches, build});

}  // namespace
}  // namespace heddle::meta
