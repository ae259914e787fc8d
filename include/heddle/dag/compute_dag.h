// The graph of a declaration: its operations, their reads, and the class of each stage.
//
//   ComputeDag dag({D});
//   for (int s = 0; s < dag.size(); ++s) std::cout << dag.info(s).reason << "\n";
//
// Built on Boost.Graph (hidden). Immutable and safe to share.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/ir/simplify.h"

namespace heddle {

/// The class of a stage. It depends on the access pattern and never on the name of the operator.
enum class StageClass : uint8_t {
  Placeholder,
  DirectCompute,     ///< no reduction, stored in memory: an output, or too expensive to recompute
  LocationTunable,   ///< no reduction, not an output: inlined, at a consumer's loop, or at the root
  SimpleReduction,   ///< a reduction in which no operand element serves several output points
  ComplexReduction,  ///< a reduction whose operands are reused across output points (matmul, conv)
};
/// The name of a class, for messages.
const char* to_string(StageClass c);

/// How the elements of a producer map to those of its consumer, from simplest to most general.
enum class AccessPattern : uint8_t {
  Elementwise,  ///< indices are exactly the consumer's spatial axes in order
  Broadcast,    ///< distinct spatial axes in order, some missing (or constants)
  Injective,    ///< at most one axis in each index, each axis at most once: transpose, slice, pad,
                ///< stride
  Affine,       ///< affine, general: windows (y + r), reductions, reuse
  Opaque,       ///< an index is not affine (gather, floordiv, ...)
};
/// The name of a pattern, for messages.
const char* to_string(AccessPattern p);

/// One read (distinct by buffer and indices) in the bodies of a consumer.
struct Access {
  int producer = -1;  ///< stage index
  Tensor tensor;
  Buffer buffer;  ///< the buffer that is read; in a rewritten body it may belong to no tensor
  std::vector<Expr> indices;
  std::vector<std::optional<Affine>> affine;  ///< per dimension; nullopt where not affine
  AccessPattern pattern = AccessPattern::Opaque;
  bool guarded = false;  ///< only in arms of a select
  /// Positions of the spatial axes of the consumer that the read does not depend on. Every element
  /// is reused along these axes. Axes of extent 1 are left out.
  std::vector<int> reuse_axes;
  /// Spatial axes along which points read overlapping windows (axis + another axis).
  std::vector<int> window_axes;
  /// Whether any index uses axis `a`.
  bool depends_on(const Axis& a) const;
};

/// A reduction that gives each point of an axis the elements before it: one more element for each
/// point.
///
///   sum(select(k <= i % block, x(i - i % block + k), 0), k)
struct ScanInfo {
  int axis = -1;      ///< position of i among the axes of the stage
  int64_t block = 0;  ///< the extent of k: the scan begins anew after this number of points
};

/// The analysis of one stage: its class, its reads and its work.
struct StageInfo {
  StageClass stage_class = StageClass::Placeholder;
  std::string reason;  ///< the reason for the class, as one sentence
  std::vector<Access> reads;
  std::vector<int> producers;  ///< distinct, ascending stage indices
  std::vector<int> consumers;
  bool is_output = false;
  int64_t points = 0;         ///< spatial points
  int64_t reduce_points = 1;  ///< product of the reduce extents
  /// Arithmetic operations of one innermost evaluation, combining included. A multiply-add counts
  /// as 2, a transcendental function as 1, comparisons, casts and index arithmetic as 0.
  double flops_per_point = 0;
  double flops = 0;                      ///< operations of the whole stage
  double transcendentals_per_point = 0;  ///< of these: exp, tanh, erf, pow, sqrt, division, ...
  bool depends_only_on_constants = false;
  /// Whether the stage has reads and all of them are of constant placeholders or of precomputable
  /// stages. At the root such a stage is computed once, by `prepare`, and not at every call.
  bool precomputable = false;
  /// Set for a stage by cases, whose formula differs from point to point of a small tile (a
  /// Winograd transform): the period of the formula along each spatial axis, 1 where it does not
  /// vary. Empty for all other stages. Such a tile is best unrolled.
  std::vector<int64_t> case_periods;
  std::optional<ScanInfo> scan;  ///< set for a scan, whose flops count one element for each point
};

/// The graph of a declaration: its stages in topological order, with their reads, classes and work.
class ComputeDag {
 public:
  /// All operations reachable from `outputs`. Throws a user error on an empty list, a placeholder
  /// as output, or an output named twice.
  explicit ComputeDag(std::vector<Tensor> outputs);
  ~ComputeDag();
  ComputeDag(ComputeDag&&) noexcept;
  ComputeDag& operator=(ComputeDag&&) noexcept;
  ComputeDag(const ComputeDag&);
  ComputeDag& operator=(const ComputeDag&);

  const std::vector<Tensor>& outputs() const;
  /// Stages in a deterministic topological order, producers first, placeholders included.
  int size() const;
  const Operation& stage(int i) const;
  Ref<const Operation> stage_ref(int i) const;
  int index_of(const Operation* op) const;  ///< -1 when not in this graph
  const StageInfo& info(int i) const;
  std::vector<Tensor> placeholders() const;  ///< in order of first use
  /// The placeholders that the declaration names and never reads (Operation::unread). A kernel
  /// accepts them as arguments and does not need them.
  std::vector<Tensor> unread_placeholders() const;

  double total_flops() const;
  /// The least number of bytes that must move: every placeholder read once, every output written
  /// once.
  int64_t compulsory_bytes() const;

  /// A hash that is equal for declarations that compute the same outputs. It is independent of
  /// names of tensors and axes and of the order of creation, and stable across runs and machines.
  /// It covers shapes, types, bodies, the constant flag and the order of the outputs.
  uint64_t structural_hash() const;

  /// A hash that is equal for declarations that differ in extents only, such as matrix products of
  /// all sizes. Numbers that follow from extents (padding, bounds, the divisor of a mean) are left
  /// out too; strides and dilations are not. Each call computes it anew in some microseconds for
  /// each stage.
  uint64_t shape_class() const;
  /// The extents that shape_class leaves out, in the order of stages: the shape of every
  /// placeholder, and the spatial and then the reduce axes of every other stage. 1 where an extent
  /// is symbolic.
  std::vector<int64_t> extents() const;

  /// For a graph that a rewrite made (dag/alternatives.h): the name of the alternative, and the
  /// original graph. Empty and `*this` for an original declaration.
  const std::string& alternative() const;
  const ComputeDag& direct() const;
  /// The tensor of this graph that stands for `t`, an output or a placeholder of direct(). Returns
  /// `t` where there is none.
  Tensor counterpart(const Tensor& t) const;
  /// This graph as the alternative `name` of `direct`, which has the same outputs. `placeholders`:
  /// pairs of a placeholder of `direct` and the one of this graph that replaces it.
  ComputeDag as_alternative(std::string name, const ComputeDag& direct,
                            std::vector<std::pair<Tensor, Tensor>> placeholders = {}) const;

  /// The graph as text: one line for each stage with class, shape, reads and their patterns.
  std::string to_text() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
  /// Set where a rewrite made this graph. It is kept apart from impl_, which does not depend on it.
  struct Origin;
  std::shared_ptr<const Origin> origin_;
};

namespace internal {

/// The reads in `bodies` over `axes` and `reduce_axes`, in the order of appearance. Works on
/// rewritten bodies too. The `producer` fields are -1.
std::vector<Access> analyze_reads(const std::vector<Expr>& bodies, const std::vector<Axis>& axes,
                                  const std::vector<Axis>& reduce_axes);

}  // namespace internal

}  // namespace heddle
