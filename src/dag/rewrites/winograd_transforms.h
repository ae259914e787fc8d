// The transforms of Winograd's minimal filtering in one dimension, F(m, 3): m results of a filter of
// three, from m + 2 elements by m + 2 multiplications.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::winograd {

using Terms = std::vector<Expr>;

/// B^T d: of the m + 2 elements of a tile.
Terms image_transform(int64_t m, const Terms& d);
/// G g: of the 3 elements of a filter.
Terms weight_transform(int64_t m, const Terms& g);
/// A^T p: the m results of m + 2 products.
Terms result_transform(int64_t m, const Terms& p);

/// The term that `index` names.
Expr choose(const Expr& index, const Terms& terms);

/// read(0), read(1), ... read(n - 1)
template <class F>
Terms terms(int64_t n, F read) {
  Terms out;
  for (int64_t i = 0; i < n; ++i) out.push_back(read(i));
  return out;
}

/// How the errors of the worst result grow in one dimension, relative to the direct form: the root
/// of a sum of squares over all paths from the operands to the result, sum_j (A^T_ij)^2 |G_j|^2
/// |B^T_j|^2, divided by the 3 of the direct form. For two dimensions the squares are 1.7 (m = 2)
/// and 8.2 (m = 4; 31 with a = 1, b = 2). An upper bound, with sums of absolute values in place of
/// squares, would be 7.1 and 63 (256).
double growth_of_dimension(int64_t m);

}  // namespace heddle::winograd
