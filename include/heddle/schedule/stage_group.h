// Groups of stages: what shares a loop nest, and where its other stages may be computed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/schedule/schedule.h"
#include "heddle/target/target.h"

namespace heddle {

/// Stages that one meta-template schedules together: one loop nest at the root.
struct StageGroup {
  int output_stage = -1;  ///< materialised at the root; its loops are the group's
  int anchor = -1;  ///< the reduction computed inside the output stage (may be the output stage
                    ///< itself), or the output stage
  StageClass anchor_class = StageClass::DirectCompute;
  /// non-anchor stages between the anchor and output stage, and producers read by the group alone,
  /// whose place is to be decided (location-tunable stages and reductions computed per row of the
  /// output stage).
  std::vector<int> inlined;  ///< always substituted into their readers
  std::vector<int>
      tunable;  ///< in topological order; scheduled after the output stage, as attached groups
  /// Operands of the anchor that are mere changes of index (transpositions). They are substituted
  /// too, but after the meta-templates have written: a copy packed from one is computed from its
  /// source.
  std::vector<int> operands;
  /// Of the tunable stages, those whose rows are the rows of the anchor, one to one, behind which
  /// there is another product: a block of rows goes through all of them while it is in cache
  /// (attention).
  std::vector<int> chain;
  std::string reason;
  /// An attached group is one tunable stage of another group: it may be computed at any of the
  /// loops that the host offered, outermost first, or at the root.
  struct Place {
    int stage = -1;
    Loop loop;
    std::string label;
    /// The decisions under which the loop exists: (knob, value), all of which must hold.
    std::vector<std::pair<Param, int64_t>> needs = {};
    /// On a GPU: the threads of a block share the innermost axis below the loop, vector by vector
    /// in turn; a stage that does the same keeps its elements in registers. No options: what is
    /// computed there runs in one thread.
    struct Sharing {
      Param threads = {};                 ///< how many,
      std::vector<int64_t> options = {};  ///< of these
      int64_t vector = 1;                 ///< elements at a time
      Param unroll = {};                  ///< vectors under way, where a row is read from memory
      Param resident = {};                ///< 1: the row stays in registers, its loops unrolled
    };
    Sharing sharing = {};
    /// An iteration has all rows of a batch: what is copied for it is copied once.
    bool whole_batch = false;
  };
  /// A loop of an attached reduction that goes over the elements of a row one after the other: a
  /// stage that it reads may be computed there as it is read, and kept for others (store_at).
  struct ReaderLoop {
    int reader = -1;  ///< the reduction,
    int stage = -1;   ///< the stage of its partial results,
    Loop loop;        ///< and a loop of that
    Param location;   ///< where the reduction is computed: the stage must be there too
    /// The decisions under which the loop exists: (knob, value), all of which must hold.
    std::vector<std::pair<Param, int64_t>> needs = {};
  };
  /// Of an attached group: where it may be computed like that.
  std::vector<ReaderLoop> reader_loops = {};
  bool attached = false;
  bool in_chain = false;  ///< attached: one of the host's chain
  /// Products of f32 may round their operands to tf32 (AutoSchedulerOptions::allow_tf32).
  bool allow_tf32 = false;
  /// The deepest place (index + 1 into places) that the readers' own default places allow.
  int deepest = 0;
  std::vector<Place> places;
};

/// The groups of a DAG, producers first. Deterministic. Without a target, or with one that is no
/// CPU, no group has a chain.
std::vector<StageGroup> plan_groups(const ComputeDag& dag, const Target* target = nullptr);

/// What the meta-templates that write one group tell each other: the loops that the host offers,
/// and where its attached stages are decided to be.
struct GroupPlaces {
  std::vector<StageGroup::Place> places;  ///< outermost first
  std::vector<StageGroup::ReaderLoop> reader_loops;
  /// The decision where `stage` is computed: -1 inlined, 0 root, n: places[n - 1].
  struct Location {
    int stage = -1;
    Param decision;
  };
  std::vector<Location> locations;
  /// When `knob` has `value`, `stage` must be computed at the root.
  struct KeptAtRoot {
    int stage = -1;
    Param knob;
    int64_t value = 0;
  };
  std::vector<KeptAtRoot> kept;
  std::vector<int> inlined;  ///< stages that are substituted into their readers whatever is decided
};

}  // namespace heddle
