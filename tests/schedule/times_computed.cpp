#include "schedule/times_computed.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "heddle/ir/simplify.h"
#include "schedule/steps/schedule_state.h"

namespace heddle {
namespace {

/// Different reads of any of `buffers` in `bodies`.
std::vector<const Load*> reads_of(const std::vector<Buffer>& buffers,
                                  const std::vector<Expr>& bodies) {
  std::vector<const Load*> found;
  for (const Expr& body : bodies) {
    (void)any_below(body, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (load == nullptr ||
          std::find(buffers.begin(), buffers.end(), load->buffer) == buffers.end())
        return false;
      const bool known = std::any_of(found.begin(), found.end(), [&](const Load* other) {
        return std::equal(load->indices.begin(), load->indices.end(), other->indices.begin(),
                          other->indices.end(),
                          [](const Expr& a, const Expr& b) { return equal(a, b); });
      });
      if (!known) found.push_back(load);
      return false;
    });
  }
  return found;
}

/// The stages that hold what a stage computed before a step moved it to others.
struct Moved {
  int stage = -1;
  std::vector<int> operands;  ///< stages that read in its place; empty: `stage` does
};

/// The final state of a schedule, and what steps made of the stages on the way to it.
class Replay {
 public:
  explicit Replay(const Schedule& schedule) : state(schedule.dag()) {
    for (const Step& step : schedule.steps()) {
      if (step.kind == StepKind::Inline) note_readers(step.stage);
      const std::vector<char> before = defined();
      apply_step(state, step);
      note_moved(step, before);
    }
  }

  /// A read of an inlined stage, at the time when it was inlined.
  struct Read {
    int reader = -1;
    std::vector<int> axes;   ///< of the reader, by which it is indexed
    double evaluations = 0;  ///< of the body, if each element of the reader is computed once
  };
  ScheduleState state;
  std::map<int, std::vector<Read>> reads;  ///< of inlined stages
  std::map<int, Moved> moved;

 private:
  void note_readers(int s) {
    for (const int r : state.readers(s)) {
      const StageState& reader = state.stages[static_cast<size_t>(r)];
      std::vector<int> axes = reader.spatial;
      axes.insert(axes.end(), reader.reduce.begin(), reader.reduce.end());
      double evaluations = 1;
      for (const int a : axes) evaluations *= static_cast<double>(axis(a).static_extent);
      for (const Load* load :
           reads_of(state.stages[static_cast<size_t>(s)].buffers, reader.bodies)) {
        Read read{r, {}, evaluations};
        std::copy_if(axes.begin(), axes.end(), std::back_inserter(read.axes),
                     [&](int a) { return indexed_by(*load, axis(a).var); });
        reads[s].push_back(std::move(read));
      }
    }
  }

  const AxisState& axis(int a) const { return state.axes[static_cast<size_t>(a)]; }
  static bool indexed_by(const Load& load, const Var& var) {
    return std::any_of(load.indices.begin(), load.indices.end(),
                       [&](const Expr& index) { return uses_var(index, var); });
  }

  void note_moved(const Step& step, const std::vector<char>& before) {
    if (step.kind == StepKind::CacheRead || step.results.empty()) return;
    Moved to;
    const std::vector<char> now = defined();
    for (size_t s = 0; s < now.size(); ++s) {
      if (now[s] && (s >= before.size() || !before[s])) to.operands.push_back(static_cast<int>(s));
    }
    if (to.operands.empty()) return;  // the step makes axes
    to.stage = step.results[0];
    if (to.operands.size() == 1) to.operands.clear();
    moved[step.stage] = std::move(to);
  }

  std::vector<char> defined() const {
    std::vector<char> out;
    for (const StageState& s : state.stages) out.push_back(s.defined());
    return out;
  }
};

class Counter {
 public:
  explicit Counter(const Schedule& schedule) : replay_(schedule), state_(replay_.state) {}

  std::vector<double> run() {
    std::vector<double> out;
    for (int s = 0; s < state_.dag.size(); ++s)
      out.push_back(state_.stages[static_cast<size_t>(s)].placeholder ? 0 : times(s));
    return out;
  }

 private:
  using Box = std::vector<Interval>;  ///< of each axis; empty (min > max) where nothing reads

  /// Evaluations of `s` for each of its elements.
  double times(int s) {
    if (const auto known = times_.find(s); known != times_.end()) return known->second;
    const double n = count(s);
    times_[s] = n;
    return n;
  }

