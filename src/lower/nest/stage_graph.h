// What is fixed while nests are built: the stages in the order in which they are computed, who
// reads whom, and which loops run inside of which. Nothing changes it after it is made; it knows of
// no extents and emits nothing. Of
//
//   for i0 { A = ..; for i1 { B = A ..; C = B .. } }     A is computed at i0 of C, B at i1
//
// the order is A, B, C, the readers of A are {B}, and both A and B run inside of loop 0 of C.
#pragma once

#include <unordered_map>
#include <vector>

#include "schedule/steps/schedule_state.h"

namespace heddle::lowering {

/// Loop `n` of `leaves`, which are all loops of a stage or those around one of its statements.
struct LoopPlace {
  int stage;
  const std::vector<int>& leaves;
  size_t n;
  int axis() const { return leaves[n]; }
};

class StageGraph {
 public:
  explicit StageGraph(const ScheduleState& s);
  const ScheduleState& state() const { return s_; }
  const StageState& stage(int st) const { return s_.stages[static_cast<size_t>(st)]; }
  /// Whether some loop is bound to blocks or threads.
  bool on_gpu() const { return on_gpu_; }
  /// Producers first.
  const std::vector<int>& order() const { return order_; }
  const std::vector<int>& readers(int st) const { return readers_[static_cast<size_t>(st)]; }
  const std::vector<int>& axes(int st) const { return axes_[static_cast<size_t>(st)]; }
  /// The stage that `buffer` belongs to; -1: none.
  int stage_of(const Buffer& buffer) const;
  /// Whether `st` reads `producer`, itself or through other stages.
  bool depends_on(int st, int producer) const;
  /// Whether the first reduce axis of `p` runs along a loop of `host`.
  bool follows(int p, int host) const;
  /// Whether stage `q` runs inside loop `n` of `host`.
  bool runs_inside(int q, int host, size_t n) const;
  /// Whether the results of stage `p` are kept for a loop around all of loop `n` of `host`.
  bool kept_around(int p, int host, size_t n) const;
  /// The position of the outermost of `leaves` that axis `id` became.
  size_t first_leaf(const std::vector<int>& leaves, int id) const;

 private:
  const ScheduleState& s_;
  const bool on_gpu_;
  std::vector<int> order_;
  std::unordered_map<const BufferNode*, int> stage_of_;
  std::vector<std::vector<int>> readers_, axes_;
};

}  // namespace heddle::lowering
