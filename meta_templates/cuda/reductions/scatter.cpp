// clang-format off
// Scatters on a GPU (heddle/dag/scatter.h): a warp owns some rows of the result and goes through all
// sources in their order, so that the last one wins and sums have one order.
//
//   for parts of rows (blockIdx.x, threadIdx.y) {
//     for columns of the warp (threadIdx.x) {
//       for rows of the part { S = 0 }
//       for q { if (p[q] is one of the rows) S[p[q]] += x[q] }       lanes vote on 32 sources at a time
//     }
//   }
//
// Rows are points of the longest axis that places name. Where there are fewer columns than lanes, a warp
// has several parts, and its lanes share parts and columns. Loops whose stores go to places that are data
// are made by lower/passes/scattered_stores.cpp, votes by codegen/cuda/votes.h.
//
// Knobs: rows (of a part), warps (of a block).
//
// Where the order does not matter (cuda_combined_scatter), as for the last of the updates of each element,
// each thread has a source, and combines it with the point in memory by an atomic instruction
// (lower/gpu/threads/combined_stores.cpp). Knob: warps (of a block).
// clang-format on
#include <algorithm>
#include <array>

#include "common/loops.h"
#include "cuda/common.h"
#include "heddle/dag/scatter.h"

namespace heddle::meta {
namespace {

// Warps of a multiprocessor that read all places: more would take longer than what they wait for.
constexpr int64_t kWarpsOfMultiprocessor = 16;
// The same where each lane has places of its own, which are 32 times as many.
constexpr int64_t kWarpsOfOwnPlaces = 8;

// Steps of a warp, for what a source takes of a scatter where it is stored and where it is passed over.
// The first one waits for memory, the other one for a part of a vote.
constexpr double kStored = 1000, kPassed = 4;
// Sources that a multiprocessor compares with points at a time where points search.
constexpr double kComparedAtOnce = 64;

int64_t extent_or(const Operation& op, int d, int64_t unknown) {
  const int64_t* n = as_int(op.axes()[static_cast<size_t>(d)]->extent);
  return n ? *n : unknown;
}

/// How a scatter is shared by warps.
class ScatterPlan {
 public:
  ScatterPlan(const Operation& op, const Gpu& gpu) : op_(op), info_(*find_scatter(op)) {
    rows_ = *std::max_element(info_.axes.begin(), info_.axes.end(),
                              [&](int a, int b) { return extent_of(a) < extent_of(b); });
    // The innermost of the axes without a place is where neighbouring elements are.
    const int last = std::max(info_.columns.empty() ? -1 : info_.columns.back(),
                              info_.others.empty() ? -1 : info_.others.back());
    if (last >= 0 && extent_of(last) >= kWarp) across_ = last;
    if (is_column(across_) && across_ + 1 == std::ssize(op.axes()) &&
        as_int(op.axes().back()->extent)) {
      const int64_t most = 16 / op.output(0).dtype().bytes();
      while (2 * vector_ <= most && extent_of(across_) % (2 * vector_ * kWarp) == 0) vector_ *= 2;
      // Idle lanes of the last warp cost less than narrow vectors in all of them.
      if (extent_of(across_) >= most * kWarp) vector_ = whole_vector(extent_of(across_), most);
    }
    int64_t lanes = 1;
    for (const auto* list : {&info_.columns, &info_.others}) {
      for (const int d : *list)
        lanes *= d == across_ ? ceil_div(extent_of(d), vector_ * kWarp) * kWarp : extent_of(d);
    }
    const int64_t parts = ceil_div(
        gpu.sms * (info_.others.empty() ? kWarpsOfMultiprocessor : kWarpsOfOwnPlaces) * kWarp,
        lanes);
    // A part of a single row would compare it with each source.
    rows_of_part_ =
        std::min(extent_of(rows_), std::max<int64_t>(2, ceil_div(extent_of(rows_), parts)));
    parts_of_warp_ = across_ < 0 ? ceil_div(kWarp, lanes) : 1;
  }

  /// Whether it takes less time than a search by each point, of as many sources.
  bool pays(double sources, double points, const Gpu& gpu) const {
    const double own = static_cast<double>(rows_of_part_ * parts_of_warp_);
    const double stored = sources * std::min(1.0, own / static_cast<double>(extent_of(rows_)));
    return stored * kStored + sources * kPassed <= kStored * kFewStores ||
           stored * kStored + sources * kPassed <= points * sources / (gpu.sms * kComparedAtOnce);
  }

  const ScatterInfo& info() const { return info_; }
  int rows() const { return rows_; }
  /// The axis whose vectors are for whole warps; -1 where none has enough.
  int across() const { return across_; }
  int64_t vector() const { return vector_; }
  int64_t extent_of_rows() const { return extent_of(rows_); }
  int64_t rows_of_part() const { return rows_of_part_; }

 private:
  static constexpr double kFewStores = 64;
  static constexpr int64_t kUnknown = 4096;

  int64_t extent_of(int d) const { return extent_or(op_, d, kUnknown); }
  bool is_column(int d) const {
    return std::find(info_.columns.begin(), info_.columns.end(), d) != info_.columns.end();
  }

