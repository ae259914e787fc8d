// Recognises a reduction along the rows of a matrix whose elements are made of products, by what its
// stages read:
//
//   product[b.., i, j] = sum over e of x[b.., i, e] * y[b.., j, e]      one or several, of 16-bit floats or f32
//   matrix[b.., i, j]  = any function of products, and of what else is read, element by element
//   sum[b.., i, c]     = sum over j of matrix[b.., i, j] * value[b.., j, c]      or
//   sum[a.., i, c]     = sum over b.. and j, where one head of keys serves several heads of queries, or
//   sum[b.., i]        = sum, max or min over j of matrix[b.., i, j]
//
// Tiles of such a matrix can be computed where they are reduced. The matrix, which may be far larger
// than what it is made of, is then never in memory. The backward pass of an attention is three of
// these sums: its scores and their gradients are such matrices.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// The stages of a reduction along the rows of a matrix that products make; see
/// find_computed_matrix. Dimensions and axes are positions.
struct ComputedMatrix {
  /// What a product reads: the lines are rows or columns of its result, at a plain axis. Several of 16-bit
  /// floats may lie side by side, as the heads of a projection do: each begins at a multiple of its length.
  struct Operand {
    int stage = -1;
    int line_dim = -1, depth_dim = -1;
  };
  struct Product {
    int stage = -1;
    int row_dim = -1, key_dim = -1;  ///< axes of the stage: i and j of the matrix
    int64_t depth = 1;
    Operand rows, keys;  ///< x and y
  };
  int sum = -1;                    ///< the reduction
  int row = -1, col = -1;          ///< its axes i and c; col is -1 where no value is multiplied
  int key = 0;                     ///< its reduce axis j; the others are batches of the matrix
  int matrix = -1;                 ///< the stage whose elements are reduced
  int row_dim = -1, key_dim = -1;  ///< its axes i and j
  std::vector<Product> products;
  std::vector<int> fused;  ///< the products, the matrix, and the stages between; ascending
  Operand value;           ///< its lines are the columns c, its depth is j
  DataType type = f16;     ///< of all operands of products
  int64_t rows = 1, keys = 1, cols = 1, batches = 1;  ///< batches: of results
  int64_t summed = 1;                                 ///< matrices that are added up in each result

  /// The bytes that all matrices would take in f32.
  double bytes() const;
  /// Elements of the matrix for each element of the operands of its products, and of the value.
  double elements_per_operand() const;
};

/// The matrix that reduction `stage` reduces; none where it is no such reduction. `inside` says which
/// stages may be computed where the matrix is; others are read from memory.
std::optional<ComputedMatrix> find_computed_matrix(const ComputeDag& dag, int stage,
                                                   const std::function<bool(int)>& inside);

/// The same where nothing else reads what is computed inside.
std::optional<ComputedMatrix> find_own_matrix(const ComputeDag& dag, int stage);

/// What `o` reads where it is a stage that only moves elements, such as the heads of a projection; otherwise `o`.
/// Its dimensions are -1 where lines of `o` are none there.
ComputedMatrix::Operand moved_operand(const ComputeDag& dag, const ComputedMatrix::Operand& o);

}  // namespace heddle
