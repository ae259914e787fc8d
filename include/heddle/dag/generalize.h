// Makes one declaration for all sizes of a dimension from a function that declares for one size.
//
//   const Dim n = dim("n", 1, 2048);
//   const Generalized f = generalize(n, [](int64_t rows) {
//     return std::vector<Tensor>{ops::softmax(placeholder({rows, 768}))};
//   });
//
// Operators (heddle/ops) and importers take constant shapes. This function calls them at two sizes
// and makes one declaration of what both have in common: numbers that differ become sums of the
// dimension times constants. It is checked as if it had been declared so, and compared with what is
// declared at the smallest size and one in the middle.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/dag/instance.h"

namespace heddle {

/// The result of generalize().
struct Generalized {
  std::vector<Tensor> outputs;  ///< over the dimension
  /// Pairs of a tensor that `declare` made at the largest size and its counterpart over the
  /// dimension.
  std::vector<std::pair<Tensor, Tensor>> tensors;
  std::vector<Tensor> at_largest;  ///< what `declare` returned at the largest size
};

/// Throws a User error where the declarations differ in more than numbers that grow with the size:
/// in other operations, or in floating-point constants that depend on it, such as sqrt(rows).
/// Counts and their inverses (a mean) may depend on it. So may constant arrays, which must equal
/// the beginning of the largest of them. `describe` names operations of the largest size in
/// messages; "" and an empty function mean their own names.
Generalized generalize(const Dim& n, const std::function<std::vector<Tensor>(int64_t)>& declare,
                       const std::function<std::string(const Operation&)>& describe = {});

}  // namespace heddle