  double count(int s) {
    const StageState& st = state_.stages[static_cast<size_t>(s)];
    if (st.placement == Placement::Inlined) return inlined(s);
    if (const auto to = replay_.moved.find(s); to != replay_.moved.end())
      return times(to->second.stage);
    if (st.placement == Placement::Root) return 1;
    double evaluations = runs(st.at_stage, state_.leaf_position(st.at_axis));
    for (const int axis : st.spatial) evaluations *= static_cast<double>(extent(axis));
    return evaluations / points(s);
  }

  double inlined(int s) {
    double evaluations = 0;
    for (const Replay::Read& r : replay_.reads[s])
      evaluations += evaluations_of(r.reader, r.evaluations) / shared(r);
    return evaluations / points(s);
  }

  /// The points of an unrolled or vectorised tile that share one evaluation of a read, because they
  /// differ in axes alone by which it is not indexed.
  double shared(const Replay::Read& read) {
    double points = 1;
    if (replay_.moved.count(read.reader)) return points;
    const std::vector<int>& leaves = state_.stages[static_cast<size_t>(read.reader)].leaves;
    for (auto leaf = leaves.rbegin(); leaf != leaves.rend(); ++leaf) {
      const LoopKind kind = state_.axes[static_cast<size_t>(*leaf)].loop;
      if (kind != LoopKind::Unrolled && kind != LoopKind::Vectorized) break;
      if (!is_of(*leaf, read.axes)) points *= iterations(*leaf);
    }
    return points;
  }

  /// Whether `axis` is a part of one of the root axes `roots`.
  bool is_of(int axis, const std::vector<int>& roots) const {
    const AxisState& a = state_.axes[static_cast<size_t>(axis)];
    switch (a.origin) {
      case AxisOrigin::Fused: return is_of(a.fuse_a, roots) || is_of(a.fuse_b, roots);
      case AxisOrigin::SplitOuter:
      case AxisOrigin::SplitInner: return is_of(a.parent, roots);
      case AxisOrigin::Root: break;
    }
    return std::find(roots.begin(), roots.end(), axis) != roots.end();
  }

  /// Evaluations of the body that stage `s` had, whose elements are `once` evaluations.
  double evaluations_of(int s, double once) {
    const auto to = replay_.moved.find(s);
    if (to == replay_.moved.end()) return times(s) * once;
    if (to->second.operands.empty()) return evaluations_of(to->second.stage, once);
    double most = 0;
    for (const int operand : to->second.operands) {
      if (!state_.stages[static_cast<size_t>(operand)].is_reduction())
        most = std::max(most, times(operand) * points(operand));
    }
    return std::min(most, times(to->second.stage) * once);
  }

  double points(int s) const {
    double n = 1;
    for (const int a : state_.stages[static_cast<size_t>(s)].spatial)
      n *= static_cast<double>(state_.axes[static_cast<size_t>(a)].static_extent);
    return n;
  }

  /// The values of an axis where its stage is computed: of a stage at a loop, those that an
  /// iteration of that loop needs.
  int64_t extent(int axis) {
    const AxisState& a = state_.axes[static_cast<size_t>(axis)];
    switch (a.origin) {
      case AxisOrigin::Fused: return extent(a.fuse_a) * extent(a.fuse_b);
      case AxisOrigin::SplitOuter: {
        const int64_t factor = factor_of(a);
        return (extent(a.parent) + factor - 1) / factor;
      }
      case AxisOrigin::SplitInner: return std::min(extent(a.parent), factor_of(a));
      case AxisOrigin::Root: break;
    }
    const StageState& st = state_.stages[static_cast<size_t>(a.stage)];
    const auto d = std::find(st.spatial.begin(), st.spatial.end(), axis) - st.spatial.begin();
    if (st.placement != Placement::At || d == std::ssize(st.spatial)) return a.static_extent;
    const Box& needed = box(a.stage, st.at_stage, state_.leaf_position(st.at_axis));
    return std::clamp<int64_t>(size_of(needed[static_cast<size_t>(d)]), 0, a.static_extent);
  }

  /// Iterations of a loop, those beyond the end of the axis left out.
  double iterations(int axis) {
    const AxisState& a = state_.axes[static_cast<size_t>(axis)];
    switch (a.origin) {
      case AxisOrigin::Root: return static_cast<double>(extent(axis));
      case AxisOrigin::Fused: return iterations(a.fuse_a) * iterations(a.fuse_b);
      case AxisOrigin::SplitOuter:
        return std::max(1.0, iterations(a.parent) / static_cast<double>(factor_of(a)));
      case AxisOrigin::SplitInner:
        return std::min(iterations(a.parent), static_cast<double>(factor_of(a)));
    }
    return 1;
  }
  int64_t factor_of(const AxisState& part) const {
    return state_.axes[static_cast<size_t>(part.parent)].factor;
  }

