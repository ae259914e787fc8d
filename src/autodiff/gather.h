// The sum over all points of a stage that read an element, as a declaration.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/ir/simplify.h"

namespace heddle::autodiff {

/// The stage that a derivative comes from.
struct Source {
  std::vector<Axis> axes;  ///< spatial and reduce axes
  std::string name;        ///< of the stages that are made
  Where where;
  /// The elements of the read tensor whose gradient is used, an interval a dimension; all where it is
  /// empty.
  std::vector<Interval> region;
  /// Whether it is a tensor whose gradient is asked for: further derivatives see it as independent.
  bool is_asked_for = false;
};

/// A summand of a gradient: its element at the given indices.
using Element = std::function<Expr(const std::vector<Expr>&)>;
struct Summand {
  Element element;  ///< null where the summand is 0
  Tensor stage;     ///< the tensor whose elements these are; null where there is none
  Tensor sum;       ///< the reduction that was declared for it; null where there is none
};

/// The tensor whose element x is the sum of `value` over the points of `from` at which `read` reads
/// x. Where `value` is a product and its conditions are bounds, the conditions become padding of its
/// factors, so that it stays a product.
Summand gather(const Source& from, const Load& read, const Expr& value);

/// Whether `body` is a number, a read, or a conversion of one; with `chosen` one of several by
/// conditions on indices too.
bool only_moves(const Expr& body, bool chosen = false);

/// The sum that `op` rounds to 16 bits and leaves as it is else; null where it does something else.
const Load* rounded_sum(const Operation& op);

/// An element of `t`. Of a stage that only moves or converts, or is one number, what it says, but
/// sums stay rounded: their f32 would go through memory.
Expr read_through(const Tensor& t, const std::vector<Expr>& indices);

}  // namespace heddle::autodiff
