// Data movement: shapes, orders, slices, gathers. Only scans compute values.
//
//   Tensor y = ops::transpose(x, {0, 2, 3, 1});
//   Tensor z = ops::pad(x, {0, 0, 1, 1}, {0, 0, 1, 1});          // H and W of NCHW by 1
//   Tensor s = ops::slice(x, {0}, {-1}, {2}, {2});               // x[:, :, 0:-1:2]
//
// Axes may be negative: they then count from the last dimension.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

// ---- shape ----
/// The elements in the same row-major order under another shape. One extent may be -1 and is then
/// inferred. An extent of 0 keeps that of x at the same place.
Tensor reshape(const Tensor& x, std::vector<int64_t> shape, Where where = Where::current());
/// (d0, ..., dn) -> (d0 * ... * d[axis-1], d[axis] * ... * dn)
Tensor flatten(const Tensor& x, int axis = 1, Where where = Where::current());
/// Drops the dimensions `axes`, which have extent 1, or all dimensions of extent 1.
Tensor squeeze(const Tensor& x, const std::vector<int>& axes = {}, Where where = Where::current());
/// Adds dimensions of extent 1 at the positions `axes` of the result.
Tensor expand_dims(const Tensor& x, const std::vector<int>& axes, Where where = Where::current());
/// Repeats extents of 1 and adds leading dimensions until the shape is `shape`.
Tensor broadcast_to(const Tensor& x, const std::vector<int64_t>& shape,
                    Where where = Where::current());

// ---- order ----
/// Dimension d of the result is dimension perm[d] of x; without `perm` the order is reversed.
Tensor transpose(const Tensor& x, std::vector<int> perm = {}, Where where = Where::current());
/// (N, C, H, W) -> (N, H, W, C), and back.
Tensor nchw_to_nhwc(const Tensor& x, Where where = Where::current());
Tensor nhwc_to_nchw(const Tensor& x, Where where = Where::current());
/// Reverses the order of the elements along `axes`.
Tensor flip(const Tensor& x, const std::vector<int>& axes, Where where = Where::current());
/// result[i] = x[i - shift], cyclically.
Tensor roll(const Tensor& x, int64_t shift, int axis, Where where = Where::current());

// ---- parts and wholes ----
/// Joins the tensors along `axis`. Their other extents must be equal.
Tensor concat(const std::vector<Tensor>& tensors, int axis, Where where = Where::current());
/// Joins the tensors along a new dimension at `axis`.
Tensor stack(const std::vector<Tensor>& tensors, int axis = 0, Where where = Where::current());
/// Splits into parts of the given extents, whose sum is the extent of the axis.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& extents, int axis = 0,
                          Where where = Where::current());
/// Splits into `parts` equal parts.
std::vector<Tensor> split(const Tensor& x, int parts, int axis = 0, Where where = Where::current());
/// As ONNX: starts and ends are clamped to the extent, negative ones count from the end; steps may
/// be negative (then an end of INT64_MIN means "to the first"). Without `axes` the leading
/// dimensions are meant, without `steps` all steps are 1.
Tensor slice(const Tensor& x, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
             const std::vector<int>& axes = {}, const std::vector<int64_t>& steps = {},
             Where where = Where::current());
/// The values of added elements: a constant, the nearest element, or the mirror image without the
/// border.
enum class PadMode : uint8_t { Constant, Edge, Reflect };
/// `before` and `after` have one count for each dimension. Negative counts remove elements.
Tensor pad(const Tensor& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
           PadMode mode = PadMode::Constant, double value = 0, Where where = Where::current());
/// Repeats the whole tensor: extents are multiplied by `repeats`, one for each dimension.
Tensor tile(const Tensor& x, const std::vector<int64_t>& repeats, Where where = Where::current());
/// Repeats each element `times` times along `axis`.
Tensor repeat(const Tensor& x, int64_t times, int axis, Where where = Where::current());

// ---- gathers ----
// Indices are any integers. Negative ones count from the end. Of indices that are data, one that is
// out of range reads the nearest element and never other memory, on every target. Of indices whose
// values the declaration has (dsl/arrays.h), it is a User error.
/// x (..., n, ...) with `axis` replaced by the shape of `indices`.
Tensor gather(const Tensor& x, const Tensor& indices, int axis = 0, Where where = Where::current());
/// Reads from the flattened x. The result has the shape of `indices`.
Tensor take(const Tensor& x, const Tensor& indices, Where where = Where::current());
/// result[..., i, ...] = x[..., indices[..., i, ...], ...]; both have one rank, and extents of
/// `indices` other than at `axis` are at most those of x.
Tensor gather_elements(const Tensor& x, const Tensor& indices, int axis = 0,
                       Where where = Where::current());
/// A new dimension of extent `depth` at `axis` (of the result), `on` at the index and `off`
/// elsewhere.
Tensor one_hot(const Tensor& indices, int64_t depth, int axis = -1, double on = 1, double off = 0,
               DataType dtype = f32, Where where = Where::current());

// ---- triangles and sums ----
/// Keeps the elements on and below (tril) or above (triu) diagonal k of the last two dimensions;
/// the others become 0.
Tensor tril(const Tensor& x, int64_t k = 0, Where where = Where::current());
Tensor triu(const Tensor& x, int64_t k = 0, Where where = Where::current());
/// Running sums: element i is the sum of all elements up to i (`exclusive`: before i; `reverse`:
/// from the end). The work is linear in the extent: see `scan`. 16-bit floats are accumulated in
/// f32.
Tensor cumsum(const Tensor& x, int axis, bool exclusive = false, bool reverse = false,
              Where where = Where::current());
/// Running products.
Tensor cumprod(const Tensor& x, int axis, bool exclusive = false, bool reverse = false,
               Where where = Where::current());
/// Running results of a reducer of one component, which must be associative and need not be
/// commutative. x has the type of the reducer. A long axis of few rows is cut into blocks, whose
/// totals are combined first.
Tensor scan(const Tensor& x, int axis, const Reducer& reducer, bool exclusive = false,
            bool reverse = false, Where where = Where::current());

// ---- blocks of pixels; x is (N, C, H, W) ----
/// (N, C, H, W) -> (N, C * b * b, H / b, W / b), as ONNX.
Tensor space_to_depth(const Tensor& x, int64_t block, Where where = Where::current());
/// (N, C, H, W) -> (N, C / (b * b), H * b, W * b). The channels are ordered (b, b, C / (b * b)),
/// which is DCR in ONNX, or with `column_major` (C / (b * b), b, b), which is CRD.
Tensor depth_to_space(const Tensor& x, int64_t block, bool column_major = false,
                      Where where = Where::current());
/// depth_to_space with CRD, as in PyTorch.
Tensor pixel_shuffle(const Tensor& x, int64_t factor, Where where = Where::current());

}  // namespace heddle::ops
