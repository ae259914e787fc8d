// Costs of a stage: bytes moved and operations done.
#pragma once

#include <algorithm>
#include <vector>

#include "common/elements.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/dag/operations.h"

namespace heddle::meta {

/// The read of stage `s` whose tensor has the most bytes; nullptr where it reads nothing.
inline const Access* largest_read(const ComputeDag& dag, int s) {
  const Access* largest = nullptr;
  for (const Access& a : dag.info(s).reads) {
    if (!largest || bytes_of(a.tensor) > bytes_of(largest->tensor)) largest = &a;
  }
  return largest;
}

/// Whether few terms of reduction `s` use each element that it reads: keeping elements for several
/// results gains less than many threads do. The gradient of the filters of a depthwise convolution has
/// a term for each tap.
inline bool uses_few_times(const ComputeDag& dag, int s) {
  constexpr double kFewTerms = 16;
  double elements = 0;
  for (const Tensor& x : dag.stage(s).inputs())
    elements = std::max(elements, static_cast<double>(bytes_of(x) / x.dtype().bytes()));
  const StageInfo& i = dag.info(s);
  return static_cast<double>(i.points) * static_cast<double>(i.reduce_points) <=
         kFewTerms * elements;
}

/// The work of a stage. One unit is about one arithmetic operation or one element moved.
inline double stage_work(const ComputeDag& dag, int s) {
  const StageInfo& i = dag.info(s);
  return operations_of(i) + static_cast<double>(i.points * i.reduce_points);
}

/// Operations for an element of stage `s`, with those of the stages `inlined` into it.
inline double operations_per_point(const ComputeDag& dag, int s, const std::vector<int>& inlined) {
  double sum = operations_per_point(dag.info(s));
  for (const int p : dag.info(s).producers) {
    if (std::find(inlined.begin(), inlined.end(), p) != inlined.end())
      sum += operations_per_point(dag, p, inlined);
  }
  return sum;
}

/// Whether stage `s`, or one of the stages `inlined` into it, calls transcendental functions (exp,
/// erf, ..).
inline bool has_transcendentals(const ComputeDag& dag, int s,
                                const std::vector<int>& inlined = {}) {
  return dag.info(s).transcendentals_per_point > 0 ||
         std::any_of(inlined.begin(), inlined.end(),
                     [&](int x) { return dag.info(x).transcendentals_per_point > 0; });
}

/// Whether each element of stage `s` costs a transcendental function, its own or one of a stage that
/// is inlined into it.
inline bool calls_transcendentals(const ComputeDag& dag, int s, const std::vector<int>& inlined) {
  const std::vector<int>& reads = dag.info(s).producers;
  return has_transcendentals(dag, s) || std::any_of(reads.begin(), reads.end(), [&](int p) {
           return std::find(inlined.begin(), inlined.end(), p) != inlined.end() &&
                  calls_transcendentals(dag, p, inlined);
         });
}

}  // namespace heddle::meta
