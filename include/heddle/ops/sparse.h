// Products of sparse matrices, whose indices are data: rows of blocks (block sparse rows, and CSR, which is
// blocks of one element).
//
//   ops::SparseRows s{data, columns, begins, 40};      // no row has more than 40 elements
//   Tensor y = ops::sparse_matmul(s, x);               // (rows, K) x (K, N)
//   Tensor z = ops::sparse_dense(x, s);                // x (M, K) times the transposed matrix
//
// A declaration has fixed extents, so a row is as long as the longest one, and places behind the end of a
// row add nothing.
#pragma once

#include <cstdint>

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// A sparse matrix.
struct SparseRows {
  Tensor data;     ///< (n), or (n, r, c): blocks of r rows and c columns
  Tensor columns;  ///< (n) integers: the column of each element, or of each block counted in blocks
  Tensor begins;   ///< (rows + 1) integers, ascending: where the elements of each row begin
  int64_t
      longest;  ///< the most elements of a row, or blocks of a row of blocks; at least 1. Further ones are ignored.
};

/// (R, K) x (K, N) -> (R, N). Columns that are out of range read the nearest row of x.
Tensor sparse_matmul(const SparseRows& a, const Tensor& x, Where where = Where::current());
/// x (M, K) times the transposed (N, K) -> (M, N).
Tensor sparse_dense(const Tensor& x, const SparseRows& weight, Where where = Where::current());
/// The row of each element: i64 (n).
Tensor rows_of(const SparseRows& a, Where where = Where::current());
/// The transposed matrix of `columns` columns, of elements (not of blocks), in rows that ascend. `longest` is
/// the most elements of a column.
SparseRows sparse_transpose(const SparseRows& a, int64_t columns, int64_t longest,
                            Where where = Where::current());

}  // namespace heddle::ops
