// A declaration over dimensions (dsl/dim.h) at given sizes: the same declaration with constants.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "heddle/dsl/dim.h"
#include "heddle/dsl/tensor.h"

namespace heddle {

/// The value of a symbolic size.
struct SizeValue {
  Var size;           ///< Dim::variable()
  int64_t value = 0;  ///< value of that variable
  SizeValue(Var s, int64_t v) : size(std::move(s)), value(v) {}
  /// The size at which dimension `d` has `elements` elements. Throws a User error where these are
  /// not in its range.
  SizeValue(const Dim& d, int64_t elements, Where where = Where::current());
};

/// A declaration at given sizes.
struct Instance {
  std::vector<Tensor> outputs;
  /// Pairs of a tensor of the declaration over dimensions and its counterpart here.
  std::vector<std::pair<Tensor, Tensor>> tensors;
  /// The counterpart of `t`. Throws a User error for a tensor of another declaration.
  Tensor of(const Tensor& t) const;
  std::vector<Tensor> of(const std::vector<Tensor>& list) const;
};

/// The symbolic sizes of the declaration of `outputs`, in order of first appearance: shapes of
/// inputs first, then axes, from producers to consumers.
std::vector<Var> sizes_of(const std::vector<Tensor>& outputs);

/// The declaration of `outputs` with all its sizes replaced by `values`. Stages and axes keep their
/// order, so that a step of a schedule means the same on both. Throws a User error where a size has
/// no value or one outside of its range.
Instance at_sizes(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& values);

/// The declaration with `value`, a sum of other sizes times constants, in the place of `size`. Throws
/// a User error where that may be out of the bounds of what is read.
Instance with_size(const std::vector<Tensor>& outputs, const Var& size, const Expr& value);

}  // namespace heddle
