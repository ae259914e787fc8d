// The buffers that hold the parts of stages which are computed at a place of a nest.
//
//   for i0 {                     make(A, {4*i0}, {6}): A is held from element 4*i0 on
//     local A: f32[6]
//     A[..] = ..                 element 4*i0 + k of stage A is at indices(A, {4*i0 + k}) = {k}
//
// In: the buffers that exist already, and the part of a stage that is held. Out: buffers, and where
// an element of a stage is in them. The parts of a stage's buffers have constant extents wherever
// these are bounded.
#pragma once

#include <utility>
#include <vector>

#include "lower/nest/axis_scope.h"
#include "lower/nest/build_nest.h"

namespace heddle::lowering {

class Storage {
 public:
  Storage(const StageGraph& graph, const AxisScope& axes,
          const std::vector<StageBuffers>& external);
  /// Holds `extents` elements of stage `st` from `mins` on, in new buffers.
  const std::vector<Buffer>& make(int st, const std::vector<Expr>& mins,
                                  const std::vector<Expr>& extents, Scope scope);
  bool holds(int st) const { return !held(st).buffers.empty(); }
  /// One for each output of the stage.
  const std::vector<Buffer>& buffers(int st) const { return held(st).buffers; }
  /// Where the element `logical` of the stage is in its buffers.
  std::vector<Expr> indices(int st, const std::vector<Expr>& logical) const;

  /// At its end, stages are held where they were at its beginning.
  class Restored {
   public:
    explicit Restored(Storage& of) : of_(of), changed_(of.changed_.size()) {}
    ~Restored();
    Restored(const Restored&) = delete;
    Restored& operator=(const Restored&) = delete;

   private:
    Storage& of_;
    const size_t changed_;
  };

 private:
  struct Held {
    std::vector<Buffer> buffers;
    std::vector<Expr> mins;
  };
  const Held& held(int st) const { return held_[static_cast<size_t>(st)]; }

  const StageGraph& graph_;
  const AxisScope& axes_;
  std::vector<Held> held_;
  std::vector<std::pair<int, Held>> changed_;  ///< as they were before
};

}  // namespace heddle::lowering
