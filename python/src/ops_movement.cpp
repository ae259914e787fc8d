// Operators that move elements: shapes, orders, slices, gathers, scatters, sorting.
#include "bind.h"

namespace heddle::python {
namespace {

using List = std::vector<int64_t>;
using Axes = std::vector<int>;

void bind_shapes(nb::module_& m) {
  m.def(
      "reshape",
      [](const Tensor& x, const List& shape) { return ops::reshape(x, shape, caller()); }, "x"_a,
      "shape"_a,
      "The elements in the same order under another shape. One extent may be -1; 0 keeps that of "
      "x.");
  m.def(
      "flatten", [](const Tensor& x, int axis) { return ops::flatten(x, axis, caller()); }, "x"_a,
      "axis"_a = 1, "Two dimensions.");
  m.def(
      "squeeze", [](const Tensor& x, const Axes& axes) { return ops::squeeze(x, axes, caller()); },
      "x"_a, "axes"_a = Axes(), "Drops dimensions of extent 1.");
  m.def(
      "expand_dims",
      [](const Tensor& x, const Axes& axes) { return ops::expand_dims(x, axes, caller()); }, "x"_a,
      "axes"_a, "Adds dimensions of extent 1.");
  m.def(
      "broadcast_to",
      [](const Tensor& x, const List& shape) { return ops::broadcast_to(x, shape, caller()); },
      "x"_a, "shape"_a, "Repeats extents of 1 and adds leading dimensions.");
  m.def(
      "transpose",
      [](const Tensor& x, const Axes& perm) { return ops::transpose(x, perm, caller()); }, "x"_a,
      "perm"_a = Axes(), "Dimension d of the result is dimension perm[d] of x.");
  m.def(
      "nchw_to_nhwc", [](const Tensor& x) { return ops::nchw_to_nhwc(x, caller()); }, "x"_a,
      "Channels become the last dimension.");
  m.def(
      "nhwc_to_nchw", [](const Tensor& x) { return ops::nhwc_to_nchw(x, caller()); }, "x"_a,
      "And back.");
  m.def(
      "flip", [](const Tensor& x, const Axes& axes) { return ops::flip(x, axes, caller()); }, "x"_a,
      "axes"_a, "Reverses the order.");
  m.def(
      "roll",
      [](const Tensor& x, int64_t shift, int axis) { return ops::roll(x, shift, axis, caller()); },
      "x"_a, "shift"_a, "axis"_a, "result[i] = x[i - shift], cyclically.");
}

void bind_parts(nb::module_& m) {
  m.def(
      "concat",
      [](const std::vector<Tensor>& tensors, int axis) {
        return ops::concat(tensors, axis, caller());
      },
      "tensors"_a, "axis"_a, "Joins along an axis.");
  m.def(
      "stack",
      [](const std::vector<Tensor>& tensors, int axis) {
        return ops::stack(tensors, axis, caller());
      },
      "tensors"_a, "axis"_a = 0, "Joins along a new axis.");
  m.def(
      "split",
      [](const Tensor& x, int parts, int axis) { return ops::split(x, parts, axis, caller()); },
      "x"_a, "parts"_a, "axis"_a = 0, "Equal parts.");
  m.def(
      "split",
      [](const Tensor& x, const List& extents, int axis) {
        return ops::split(x, extents, axis, caller());
      },
      "x"_a, "extents"_a, "axis"_a = 0, "Parts of these extents.");
  m.def(
      "slice",
      [](const Tensor& x, const List& starts, const List& ends, const Axes& axes,
         const List& steps) { return ops::slice(x, starts, ends, axes, steps, caller()); },
      "x"_a, "starts"_a, "ends"_a, "axes"_a = Axes(), "steps"_a = List(),
      "As ONNX: clamped, negative ones count from the end.");
  m.def(
      "pad",
      [](const Tensor& x, const List& before, const List& after, const std::string& mode,
         double value) {
        const auto how = named<ops::PadMode>(mode, "mode of padding",
                                             {{"constant", ops::PadMode::Constant},
                                              {"edge", ops::PadMode::Edge},
                                              {"reflect", ops::PadMode::Reflect}});
        return ops::pad(x, before, after, how, value, caller());
      },
      "x"_a, "before"_a, "after"_a, "mode"_a = "constant", "value"_a = 0.0,
      "One count for each dimension; negative ones remove.");
}

void bind_repeats(nb::module_& m) {
  m.def(
      "tile", [](const Tensor& x, const List& repeats) { return ops::tile(x, repeats, caller()); },
      "x"_a, "repeats"_a, "Repeats the whole tensor.");
  m.def(
      "repeat",
      [](const Tensor& x, int64_t times, int axis) {
        return ops::repeat(x, times, axis, caller());
      },
      "x"_a, "times"_a, "axis"_a, "Repeats each element.");
  m.def(
      "space_to_depth",
      [](const Tensor& x, int64_t block) { return ops::space_to_depth(x, block, caller()); }, "x"_a,
      "block"_a, "(N, C, H, W) -> (N, C * b * b, H / b, W / b)");
  m.def(
      "depth_to_space",
      [](const Tensor& x, int64_t block, bool column_major) {
        return ops::depth_to_space(x, block, column_major, caller());
      },
      "x"_a, "block"_a, "column_major"_a = false, "(N, C, H, W) -> (N, C / (b * b), H * b, W * b)");
  m.def(
      "pixel_shuffle",
      [](const Tensor& x, int64_t factor) { return ops::pixel_shuffle(x, factor, caller()); },
      "x"_a, "factor"_a, "depth_to_space as in PyTorch.");
}

ops::ScatterReduction reduction_of(const std::string& name) {
  using R = ops::ScatterReduction;
  return named<R>(name, "reduction",
                  {{"replace", R::Replace},
                   {"add", R::Add},
                   {"mul", R::Mul},
                   {"max", R::Max},
                   {"min", R::Min}});
}

void bind_indexed(nb::module_& m) {
  m.def(
      "gather",
      [](const Tensor& x, const Tensor& indices, int axis) {
        return ops::gather(x, indices, axis, caller());
      },
      "x"_a, "indices"_a, "axis"_a = 0, "x with `axis` replaced by the shape of `indices`.");
  m.def(
      "take",
      [](const Tensor& x, const Tensor& indices) { return ops::take(x, indices, caller()); }, "x"_a,
      "indices"_a, "Reads from the flattened x.");
  m.def(
      "gather_elements",
      [](const Tensor& x, const Tensor& indices, int axis) {
        return ops::gather_elements(x, indices, axis, caller());
      },
      "x"_a, "indices"_a, "axis"_a = 0, "result[..., i, ...] = x[..., indices[..., i, ...], ...]");
  m.def(
      "gather_nd",
      [](const Tensor& x, const Tensor& indices, int batch_dims) {
        return ops::gather_nd(x, indices, batch_dims, caller());
      },
      "x"_a, "indices"_a, "batch_dims"_a = 0, "Reads slices.");
  m.def(
      "scatter_elements",
      [](const Tensor& x, const Tensor& indices, const Tensor& updates, int axis,
         const std::string& reduction) {
        return ops::scatter_elements(x, indices, updates, axis, reduction_of(reduction), caller());
      },
      "x"_a, "indices"_a, "updates"_a, "axis"_a = 0, "reduction"_a = "replace",
      "x[..., indices[i], ...] takes updates[i].");
  m.def(
      "scatter_nd",
      [](const Tensor& x, const Tensor& indices, const Tensor& updates,
         const std::string& reduction) {
        return ops::scatter_nd(x, indices, updates, reduction_of(reduction), caller());
      },
      "x"_a, "indices"_a, "updates"_a, "reduction"_a = "replace",
      "The slice x[indices[q, :], ...] takes updates[q].");
  m.def(
      "one_hot",
      [](const Tensor& indices, int64_t depth, int axis, double on, double off, DataType dtype) {
        return ops::one_hot(indices, depth, axis, on, off, dtype, caller());
      },
      "indices"_a, "depth"_a, "axis"_a = -1, "on"_a = 1.0, "off"_a = 0.0, "dtype"_a = f32,
      "A new dimension of extent `depth`.");
}

void bind_sorts(nb::module_& m) {
  m.def(
      "top_k",
      [](const Tensor& x, int64_t k, int axis, bool largest) {
        const ops::Sorted s = ops::top_k(x, k, axis, largest, caller());
        return std::pair(s.values, s.positions);
      },
      "x"_a, "k"_a, "axis"_a = -1, "largest"_a = true, "The values, and their positions as i64.");
  m.def(
      "sort",
      [](const Tensor& x, int axis, bool descending) {
        const ops::Sorted s = ops::sort(x, axis, descending, caller());
        return std::pair(s.values, s.positions);
      },
      "x"_a, "axis"_a = -1, "descending"_a = false, "The values, and their positions as i64.");
}

void bind_scans(nb::module_& m) {
  m.def(
      "tril", [](const Tensor& x, int64_t k) { return ops::tril(x, k, caller()); }, "x"_a,
      "k"_a = 0, "On and below diagonal k.");
  m.def(
      "triu", [](const Tensor& x, int64_t k) { return ops::triu(x, k, caller()); }, "x"_a,
      "k"_a = 0, "On and above diagonal k.");
  m.def(
      "cumsum",
      [](const Tensor& x, int axis, bool exclusive, bool reverse) {
        return ops::cumsum(x, axis, exclusive, reverse, caller());
      },
      "x"_a, "axis"_a, "exclusive"_a = false, "reverse"_a = false, "Running sums.");
  m.def(
      "cumprod",
      [](const Tensor& x, int axis, bool exclusive, bool reverse) {
        return ops::cumprod(x, axis, exclusive, reverse, caller());
      },
      "x"_a, "axis"_a, "exclusive"_a = false, "reverse"_a = false, "Running products.");
  m.def(
      "scan",
      [](const Tensor& x, int axis, const Reducer& reducer, bool exclusive, bool reverse) {
        return ops::scan(x, axis, reducer, exclusive, reverse, caller());
      },
      "x"_a, "axis"_a, "reducer"_a, "exclusive"_a = false, "reverse"_a = false,
      "Running results of a reducer of one component.");
}

}  // namespace

void bind_movement(nb::module_& ops) {
  bind_shapes(ops);
  bind_parts(ops);
  bind_repeats(ops);
  bind_indexed(ops);
  bind_sorts(ops);
  bind_scans(ops);
}

}  // namespace heddle::python
