// A dimension whose size a call gives, within a range.
//
//   const Dim n = dim("n", 1, 4096);
//   Tensor A = placeholder({n, 768}), B = placeholder({768, 768});
//   Axis k = reduce_axis(768, "k");
//   Tensor C = compute({n, 768}, [&](Axis i, Axis j) { return sum(A(i, k) * B(k, j), k); });
//
// A declaration over dimensions is one declaration for all their sizes (a shape family). Its
// kernels take the sizes from the shapes of their arguments. Extents may be sums of dimensions
// times constants, such as 2 * n + 1, that are at least 1 for every size.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/ir/expr.h"
#include "heddle/support/error.h"

namespace heddle {

/// A handle to a dimension. It is used as an extent, and as an i64 in bodies.
class Dim {
 public:
  const std::string& name() const { return name_; }
  int64_t lo() const { return size_->size->lo * multiple_; }  ///< the smallest size
  int64_t hi() const { return size_->size->hi * multiple_; }  ///< the largest size
  int64_t multiple() const { return multiple_; }              ///< which divides every size
  /// A new dimension, with those sizes of this one that `m` divides. The caller promises that sizes
  /// are multiples, and calls check it. Splits by divisors of `m` then have no tail. Throws a User
  /// error where there is no such size.
  Dim multiple_of(int64_t m, Where where = Where::current()) const;

  operator Expr() const;  // NOLINT(google-explicit-constructor)
  /// The variable that kernels take: the size divided by multiple().
  const Var& variable() const { return size_; }

 private:
  friend Dim dim(std::string, int64_t, int64_t, Where);
  Dim(std::string name, int64_t lo, int64_t hi, int64_t multiple);
  std::string name_;
  int64_t multiple_ = 1;
  Var size_;
};

/// A dimension of `lo` to `hi` elements, 1 <= lo <= hi <= 2^40. Each call makes a new dimension.
/// The name is used in messages only. Throws a User error for another range.
Dim dim(std::string name, int64_t lo, int64_t hi, Where where = Where::current());

}  // namespace heddle
