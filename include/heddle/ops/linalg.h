// Matrix products and their relatives.
//
//   Tensor y = ops::matmul(a, b);                             // (M, K) x (K, N) -> (M, N)
//   Tensor z = ops::einsum("bij,bkj->bik", q, k);
//   Tensor d = ops::dense(x, weight, bias);                   // x (M, K), weight (N, K), bias (N)
#pragma once

#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/ops/precision.h"

namespace heddle::ops {

/// a (..., M, K) x b (..., K, N) -> (..., M, N); with `transpose_a` a is (..., K, M), with
/// `transpose_b` b is (..., N, K). The leading dimensions broadcast. A vector is a row on the left
/// and a column on the right, and its dimension is missing in the result, as in numpy.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false,
              Precision precision = {}, Where where = Where::current());

/// matmul of exactly three dimensions: (B, M, K) x (B, K, N) -> (B, M, N).
Tensor batch_matmul(const Tensor& a, const Tensor& b, bool transpose_a = false,
                    bool transpose_b = false, Precision precision = {},
                    Where where = Where::current());

/// x (..., K) x weight (N, K) -> (..., N), plus `bias` (N) in a stage of its own if given. The
/// layout of the weight is that of PyTorch's Linear and ONNX's Gemm with transB.
Tensor dense(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
             Precision precision = {}, Where where = Where::current());

/// (N) . (N) -> a tensor of rank 0.
Tensor dot(const Tensor& a, const Tensor& b, Precision precision = {},
           Where where = Where::current());
/// (M, K) x (K) -> (M)
Tensor matvec(const Tensor& a, const Tensor& x, Precision precision = {},
              Where where = Where::current());
/// The determinants of the last two dimensions: (..., N, N) -> (...), for N up to 256. Elimination takes
/// the largest pivot of each column, and a step for each column.
Tensor determinant(const Tensor& x, Where where = Where::current());
/// (M) x (N) -> (M, N)
Tensor outer(const Tensor& a, const Tensor& b, Where where = Where::current());

/// Sums of products by index letters, as in numpy: "ij,jk->ik". A letter that is missing on the
/// right is summed over; without "->" the result has the letters that occur once, in alphabetical
/// order. A letter twice in one operand is its diagonal ("ii->i"). "..." stands for up to ten dimensions,
/// which broadcast from the last one, and is in the result too: "...ij,...jk->...ik".
Tensor einsum(const std::string& equation, const Tensor& a, const Tensor& b,
              Precision precision = {}, Where where = Where::current());
/// The same with one operand, such as a transposition "ij->ji" or a trace "ii->".
Tensor einsum(const std::string& equation, const Tensor& a, Precision precision = {},
              Where where = Where::current());

}  // namespace heddle::ops