  /// How often the body of the loop at `position` of `stage` runs.
  double runs(int stage, int position) {
    const StageState& st = state_.stages[static_cast<size_t>(stage)];
    double n = 1;
    for (int p = 0; p <= position; ++p) n *= iterations(st.leaves[static_cast<size_t>(p)]);
    if (st.placement == Placement::At) n *= runs(st.at_stage, state_.leaf_position(st.at_axis));
    return n;
  }

  /// The values that an axis takes while the loops of its stage up to `position` stand still.
  int64_t span(int axis, int position) {
    const AxisState& a = state_.axes[static_cast<size_t>(axis)];
    if (a.split_outer >= 0) {
      const int64_t outer = span(a.split_outer, position), inner = span(a.split_inner, position);
      return std::min(extent(axis), (outer - 1) * a.factor + inner);
    }
    if (a.fused_into >= 0) {
      const AxisState& whole = state_.axes[static_cast<size_t>(a.fused_into)];
      const int64_t all = span(a.fused_into, position),
                    inner = std::max<int64_t>(1, extent(whole.fuse_b));
      return std::min(extent(axis), whole.fuse_b == axis ? all : (all + inner - 1) / inner);
    }
    return state_.leaf_position(axis) > position ? extent(axis) : 1;
  }

  static int64_t size_of(const Interval& i) { return i.max - i.min + 1; }

  /// The elements of `s` that one iteration of the loop at `position` of `host` needs, where the
  /// loops around it are at their first iteration.
  const Box& box(int s, int host, int position) {
    const auto key = std::make_tuple(s, host, position);
    if (const auto known = boxes_.find(key); known != boxes_.end()) return known->second;
    const StageState& st = state_.stages[static_cast<size_t>(s)];
    Box made(st.spatial.size(), Interval{0, -1});
    if (s == host) {
      for (size_t d = 0; d < made.size(); ++d) made[d] = {0, span(st.spatial[d], position) - 1};
    } else {
      for (const int r : state_.readers(s)) add_reads(st, r, host, position, made);
    }
    return boxes_.emplace(key, std::move(made)).first->second;
  }

  /// Makes `made` as large as what reader `r` needs of stage `st`.
  void add_reads(const StageState& st, int r, int host, int position, Box& made) {
    const StageState& reader = state_.stages[static_cast<size_t>(r)];
    Ranges ranges;
    const auto set = [&](int axis, const Interval& values) {
      ranges.set(state_.axes[static_cast<size_t>(axis)].var, values);
    };
    const bool outside = reader.placement == Placement::Root && r != host;
    if (!outside) {
      const Box own = box(r, host, position);
      for (size_t d = 0; d < own.size(); ++d) set(reader.spatial[d], own[d]);
    }
    for (const int k : reader.reduce) {
      const int64_t all = state_.axes[static_cast<size_t>(k)].static_extent;
      set(k, {0, (r == host ? span(k, position) : all) - 1});
    }
    for (const Expr& body : reader.bodies) {
      (void)any_below(body, [&](const Expr& e) {
        const Load* load = e.as<Load>();
        if (load != nullptr &&
            std::find(st.buffers.begin(), st.buffers.end(), load->buffer) != st.buffers.end())
          add_read(st, *load, ranges, made);
        return false;
      });
    }
  }

  /// Indices that cannot be bounded need all elements.
  void add_read(const StageState& st, const Load& load, const Ranges& ranges, Box& made) const {
    for (size_t d = 0; d < made.size(); ++d) {
      const int64_t all = state_.axes[static_cast<size_t>(st.spatial[d])].static_extent;
      Interval i = range_of(load.indices[d], ranges);
      if (!i.bounded()) i = {0, all - 1};
      made[d] = size_of(made[d]) <= 0
                    ? i
                    : Interval{std::min(made[d].min, i.min), std::max(made[d].max, i.max)};
    }
  }

  Replay replay_;
  const ScheduleState& state_;
  std::map<int, double> times_;
  std::map<std::tuple<int, int, int>, Box> boxes_;
};

}  // namespace

std::vector<double> times_computed(const Schedule& schedule) { return Counter(schedule).run(); }

}  // namespace heddle
