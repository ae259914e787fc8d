// Maxima that a softmax subtracts so that its exponentials stay finite: they change no result, and
// their derivative is 0.
//
//   m(i) = max over j of x(i, j)
//   e(i, j) = exp(x(i, j) - m(i))        m + s scales e by exp(-s)
//   t(i) = sum over j of e(i, j)         and t too
//   y(i, j) = e(i, j) / t(i)             but not y
//   l(i) = m(i) + log(t(i))              nor l
//
// What is shown is that adding a number to each element of a stage changes no output. Each reader is
// given the effect that this has on it: none, a shift in proportion, or a factor. Anything else ends the
// search.
#pragma once

#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::autodiff {

class CancellingShifts {
 public:
  /// `stages`: all that precede the outputs, producers first. `is_constant`: what counts as a constant.
  /// `is_opaque`: stages whose derivative is not that of their bodies.
  CancellingShifts(const std::vector<Ref<const Operation>>& stages,
                   const std::vector<Tensor>& outputs, FunctionRef<bool(const Tensor&)> is_constant,
                   FunctionRef<bool(const Operation&)> is_opaque);

  /// Whether adding a number to each element of the one output of `stage` changes no output.
  bool cancels(const Operation& stage) const;

 private:
  std::unordered_map<const Operation*, size_t> place_;
  std::vector<const Operation*> stages_;
  std::vector<std::vector<size_t>> readers_;  ///< of each stage
  std::vector<bool> ends_;                    ///< outputs of the declaration
  std::vector<bool> opaque_;
  std::set<std::pair<const Operation*, int>> constants_;
};

}  // namespace heddle::autodiff
