// The result of applying the steps of a schedule to a DAG: stages with rewritten bodies, axes and
// their derivations, and places. apply_step fills it, and lowering reads it.
#pragma once

#include <string>
#include <vector>

#include "heddle/schedule/schedule.h"

namespace heddle {

enum class AxisOrigin : uint8_t { Root, SplitOuter, SplitInner, Fused };

struct AxisState {
  bool defined = false;
  std::string name;
  AxisKind kind = AxisKind::Spatial;
  int stage = -1;
  AxisOrigin origin = AxisOrigin::Root;
  Var var;      ///< root: what bodies index by
  Expr extent;  ///< root: may use symbolic sizes, and vars of other root axes of the stage (the
                ///< last block of an rfactor)
  int64_t static_extent = 0;  ///< the largest extent the axis can have
  // The result of splitting or fusing it: a split has an outer and an inner axis and a factor, a
  // fusion has a result.
  int split_outer = -1, split_inner = -1, fused_into = -1;
  int64_t factor = 0;
  bool whole = false;  ///< split: every run of the inner loop has `factor` iterations
  // The origin of the axis.
  int parent = -1;               ///< split: the axis that was split
  int fuse_a = -1, fuse_b = -1;  ///< fused: its outer and inner parts
  LoopKind loop = LoopKind::Serial;
  Where consumed_at;
  bool is_leaf() const { return split_outer < 0 && fused_into < 0; }
};

enum class Placement : uint8_t { Root, Inlined, At };

struct StageState {
  std::string name;
  bool placeholder = false, output = false, constant = false;
  std::vector<Buffer> buffers;  ///< one for each output
  std::vector<Expr>
      bodies;  ///< one for each buffer; all are components of one reduction, or none is
  std::vector<int> spatial, reduce;  ///< root axes
  std::vector<int> leaves;           ///< loops, outermost first
  Placement placement = Placement::Root;
  int at_stage = -1, at_axis = -1;
  int store_axis = -1;  ///< the loop around at_axis for which the result is kept; -1: at_axis
  struct LayoutDim {
    int dim = 0;
    int64_t divisor = 1, modulus = 0;
  };
  std::vector<LayoutDim> layout;      ///< empty: row-major
  StoreHint hints = StoreHint::None;  ///< hints of the stores of its results
  Scope scope = Scope::Local;         ///< memory of its result when it is computed at a loop
  int64_t pad = 0;                    ///< unused elements after each row of the storage
  int copies = 1;                     ///< copies of its shared memory
  bool last_block = false;            ///< computed by the last block of the kernel before to finish
  struct PrefetchHint {
    int stage = -1, dim = 0;
    int64_t distance = 0;
  };
  std::vector<PrefetchHint> prefetches;
  /// A reduction that follows another one: its first reduce axis runs along loop `along` of that
  /// stage, at whose place both are. Its value inside of the loop is that of the iterations so far.
  int along = -1;
  /// The factor of the accumulators before each iteration of the first reduce axis; null: 1.
  Expr rescale;
  /// The number of iterations of the first reduce axis that a point needs, which does not decrease
  /// along any axis; null: all.
  Expr reach;
  /// The number of its first iterations that a point does not need, likewise; null: 0.
  Expr skip;
  /// The stage that says to which of `rows` rows of memory each row of the result goes; -1: the result
  /// has its own memory. The first axes are those of that stage.
  int places = -1;
  int64_t rows = 0;
  bool is_reduction() const { return !reduce.empty(); }
  /// Ids of stages that a template's guards left out are never defined.
  bool defined() const { return !buffers.empty(); }
};

struct ScheduleState {
  explicit ScheduleState(ComputeDag d);
  ComputeDag dag;
  std::vector<StageState> stages;
  std::vector<AxisState> axes;

  /// Position of `axis` among the leaves of its stage, or -1.
  int leaf_position(int axis) const;
  /// The loops as text for messages: "parallel i.o 0..16 | j 0..64".
  std::string loops_text(int stage) const;
  /// Stages that read `stage` now, in ascending order.
  std::vector<int> readers(int stage) const;
  /// The stage whose buffer this is, or -1.
  int stage_of(const Buffer& buffer) const;

 private:
  /// The stages among which all readers of `stage` are, in ascending order: those that read it in
  /// the declaration, themselves or through stages that are inlined, and all that steps made.
  std::vector<int> possible_readers(int stage) const;
};

/// The number of axes, parameters and results of a step of this kind; -1: any number.
struct StepArity {
  int axes = 0, params = 0, results = 0;
};
StepArity arity_of(StepKind kind);

/// The tail strategy of a Split.
TailStrategy tail_of(const Step& step);
/// Converts a step whose kind was read under the name `name` to the current form: `split_whole` was
/// a split with TailStrategy::PredicateStores.
void upgrade_step(const std::string& name, Step* step);
/// The step's number and parameters in their first form. The versions of templates are computed
/// from these, so that a renamed step leaves the records of its templates valid.
struct FirstForm {
  uint64_t number = 0;
  size_t params = 0;  ///< number of leading parameters of the step
};
FirstForm first_form(const Step& step);

/// Whether the parts of dimension `dim` cover it exactly once: sorted by divisor they are 1, m0,
/// m0*m1, ..., and the last one is unbounded. Products of moduli are at most `limit`.
bool makes_up_dimension(const std::vector<StageState::LayoutDim>& dims, int dim, int64_t limit);

/// Why loop `axis` of `stage` cannot be bound to the LoopKind of this number; "" where it can.
std::string why_not_bound(const ScheduleState& state, int stage, int axis, int64_t kind);
/// Why `stage` cannot be computed by the last block of the kernel before it; "" where it can.
std::string why_not_by_last_block(const ScheduleState& state, int stage);

/// Applies one concrete step. Throws a User error with the step, its stage and the reason.
void apply_step(ScheduleState& state, const Step& step);
/// The same for the steps that make stages. The checks for all steps have been done.
void apply_stage_step(ScheduleState& state, const Step& step);
/// The same for as_product and online_softmax.
void apply_product_step(ScheduleState& state, const Step& step);
void apply_online_step(ScheduleState& state, const Step& step);

/// The step as text: "C.split(j, 16) -> (j.o, j.i)".
std::string step_to_text(const ScheduleState& state, const Step& step);

}  // namespace heddle
