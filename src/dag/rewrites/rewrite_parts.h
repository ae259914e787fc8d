// Parts that rules for rewriting graphs share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dag/patterns/plain_dimension.h"
#include "heddle/dag/alternatives.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/target/rule_constants.h"
#include "ir/fold.h"

namespace heddle::dag {

/// The constants by which estimates for CPUs judge.
inline const CpuConstants& cpu_constants(const RewriteSite& site) {
  return (site.constants != nullptr ? *site.constants : default_constants()).cpu;
}

/// The same for GPUs. Those of padded products were measured on an H200.
inline const GpuConstants& gpu_constants(const RewriteSite& site) {
  return (site.constants != nullptr ? *site.constants : default_constants()).gpu;
}

/// The position of the longest reduce axis.
std::size_t longest_reduction(const Operation& op);

/// The stage over a range of its longest reduce axis: `length` terms from `begin`, which is a
/// function of the axes of the result. `before` are the extents of axes in front of the stage's.
Tensor part_of_reduction(const Operation& op, const Shape& before, int64_t length,
                         FunctionRef<Expr(const std::vector<Axis>&)> begin, const std::string& name,
                         const std::string& tag);

/// The stage, whose one value has a built-in or other one-component combiner, with its longest
/// reduce axis (K terms) cut into parts:
///
///   P[q, i..]   = reduce over k < L of f(i.., q * L + k)        L = K / parts, rounded down
///   S[i..]      = reduce over q < parts of P[q, i..]
///   T[i..]      = reduce over k < K - parts * L of f(i.., parts * L + k)   where parts are uneven
///   result[i..] = T[i..] combined with S[i..]
Tensor reduce_in_parts(const Operation& op, int64_t parts, const std::string& tag);

/// The indices of a place among dimensions of these extents, whose elements are counted in order:
/// the last one runs fastest.
std::vector<Expr> unflatten(const Expr& place, const std::vector<int64_t>& extents);
/// The inverse of unflatten.
Expr flatten(const std::vector<Expr>& indices, const std::vector<int64_t>& extents);

/// The element of `t` at the indices of the access, in terms of other axes.
Expr read_at(const Tensor& t, const Access& as, const std::vector<VarBinding>& to);

/// The axes that a reduction is declared over again, and what the old ones are in terms of them.
struct NewAxes {
  std::vector<Axis> reduce;
  std::vector<VarBinding> to;
};
/// `spatial` and new reduce axes, of which number r has the extent `extent_of(r)`.
NewAxes new_axes(const Operation& op, const std::vector<Axis>& spatial,
                 FunctionRef<Expr(std::size_t)> extent_of);

/// Moves the item at `d` behind the last one.
template <typename T>
std::vector<T> moved_last(std::vector<T> items, std::size_t d) {
  std::rotate(items.begin() + static_cast<std::ptrdiff_t>(d),
              items.begin() + static_cast<std::ptrdiff_t>(d) + 1, items.end());
  return items;
}

/// Whether the stage is one of the two products of an attention, which one kernel computes.
bool is_of_attention(const ComputeDag& dag, int stage);
/// Whether the stage is constant, or computed from constants alone.
bool is_constant_stage(const ComputeDag& dag, int stage);
/// The same of the stage that the operand reads.
bool is_constant_operand(const ComputeDag& dag, const Access& operand);

}  // namespace heddle::dag
