// What is known of the axes of stages at one place of a nest, as expressions of the variables of
// the loops that are open there:
//
//   for i0 {          i0 has a value; how far i1 runs is decided: its whole factor, or a part of it
//     for i1 {        i1 has one, and so has i = i0*f + i1; a guard where that may be outside of i
//       body
//     }               i1, i and the guard are forgotten
//   }
//
// In: the part of a stage that is computed (`enter`), then its loops as they open, outermost first
// (`bind`), and how far inner loops run (`run_part`). Out: extents, values and intervals of axes,
// guards, and what replaces the variables of bodies. It emits nothing and knows no buffers.
//
// Invariants:
// - An axis has a value exactly where all loops that it became are open, and the variable of a root
//   axis is replaced from then on.
// - An extent that was asked for stays the same to the end of the scope in which it was.
// - All that became known in a scope (`Known`) is forgotten at its end. The parts of stages stay
//   until the stage is entered again.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lower/nest/open_loops.h"
#include "lower/nest/stage_graph.h"
#include "lower/nest/sym_interval.h"

namespace heddle::lowering {

class AxisScope {
 public:
  struct Axis {
    Expr extent;  ///< null: not asked for yet
    Expr value;   ///< null: some of its loops are not open
    Expr begin;   ///< of an inner axis that runs over a part of its factor: the first iteration;
                  ///< null: 0
    bool full =
        false;  ///< an inner axis that runs over its whole factor, wherever the outer one is
    bool beyond =
        false;  ///< an inner axis of whole vectors, the last of which goes beyond the axis
    bool known() const { return value.defined(); }
  };
  /// The part of a stage that is computed.
  struct Part {
    std::vector<Expr> mins;  ///< the first element along each dimension
    uint64_t beyond = 0;     ///< the dimensions (bits) that go beyond their axis
    /// Of a stage that follows a loop: the part that its accumulators hold.
    std::vector<SymInterval> held = {};
  };
  class Known;

  AxisScope(const StageGraph& graph, bool plain_accesses);

  // ---- what becomes known ----
  /// The loops of stage `st` start, for the elements from `mins` on. None of its axes has a value.
  void enter(int st, const std::vector<Expr>& mins, const std::vector<Expr>& extents);
  /// Gives loop `id` a value, and derives the values of the axes that it was made from. Returns the
  /// split axes whose inner loops run as far as the value says.
  std::vector<int> bind(int id, const Expr& value);
  /// The axis `id` of another stage runs along the open loop `loop`.
  void run_along(int id, int loop);
  /// The inner loop of `split` runs over `extent` iterations of its factor, from `begin` (null: 0).
  void run_part(const AxisState& split, const Expr& begin, const Expr& extent);
  /// Loop `id` runs from iteration `begin` on.
  void begin_at(int id, const Expr& begin) { change(id).begin = begin; }
  /// The inner loop of `split` goes beyond the axis in place of the iterations after `full` whole
  /// ones.
  void go_beyond(const AxisState& split, const Expr& full);
  /// The inner loop of `split` runs over what comes after `full` whole iterations.
  void come_after(const AxisState& split, const Expr& full) {
    change(split.split_outer).value = full;
  }
  void set_beyond(int st, uint64_t dims) { parts_[static_cast<size_t>(st)].beyond = dims; }
  void hold(int st, std::vector<SymInterval> dims) {
    parts_[static_cast<size_t>(st)].held = std::move(dims);
  }

  // ---- what is known ----
  OpenLoops& loops() { return loops_; }
  const OpenLoops& loops() const { return loops_; }
  const Axis& axis(int id) const { return axes_[static_cast<size_t>(id)]; }
  const Part& part(int st) const { return parts_[static_cast<size_t>(st)]; }
  /// Conditions under which the iteration is one of the stage.
  const std::vector<Expr>& guards() const { return guards_; }
  /// Whether a loop that goes beyond its axis is open.
  bool any_beyond() const { return beyond_open_ > 0; }
  /// The number of iterations of axis `id`.
  Expr extent(int id);
  /// The iterations of axis `id`, where its loops that are not open yet range over all of theirs.
  SymInterval interval(int id);
  /// Whether a loop made from axis `id` is open.
  bool open(int id) const;
  /// Whether the length of axis `id` depends on symbolic sizes.
  bool is_sized(int id) const;
  /// Whether every run of the inner loop of split axis `id` has all iterations of its factor. On a
  /// GPU, tiles of an axis of symbolic length are whole, because threads, registers and shared
  /// memory have constant sizes. Elements beyond the axis are not stored at the root, and are
  /// computed from zeros elsewhere.
  bool is_whole(int id) const { return whole_[static_cast<size_t>(id)] != 0; }
  /// Iterations of a loop from `begin` (null: 0) on.
  struct Iterations {
    Expr begin, extent;
  };
  /// Those of the iterations `all` of `loop` that any point of the part of stage `st` needs: fewer where
  /// it is the first reduce axis, or counts the outermost parts of that.
  Iterations needed(int st, int loop, const Expr& all);

  // ---- bodies' variables ----
  /// The value of the variable of root axis `id`, which all loops around a body have given one.
  const Expr& index(int id) const;
  /// What replaces the node `e` of an expression of stage `st`: a variable by its value, and
  /// axis / n or axis % n, where the axis was split by n, by the loop that it is, whatever guard
  /// keeps that inside of the axis. Null where the node stays.
  Expr replacement(const Expr& e, int st) const;

 private:
  Axis& change(int id) {
    changed_axes_.emplace_back(id, axes_[static_cast<size_t>(id)]);
    return axes_[static_cast<size_t>(id)];
  }
  void bind(int id, const Expr& value, std::vector<int>* pending);
  void bind_root(int id);
  void bind_half(int id, std::vector<int>* pending);
  void bind_split(int id, std::vector<int>* pending);
  Expr root_extent(const AxisState& a) const;
  /// Every run of the inner loop of a split has all iterations of its factor.
  void run_whole(int inner);
  Expr outer_part(const AxisState& fused, const Expr& at);
  Expr split_part(const Expr& e, int st) const;

  const StageGraph& graph_;
  const ScheduleState& s_;
  OpenLoops loops_;
  std::vector<char> whole_;  ///< is_whole of each axis
  std::vector<Axis> axes_;
  std::vector<Part> parts_;
  std::unordered_map<const VarNode*, Expr> bound_;  ///< the value of each root variable
  std::vector<Expr> guards_;
  int beyond_open_ = 0;
  std::vector<std::pair<int, Axis>> changed_axes_;             ///< as they were before
  std::vector<std::pair<const VarNode*, Expr>> changed_vars_;  ///< likewise; null: not bound
};

/// A scope: at its end, all that became known since its beginning is forgotten.
class AxisScope::Known {
 public:
  explicit Known(AxisScope& of)
      : of_(of),
        loops_(of.loops_),
        axes_(of.changed_axes_.size()),
        vars_(of.changed_vars_.size()),
        guards_(of.guards_.size()),
        beyond_open_(of.beyond_open_) {}
  ~Known();
  Known(const Known&) = delete;
  Known& operator=(const Known&) = delete;

 private:
  AxisScope& of_;
  const OpenLoops::Scope loops_;
  const size_t axes_, vars_, guards_;
  const int beyond_open_;
};

}  // namespace heddle::lowering
