// Reads and replacements at positions that are data. Results are new tensors. A scatter is declared
// as a search for the updates that name an element. Each update is stored where it goes
// (dag/scatter.h), in the order of updates: results are the same in every run, on GPUs too.
//
//   Tensor y = ops::gather_nd(x, indices);
//   Tensor z = ops::scatter_elements(x, indices, updates, 1, ops::ScatterReduction::Add);
//
// Indices are integers; negative ones count from the end. Of indices that are data, one that is out
// of range reads the nearest element in a gather and writes nothing in a scatter, on every target.
// Of indices whose values the declaration has (dsl/arrays.h), it is a User error.
#pragma once

#include <cstdint>

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// Reads slices. `indices` is (b..., q..., k). Element (b..., q..., r...) of the result is x(b...,
/// indices(b..., q..., :), r...), where the first `batch_dims` dimensions b are common to both.
Tensor gather_nd(const Tensor& x, const Tensor& indices, int batch_dims = 0,
                 Where where = Where::current());

/// The effect of updates on an element: the last one replaces it, or all are combined with it.
enum class ScatterReduction : uint8_t { Replace, Add, Mul, Max, Min };

/// x(..., indices[i], ...) takes updates[i]. `indices` and `updates` have one shape, the rank of x,
/// and extents of at most those of x except along `axis`.
Tensor scatter_elements(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis = 0,
                        ScatterReduction reduction = ScatterReduction::Replace,
                        Where where = Where::current());

/// The slice x(indices(q, :), ...) takes updates(q). `indices` is (q..., k), `updates` is (q...,
/// x.shape[k:]).
Tensor scatter_nd(const Tensor& x, const Tensor& indices, const Tensor& updates,
                  ScatterReduction reduction = ScatterReduction::Replace,
                  Where where = Where::current());

}  // namespace heddle::ops
