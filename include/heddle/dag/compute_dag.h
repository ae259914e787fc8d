// The graph of a declaration: operations, who reads whom and how, and the class of each stage.
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

/// By access pattern, never by the operator's name.
enum class StageClass : uint8_t {
  Placeholder,
  DirectCompute,     ///< no reduction, materialised: a DAG output, or too dear to recompute
  LocationTunable,   ///< no reduction, not an output: inlined, at a consumer's loop, or at the root
  SimpleReduction,   ///< a reduction in which no operand element serves several output points
  ComplexReduction,  ///< a reduction whose operands are reused across output points (matmul, conv)
};
const char* to_string(StageClass c);

/// How the elements of a producer map to those of its consumer, from simplest to most general.
enum class AccessPattern : uint8_t {
  Elementwise,  ///< indices are exactly the consumer's spatial axes in order
  Broadcast,    ///< distinct spatial axes in order, some missing (or constants)
  Injective,    ///< an axis at most an index, no axis twice: transpose, slice, pad, stride
  Affine,       ///< affine, general: windows (y + r), reductions, reuse
  Opaque,       ///< an index is not affine (gather, floordiv, ...)
};
const char* to_string(AccessPattern p);

/// One read (distinct by buffer and indices) in the bodies of a consumer.
struct Access {
  int producer = -1;  ///< stage index
  Tensor tensor;
  Buffer buffer;  ///< what is read; of a rewritten body it may belong to no tensor
  std::vector<Expr> indices;
  std::vector<std::optional<Affine>> affine;  ///< per dimension; nullopt where not affine
  AccessPattern pattern = AccessPattern::Opaque;
  bool guarded = false;  ///< only in arms of a select
  /// Spatial axes of the consumer (positions) the read does not depend on: along these every
  /// element read is reused. Extent-1 axes are left out.
  std::vector<int> reuse_axes;
  /// Spatial axes along which points read overlapping windows (axis + another axis).
  std::vector<int> window_axes;
  /// Whether any index uses axis `a`.
  bool depends_on(const Axis& a) const;
};

/// A reduction that gives every point of an axis what is before it: in order, one more element a
/// point.
///
///   sum(select(k <= i % block, x(i - i % block + k), 0), k)
struct ScanInfo {
  int axis = -1;      ///< of the stage: the position of i
  int64_t block = 0;  ///< the extent of k; i begins anew after so many points
};

struct StageInfo {
  StageClass stage_class = StageClass::Placeholder;
  std::string reason;  ///< one sentence for people
  std::vector<Access> reads;
  std::vector<int> producers;  ///< distinct, ascending stage indices
  std::vector<int> consumers;
  bool is_output = false;
  int64_t points = 0;         ///< spatial points
  int64_t reduce_points = 1;  ///< product of the reduce extents
  /// Arithmetic of one innermost evaluation, combining included: a multiply-add is 2, exp and
  /// friends are 1, comparisons, casts and index arithmetic 0.
  double flops_per_point = 0;
  double flops = 0;                      ///< of the whole stage
  double transcendentals_per_point = 0;  ///< of which slow (exp, tanh, erf, pow, sqrt, division...)
  bool depends_only_on_constants = false;
  /// It reads something, and nothing but constant placeholders or such stages: at the root, it is
  /// computed once (`lower` puts it into `prepare`) and not at every call.
  bool precomputable = false;
  /// Of a stage by cases, whose formula differs from point to point of a small tile (a transform of
  /// Winograd's): after how many steps along each spatial axis it comes again, 1 where it does not
  /// differ. Empty for all others. Such a tile wants to be unrolled.
  std::vector<int64_t> case_periods;
  std::optional<ScanInfo> scan;  ///< of a scan; its flops are those of one element a point
};

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
  /// Those that the declaration names and never reads (Operation::unread): a kernel takes them as
  /// arguments where they are listed, and needs none of them.
  std::vector<Tensor> unread_placeholders() const;

  double total_flops() const;
  /// Bytes that must move at least: every placeholder read once, every output written once.
  int64_t compulsory_bytes() const;

  /// Equal for declarations that compute the same thing: independent of tensor and axis names and
  /// of the order of creation; stable across runs and machines. Covers shapes, types, bodies, the
  /// constant flag and the order of the outputs.
  uint64_t structural_hash() const;

  /// Equal for declarations that differ in extents only: matmuls of all sizes. Left out with the
  /// extents are numbers that follow from them (padding, bounds, the divisor of a mean); strides
  /// and dilations count. Computed anew at each call, some microseconds a stage.
  uint64_t shape_class() const;
  /// The shape of every placeholder, the spatial and then the reduce axes of every other stage, in
  /// the order of stages: what shape_class leaves out. 1 where an extent is symbolic.
  std::vector<int64_t> extents() const;

  /// Of a graph that a rewrite made (dag/alternatives.h): which one, and the graph it was made of;
  /// empty and `*this` for a declaration as it was written.
  const std::string& alternative() const;
  const ComputeDag& direct() const;
  /// The tensor of this graph that stands for `t`, an output or a placeholder of direct(); else
  /// `t`.
  Tensor counterpart(const Tensor& t) const;
  /// This graph as the alternative `name` of `direct`, whose outputs its own are. `placeholders`:
  /// those of `direct` that one of this graph stands for.
  ComputeDag as_alternative(std::string name, const ComputeDag& direct,
                            std::vector<std::pair<Tensor, Tensor>> placeholders = {}) const;

  /// The graph as text: a line a stage with class, shape, reads and their patterns.
  std::string to_text() const;
  std::string to_dot() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
  /// Set where a rewrite made this graph. Not part of impl_, which knows nothing of it.
  struct Origin;
  std::shared_ptr<const Origin> origin_;
};

/// The reads in `bodies` over `axes`/`reduce_axes`, as for a stage (used on rewritten bodies too).
/// `producer` fields are left -1; in the order of appearance.
std::vector<Access> analyze_reads(const std::vector<Expr>& bodies, const std::vector<Axis>& axes,
                                  const std::vector<Axis>& reduce_axes);

}  // namespace heddle
