// Groups of stages that share a loop nest, and the places where attached stages may be computed.
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
  int output_stage = -1;  ///< stored in memory at the root; its loops are the loops of the group
  int anchor = -1;  ///< the reduction computed inside the output stage (may be the output stage
                    ///< itself), or the output stage
  StageClass anchor_class = StageClass::DirectCompute;
  /// The stages between the anchor and the output stage, and producers that only the group reads,
  /// are inlined or tunable. Tunable stages are location-tunable stages, and reductions that are
  /// computed for each row of the output stage.
  std::vector<int> inlined;  ///< always substituted into their readers
  std::vector<int>
      tunable;  ///< in topological order; scheduled after the output stage, as attached groups
  /// Operands of the anchor that only change indices (transpositions), and padding that its windows
  /// slide over. They are inlined after the meta-templates have written their steps, so a copy of
  /// one (packed, or a window in registers) is computed from its source.
  std::vector<int> operands;
  /// The tunable stages whose rows correspond one to one to the rows of the anchor, with another
  /// product among their producers (attention). A block of rows goes through all of them while it
  /// is in a cache.
  std::vector<int> chain;
  /// A product computed in the blocks of another one, with the element-wise stages that follow it.
  /// `last`, the end of these, is among the tunable stages.
  struct Part {
    int product = -1;
    int last = -1;  ///< the product itself where nothing follows it
  };
  /// The products of the chain.
  std::vector<Part> products;
  /// The convolutions before the anchor whose image stays in a cache until the anchor reads it
  /// (a pointwise and a depthwise convolution).
  std::vector<Part> images;
  /// Stages that the anchor's template computes in another form: all stages of a softmax whose
  /// weighted sum is the anchor, on the tensor cores of a GPU (dag/attention.h).
  std::vector<int> fused;
  std::string reason;
  /// An attached group is one tunable stage of another group: it may be computed at any of the
  /// loops that the host offered, outermost first, or at the root.
  struct Place {
    int stage = -1;
    Loop loop;
    std::string label;
    /// The decisions under which the loop exists: (knob, value), all of which must hold.
    std::vector<std::pair<Param, int64_t>> needs = {};
    /// On a GPU the threads of a block share the innermost axis below the loop, one vector after
    /// the other. A stage that is shared in the same way keeps its elements in registers. Without
    /// options, stages computed there run in one thread.
    struct Sharing {
      Param threads = {};                 ///< the knob of the number of threads
      std::vector<int64_t> options = {};  ///< the values of that knob
      int64_t vector = 1;                 ///< elements at a time
      Param unroll = {};                  ///< vectors in flight, where a row is read from memory
      Param resident = {};                ///< 1: the row stays in registers, its loops unrolled
    };
    Sharing sharing = {};
    /// An iteration covers all rows of a batch, so copies in it are made once.
    bool whole_batch = false;
  };
  /// A loop of an attached reduction over the elements of a row. A stage that the reduction reads
  /// may be computed at this loop and kept for other readers (store_at).
  struct ReaderLoop {
    int reader = -1;  ///< the reduction
    int stage = -1;   ///< the stage of its partial results
    Loop loop;        ///< a loop of that stage
    Param location;   ///< where the reduction is computed; the stage must be computed there too
    /// The decisions under which the loop exists: (knob, value), all of which must hold.
    std::vector<std::pair<Param, int64_t>> needs = {};
  };
  /// For an attached group: the loops of readers at which it may be computed.
  std::vector<ReaderLoop> reader_loops = {};
  bool attached = false;
  bool in_chain = false;   ///< for an attached group: it is part of the host's chain
  bool in_images = false;  ///< for an attached group: it is one of the host's images
  /// Products of f32 may round their operands to tf32 (AutoSchedulerOptions::allow_tf32).
  bool allow_tf32 = false;
  /// The deepest place (index + 1 into places) that the readers' own default places allow.
  int deepest = 0;
  std::vector<Place> places;
};

/// Which products are computed in chains on a CPU: all that may gain by it, or those alone for
/// which the sizes of the caches say so.
enum class Chains { Possible, Expected };

/// The groups of a DAG, producers first. The result is deterministic. Only groups for a CPU target
/// have a chain.
std::vector<StageGroup> plan_groups(const ComputeDag& dag, const Target* target = nullptr,
                                    Chains chains = Chains::Possible);

/// Data shared by the meta-templates that write one group: the loops that the host offers, and the
/// places that were decided for its attached stages.
struct GroupPlaces {
  std::vector<StageGroup::Place> places;  ///< outermost first
  std::vector<StageGroup::ReaderLoop> reader_loops;
  /// The knob of the location of `stage`: -1 inlined, 0 root, n: places[n - 1].
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
  std::vector<int> inlined;  ///< stages that are always substituted into their readers
};

}  // namespace heddle
