// The parts of stages that the statements inside of one loop read, as intervals of the variables of
// the loops that are open: what a stage that is computed there computes.
//
//   for i0 in 0..n/4 {
//     A[4*i0 .. 4*i0 + 5] = ..                       what B reads, from the first i1 to the last
//     for i1 in 0..4 { B[4*i0 + i1] = A[4*i0 + i1] + A[4*i0 + i1 + 2] }
//   }
//
// In: who reads what (StageGraph), and what is known of the axes around (AxisScope). Out: a Region
// for each stage, which contains all that is read, through any number of stages between, and lies
// inside of the stage, but for dimensions that are marked. It emits nothing. The axes and loops
// that are open are the same after a query as before.
#pragma once

#include <map>
#include <vector>

#include "lower/nest/axis_scope.h"
#include "lower/nest/sym_interval.h"

namespace heddle::lowering {

/// A part of a stage, by dimension.
struct Region {
  std::vector<SymInterval> dims;
  uint64_t beyond = 0;  ///< the dimensions (bits) that go beyond their axis
};

/// Of loop `n` of stage `host`, which is open.
class Regions {
 public:
  Regions(const StageGraph& graph, AxisScope& axes, int host, size_t n)
      : graph_(graph), s_(graph.state()), axes_(axes), host_(host), n_(n) {}

  int host() const { return host_; }
  size_t loop() const { return n_; }
  const AxisScope& axes() const { return axes_; }
  /// The part of stage `p` that all statements inside of the loop read. A User error where none
  /// does, and where one outside of the loop does.
  const Region& of(int p);
  /// The intervals of the variables of stage `reader`.
  SymEnv env(int reader);

 private:
  Region find(int p);
  void add_reads(int p, int reader, Region* region, bool* any);
  // Cuts the region to the stage.
  void bound(int p, Region* region);
  bool read_beyond(int p);
  SymEnv host_env();
  // The extent of a reduce axis may depend on spatial axes (the last block of an rfactor).
  SymInterval reduce_interval(int a, const SymInterval& i, const SymEnv& env) const;

  const StageGraph& graph_;
  const ScheduleState& s_;
  AxisScope& axes_;
  const int host_;
  const size_t n_;
  std::map<int, Region> known_;
};

}  // namespace heddle::lowering
