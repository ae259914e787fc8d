// How a stage reads its operands: at its own point, consecutively along which axis, in which rows.
#pragma once

#include <algorithm>
#include <vector>

#include "common/elements.h"
#include "heddle/schedule/template.h"

namespace heddle::meta {

/// Whether `a` reads weights or values computed from weights alone, which may be packed once.
inline bool is_constant(const ComputeDag& dag, const Access& a) {
  return a.tensor.op()->is_constant() || dag.info(a.producer).precomputable;
}

/// Whether stage `s` reads every operand at its own point only, so that its axes can be fused.
inline bool all_elementwise(const ComputeDag& dag, int s) {
  for (const Access& a : dag.info(s).reads) {
    if (a.pattern != AccessPattern::Elementwise) return false;
  }
  return true;
}

/// The position of the axis that runs along consecutive elements of read `a`, or nullptr.
inline const Axis* contiguous_axis(const Access& a, const std::vector<Axis>& axes) {
  if (a.affine.empty() || !a.affine.back()) return nullptr;
  for (const Axis& x : axes) {
    if (a.affine.back()->coefficient(x.var()) == 1) return &x;
  }
  return nullptr;
}

/// The same, where dimensions of one element behind it do not count: the weights [k, c, 1, 1] of a
/// pointwise convolution are contiguous along c.
inline const Axis* axis_of_run(const Access& a, const std::vector<Axis>& axes) {
  size_t d = a.affine.size();
  while (d > 1 && a.tensor.extent(static_cast<int>(d) - 1) == 1) --d;
  if (d == 0 || !a.affine[d - 1]) return nullptr;
  for (const Axis& x : axes) {
    if (x.extent() > 1 && a.affine[d - 1]->coefficient(x.var()) == 1) return &x;
  }
  return contiguous_axis(a, axes);
}

/// The position of an axis that is not the last axis of the stage and along which some read is
/// contiguous (a transposition). -1 when there is none.
inline int transposed_axis(const ComputeDag& dag, int s) {
  const auto& axes = dag.stage(s).axes();
  if (axes.size() < 2) return -1;
  for (const Access& a : dag.info(s).reads) {
    const Axis* c = contiguous_axis(a, axes);
    if (!c || c->same_as(axes.back()) || !a.depends_on(axes.back())) continue;
    for (size_t i = 0; i + 1 < axes.size(); ++i) {
      if (axes[i].same_as(*c) && c->extent() > 1) return static_cast<int>(i);
    }
  }
  return -1;
}

/// The number of leading axes of the output stage that the row stages share.
inline int row_rank(const ComputeDag& dag, const StageGroup& g) {
  int rank = static_cast<int>(dag.stage(g.output_stage).axes().size()) - 1;
  for (int s : g.tunable) {
    const auto& own = dag.stage(s).axes();
    if (!dag.stage(s).is_reduction()) continue;
    int r = 0;
    while (r < rank && r < static_cast<int>(own.size()) &&
           own[r].extent() == dag.stage(g.output_stage).axes()[r].extent()) {
      ++r;
    }
    rank = std::min(rank, r);
  }
  return rank;
}

/// Whether each index of read `a` is a plain axis. A reduction then reads whole rows.
inline bool at_plain_axes(const Access& a) {
  return std::all_of(a.affine.begin(), a.affine.end(), [](const auto& index) {
    return index && index->constant == 0 && index->terms.size() == 1 &&
           index->terms[0].coefficient == 1;
  });
}

/// The position of the reduce axis along which the largest operand of `s` is contiguous, as
/// `axis_of` finds it, or -1.
inline int contiguous_reduce_axis(const ComputeDag& dag, int s,
                                  decltype(contiguous_axis)* axis_of = contiguous_axis) {
  const Operation& op = dag.stage(s);
  double most = -1;
  int found = -1;
  for (const Access& a : dag.info(s).reads) {
    double size = 1;
    for (int64_t e : a.tensor.extents()) size *= static_cast<double>(e);
    if (size <= most) continue;
    const Axis* spatial = axis_of(a, op.axes());
    const Axis* reduce = axis_of(a, op.reduce_axes());
    if (!spatial && !reduce) continue;
    most = size;
    found = -1;
    // A window (x*stride + s) is contiguous along both axes. Vectors go along the longer one.
    if (reduce && (!spatial || spatial->extent() < reduce->extent())) {
      for (size_t i = 0; i < op.reduce_axes().size(); ++i) {
        if (op.reduce_axes()[i].same_as(*reduce)) found = static_cast<int>(i);
      }
    }
  }
  return found;
}

/// The reduce axes (positions, outermost first) along which the largest operand of `s` is one run
/// of elements: the contiguous axis, and the axes around it whose steps are whole runs. For the
/// pixels of an image (n, c, h, w) they are {h, w}. The list is empty where contiguous_reduce_axis
/// finds none.
inline std::vector<int> contiguous_reduce_axes(const ComputeDag& dag, int s) {
  const int innermost = contiguous_reduce_axis(dag, s);
  if (innermost < 0) return {};
  const auto& reduce = dag.stage(s).reduce_axes();
  const Access* largest = nullptr;
  for (const Access& a : dag.info(s).reads) {
    if (contiguous_axis(a, reduce) && (!largest || bytes_of(a.tensor) > bytes_of(largest->tensor)))
      largest = &a;
  }
  // The position of the reduce axis that alone indexes dimension `d`, from 0 to its end. Axes of
  // extent 1 do not count.
  const auto whole_dimension = [&](int d) {
    const auto& index = largest->affine[static_cast<size_t>(d)];
    if (!index || index->constant != 0) return -1;
    int found = -1;
    for (size_t i = 0; i < reduce.size(); ++i) {
      if (index->coefficient(reduce[i].var()) == 1 &&
          reduce[i].extent() == largest->tensor.extent(d))
        found = static_cast<int>(i);
    }
    for (const auto* axes : {&dag.stage(s).axes(), &reduce}) {
      for (const Axis& x : *axes) {
        const bool itself = found >= 0 && x.same_as(reduce[static_cast<size_t>(found)]);
        if (!itself && x.extent() > 1 && index->coefficient(x.var()) != 0) return -1;
      }
    }
    return found;
  };
  std::vector<int> out{innermost};
  int d = largest->tensor.rank() - 1;
  if (whole_dimension(d) != innermost) return out;
  while (--d >= 0) {
    // The outermost axis may cover a part of its dimension: its steps are still whole runs.
    const auto& index = largest->affine[static_cast<size_t>(d)];
    int found = -1;
    for (size_t i = 0; index && i < reduce.size(); ++i) {
      if (index->coefficient(reduce[i].var()) == 1) found = static_cast<int>(i);
    }
    if (found < 0 || std::find(out.begin(), out.end(), found) != out.end()) break;
    out.insert(out.begin(), found);
    if (whole_dimension(d) != found) break;
  }
  return out;
}

}  // namespace heddle::meta