  const Operation& op_;
  const ScatterInfo info_;
  int rows_ = 0, across_ = -1;
  int64_t vector_ = 1, rows_of_part_ = 1, parts_of_warp_ = 1;
};

// Sources through which a warp goes in less time than a second kernel takes to begin. (H200: 4,096 take 16 us.)
constexpr int64_t kFewSources = 1024;
// Sources of one element, one after the other, that take as long as all others.
constexpr int64_t kSourcesOfElement = 64;

/// Whether threads of all blocks store the sources of a scatter, in any order: where each column has places
/// of its own, which no vote is about, or where there are many.
bool is_combined(const ComputeDag& dag, int stage) {
  const Operation& op = dag.stage(stage);
  if (!combines_in_any_order(op.bodies()[0])) return false;
  const ScatterInfo info = *find_scatter(op);
  int64_t points = 1, sources = 1;
  for (const Axis& a : op.axes()) {
    if (!as_int(a->extent)) return false;
  }
  for (const Axis& q : op.reduce_axes()) {
    if (!as_int(q->extent)) return false;
    sources *= q.extent();
  }
  for (const int d : info.axes) points *= op.axes()[static_cast<size_t>(d)].extent();
  return (!info.others.empty() || sources > kFewSources) && sources <= points * kSourcesOfElement;
}

bool matches_combined(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.is_cuda() && g.anchor == g.output_stage && find_scatter(dag.stage(g.anchor)) &&
         is_combined(dag, g.anchor);
}

//   for sources (blockIdx.x, threadIdx.y) { for columns (blockIdx.y, threadIdx.x) {
//     for points { S = combined(S, select(p[q] == point, x[q], identity)) }
//   } }
void build_combined(TemplateBuilder& t, const StageGroup& g) {
  const Operation& op = t.dag().stage(g.anchor);
  const ScatterInfo info = *find_scatter(op);
  StageRef s = t.stage(g.anchor);
  const std::vector<Loop> axes = s.all_axes(), sources = s.all_reduce_axes();
  std::vector<Loop> columns, points;
  int64_t width = 1;
  for (const auto* list : {&info.others, &info.columns}) {
    for (const int d : *list) {
      columns.push_back(axes[static_cast<size_t>(d)]);
      width *= op.axes()[static_cast<size_t>(d)].extent();
    }
  }
  for (const int d : info.axes) points.push_back(axes[static_cast<size_t>(d)]);
  const Param warps = t.knob("warps", powers_of_two(1, 16), 8, "of a block");
  s.reorder(joined(joined(sources, columns), points));
  const Loop all = s.fuse(sources);
  if (width < kWarp) {
    auto [others, lane] = s.split(all, kWarp);
    auto [block, warp] = s.split(others, warps);
    s.bind(block, LoopKind::BlockX);
    s.bind(warp, LoopKind::ThreadY);
    s.bind(lane, LoopKind::ThreadX);
    return;
  }
  // Neighbouring columns are neighbouring elements.
  auto [part, lane] = s.split(s.fuse(columns), kWarp);
  auto [block, warp] = s.split(all, warps);
  s.bind(block, LoopKind::BlockX);
  s.bind(warp, LoopKind::ThreadY);
  s.bind(part, LoopKind::BlockY);
  s.bind(lane, LoopKind::ThreadX);
}

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (!target.is_cuda() || g.anchor != g.output_stage || !find_scatter(dag.stage(g.anchor)))
    return false;
  const StageInfo& info = dag.info(g.anchor);
  return ScatterPlan(dag.stage(g.anchor), target.gpu)
      .pays(static_cast<double>(info.reduce_points), static_cast<double>(info.points), target.gpu);
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const Operation& op = t.dag().stage(g.anchor);
  const ScatterPlan plan(op, t.target().gpu);
  StageRef s = t.stage(g.anchor);
  const std::vector<Loop> axes = s.all_axes(), sources = s.all_reduce_axes();
  const auto axis = [&](int d) { return axes[static_cast<size_t>(d)]; };
  const Param rows = t.split_knob("rows", plan.extent_of_rows(), plan.extent_of_rows(),
                                  plan.rows_of_part(), "of the points that places name");
  const Param warps = t.knob("warps", powers_of_two(1, 8), 4, "of a block");
  auto [part, row] = s.split(axis(plan.rows()), rows);
  std::vector<Loop> outer{part}, points{row}, inner;
  for (const auto* list : {&plan.info().others, &plan.info().columns}) {
    for (const int d : *list) {
      if (d != plan.across()) outer.push_back(axis(d));
    }
  }
  for (const int d : plan.info().axes) {
    if (d != plan.rows()) points.push_back(axis(d));
  }
  std::array<Loop, 2> lanes;  // warps, and the lanes of each
  if (plan.across() < 0) {
    s.reorder(joined(joined(outer, points), sources));
    lanes = s.split(s.fuse(outer), kWarp);
  } else {
    Loop columns = axis(plan.across());
    if (plan.vector() > 1) {
      auto [vectors, lane] = s.split(columns, plan.vector());
      s.vectorize(lane);
      inner.push_back(lane);
      columns = vectors;
    }
    auto [chunk, lane] = s.split(columns, kWarp);
    outer.push_back(chunk);
    s.reorder(joined(joined(outer, {lane}), joined(points, joined(sources, inner))));
    lanes = {s.fuse(outer), lane};
  }
  auto [grid, warp] = s.split(lanes[0], warps);
  s.bind(grid, LoopKind::BlockX);
  s.bind(warp, LoopKind::ThreadY);
  s.bind(lanes[1], LoopKind::ThreadX);
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_scatter", 6, matches, build});
HEDDLE_REGISTER_META_TEMPLATE({"cuda_combined_scatter", 7, matches_combined, build_combined});

}  // namespace
}  // namespace heddle::meta
