// The choice of the form of a product with one row: a register tile of packed weights, or a sum
// along each row of the weights.
#pragma once

#include <algorithm>

#include "common/accesses.h"
#include "common/costs.h"
#include "heddle/target/narrow_strips.h"

namespace heddle::meta::cpu {

/// Whether product `s` of a vector and a constant matrix is computed from a packed copy of the
/// matrix, in which vectors go across the rows. No vector is then summed up across its lanes, and
/// the copy is made once. This holds for a matrix that stays in L2, shared by a few threads, and for
/// rows of few vectors. Any other matrix takes the time of reading it from memory in either form. A
/// larger matrix that is read through a transposition is packed unless strips of it are narrow.
inline bool packs_once(const ComputeDag& dag, int s, const Target& target) {
  constexpr int64_t kFewVectors = 8, kFewCores = 2;
  const Operation& op = dag.stage(s);
  if (op.axes().empty() || op.reduce_axes().size() != 1) return false;
  const Access* largest = largest_read(dag, s);
  if (!largest || !is_constant(dag, *largest)) return false;
  const int64_t bytes = bytes_of(largest->tensor), in_element = largest->tensor.dtype().bytes();
  const bool near = bytes <= target.l2_bytes * std::min<int64_t>(target.cores, kFewCores);
  if (!dag.stage(largest->producer).is_placeholder() &&
      transposed_axis(dag, largest->producer) >= 0)
    return near || !has_narrow_strips(op.axes().back().extent() * in_element, bytes, target);
  if (!contiguous_axis(*largest, op.reduce_axes())) return false;
  return near || op.reduce_axes()[0].extent() * in_element <= kFewVectors * target.vector_bytes;
}

/// Whether reduction `s` adds up floats that are sums of products of bytes themselves: blocks of them with a scale
/// each, which lie side by side along its innermost axis.
inline bool sums_blocks_of_bytes(const ComputeDag& dag, int s) {
  const auto* reduce = dag.stage(s).bodies()[0].as<Reduce>();
  const auto reads_bytes = [](const Expr& e) {
    return any_below(e, [](const Expr& x) {
      return x.kind() == ExprKind::Load && x.dtype().is_integral() && x.dtype().bits == 8;
    });
  };
  const auto is_product = [&](const Expr& e) {
    const auto* mul = e.as<Binary>();
    return mul && mul->op == BinaryOp::Mul && e.dtype() == i32 && reads_bytes(mul->a) &&
           reads_bytes(mul->b);
  };
  return reduce && any_below(reduce->sources[0], [&](const Expr& e) {
           const auto* cast = e.as<Cast>();
           return cast && e.dtype() == f32 && cast->value.dtype() == i32 &&
                  any_below(cast->value, is_product);
         });
}

/// Whether product `s` is summed up along rows as a simple reduction is: because it is bound by reading
/// operands, or because all operands lie along a reduce axis and none is shared by a vector of results,
/// for which all of them would be gathered, and the other axes are too short for vectors. The gradient of the filters of a depthwise convolution over
/// planes is the latter: its results are channels, which are planes apart.
inline bool sums_rows(const ComputeDag& dag, int s, const Target& target) {
  const Operation& op = dag.stage(s);
  if (sums_blocks_of_bytes(dag, s)) return true;
  if (packs_once(dag, s, target)) return false;
  if (streams_operands(dag, s)) return true;
  if (op.axes().empty()) return false;
  const auto is_gathered = [&](const Access& a) {
    return a.depends_on(op.axes().back()) && contiguous_axis(a, op.reduce_axes()) &&
           !contiguous_axis(a, {op.axes().back()});
  };
  constexpr int64_t kShort = 8;
  const auto is_short = [&](const Axis& a) {
    return a.same_as(op.axes().back()) || a.extent() < kShort;
  };
  return uses_few_times(dag, s) && std::ranges::all_of(op.axes(), is_short) &&
         std::ranges::all_of(dag.info(s).reads, is_gathered);
}

}  // namespace heddle::meta::cpu
