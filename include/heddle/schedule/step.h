// A schedule as data: a list of steps over stages and axes, each a row of one table.
//
// Stages and axes are named by small integers. The stages of a ComputeDag keep their index; axes
// are numbered stage by stage, spatial before reduce; new stages and axes get the ids in
// `Step::results`. Explicit results keep ids stable when a template leaves steps out.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heddle/support/error.h"

namespace heddle {

/// The kinds of steps. Versions of templates depend on the numbers, so a kind never changes its
/// number. (20 was a split with TailStrategy::PredicateStores.)
enum class StepKind : uint8_t {
  Split,        ///< axes {i} params {factor, tail?} -> results {outer, inner}; tail: TailStrategy,
                ///< Shorten where it is left out
  Fuse,         ///< axes {a, b} -> results {fused}
  Reorder,      ///< axes, outermost first: they take, in this order, the places they hold now
  ComputeAt,    ///< axes {loop of the consumer}: compute where it is needed, inside that loop
  Inline,       ///< substitute into every reader
  CacheWrite,   ///< results {new stage, its axes...}: compute into a private copy first
  CacheRead,    ///< axes {along?}, params {reader stages...}, results {new stage, its axes...}
  Rfactor,      ///< axes {reduce axes..} params {factor, inner?}: see StageRef::rfactor
  Layout,       ///< params {dim, divisor, modulus}...: order of the stage's elements in memory
  Vectorize,    ///< axes {leaf}
  Unroll,       ///< axes {leaf}
  Parallel,     ///< axes {leaf}
  NonTemporal,  ///< the stage's stores bypass the cache
  Prefetch,     ///< params {stage read, dim, distance}: fetch ahead what the stage will read
  Bind,         ///< axes {leaf} params {LoopKind::number}: the loop becomes a block or thread index
  SetScope,     ///< params {Scope}: where a stage that is computed at a loop keeps its result
  StoragePad,   ///< params {elements}: unused elements at the end of each row of the storage
  MultiBuffer,  ///< params {copies}: buffers in shared memory, used in rotation
  Tensorize,    ///< axes {leaf}: from this loop inwards, one `instruction`
  LastBlock,    ///< the stage is computed by the last block to finish of the previous kernel
  Pad = 21,     ///< axes, params {three factors an axis}..., results {new stage, its axes...}: the
                ///< reduction moves to a stage over longer axes
  Widen,        ///< params {type code, bits}: the stage keeps its elements in this wider type
  StoreAt,      ///< axes {loop around the one it is computed at}: keep the result for all of it
  SoftwarePipeline,  ///< axes {leaf}: an iteration may begin before the previous one has ended
  AsProduct,  ///< axes {one a digit}, params {three a digit.., nine factors, two orders}, results
              ///< {sum, its axes.., rows, its axes.., columns, its axes..}: StageRef::as_product
  Expect,     ///< params {Instruction}: what code generation is to make of the stage's stores
  OnlineSoftmax = 27,  ///< params {three factors of rows, keys of a tile[, parts]}, results {stage,
                       ///< its axes..} for each stage of StageRef::OnlineStages in order, and of
                       ///< OnlineParts where there are parts
  ScatterRows = 28,    ///< params {stage of places, rows}: results are rows of a memory at places
                       ///< that are data
};

/// An instruction that code generation recognises in loops. A schedule that is written for one says
/// so (StageRef::expect), so that a failure to recognise it is reported. Numbers are in records and
/// never change.
enum class Instruction : uint8_t {
  DotProduct = 0,        ///< groups of products of narrow types, added by one instruction
  TransposedSquare = 1,  ///< a square of elements, transposed in vector registers
};
/// The name of an instruction, a strategy or a kind of step, as JSON holds it.
const char* to_string(Instruction instruction);

/// The treatment of iterations of a split's inner loop that lie beyond the axis.
enum class TailStrategy : uint8_t {
  Shorten,  ///< the inner loop runs to min(factor, the rest of the axis)
  /// The inner loop always has `factor` iterations, and those beyond the axis leave out the store.
  /// This is for threads, vectors and tiles, whose number of iterations must not vary.
  PredicateStores,
};
const char* to_string(TailStrategy tail);

const char* to_string(StepKind kind);
/// The kind of this name or former name; nullopt where there is none.
std::optional<StepKind> parse_step_kind(const std::string& text);

/// A number in a step: a constant, or the value of a template's knob.
struct Param {
  int64_t value = 0;
  int knob = -1;  ///< index of a knob; -1 for a constant
  Param() = default;
  template <std::integral T>
  Param(T v) : value(static_cast<int64_t>(v)) {}  // NOLINT(google-explicit-constructor)
  static Param of_knob(int k) {
    Param p;
    p.knob = k;
    return p;
  }
  bool is_const() const { return knob < 0; }
};

/// One scheduling step. `results` are the ids of the stages or axes that it makes.
struct Step {
  StepKind kind = StepKind::Split;
  int stage = -1;
  std::vector<int> axes;
  std::vector<Param> params;
  std::vector<int> results;
  Where where;
  std::string instruction = {};  ///< of Tensorize; "": lowering finds out which one
};

}  // namespace heddle
