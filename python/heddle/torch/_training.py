"""Rules of layers in training, and of backward passes, which are gradients of the declarations of the forward passes."""

import torch

import heddle
from heddle import ops

from . import _layers
from ._rules import aten, cast_to, only_first, rule, shape_of
from ._shapes import total


def _wide(x, *others):
    """All of them in f32, or in f64 where the first is. What comes of them is cast to PyTorch's types."""
    return [v if v is None else cast_to(v, "f64" if x.dtype == "f64" else "f32") for v in (x, *others)]


def _gradient(result, of, head, others=()):
    """The gradient with respect to `of` alone, also where `others`, which the result is of too, depend on it."""
    return heddle.gradient(result, of, head, stop=[other for other in others if other is not of])[0]


# ---- norms ----

def _per_channel(x, values):
    return ops.reshape(values, [1, shape_of(values)[0], *[1] * (x.ndim - 2)])


def _normalized(x, scale, shift, epsilon):
    """x, normalised for each channel over all else; the means, the variances, and the inverses of the deviations."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    mean, variance = ops.mean(x, axes), ops.var(x, axes, False, False)
    inverse = ops.rsqrt(ops.add(variance, ops.full([], epsilon, x.dtype)))
    result = ops.mul(ops.sub(x, _per_channel(x, mean)), _per_channel(x, inverse))
    if scale is not None:
        result = ops.mul(result, _per_channel(x, scale))
    if shift is not None:
        result = ops.add(result, _per_channel(x, shift))
    return result, mean, variance, inverse


@rule(aten._native_batch_norm_legit.no_stats)
def _batch_norm_without_statistics(x, scale, shift, training, momentum, epsilon):
    """As instance norms have it, of images as channels of one; sums are in f32 at least."""
    result, mean, _, inverse = _normalized(*_wide(x, scale, shift), epsilon)
    return cast_to(result, x.dtype), mean, inverse


@rule(aten._native_batch_norm_legit_functional.default, check=lambda node: node.args[5] is True and node.args[3] is not None)
def _batch_norm(x, scale, shift, running_mean, running_variance, training, momentum, epsilon):
    x, scale, shift, running_mean, running_variance = _wide(x, scale, shift, running_mean, running_variance)
    result, mean, variance, inverse = _normalized(x, scale, shift, epsilon)
    count = total(extent for axis, extent in enumerate(shape_of(x)) if axis != 1)

    def moved(running, value):
        keep, take = (ops.full([], factor, x.dtype) for factor in (1 - momentum, momentum))
        return ops.add(ops.mul(running, keep), ops.mul(value, take))

    unbiased = ops.mul(variance, ops.full([], count / max(count - 1, 1), x.dtype))
    return result, mean, inverse, moved(running_mean, mean), moved(running_variance, unbiased)


@rule(aten.native_layer_norm.default)
def _layer_norm(x, shape, scale, shift, epsilon):
    axes = list(range(x.ndim - len(shape), x.ndim))
    of_one_type = all(v is None or v.dtype == x.dtype for v in (scale, shift))  # its sums are in f32
    result = ops.layer_norm(*((x, scale, shift) if of_one_type else _wide(x, scale, shift)), axes[0], epsilon)
    x, = _wide(x)
    inverse = ops.rsqrt(ops.add(ops.var(x, axes, True, False), ops.full([], epsilon, x.dtype)))
    return result, ops.mean(x, axes, True), inverse


# ---- convolutions ----

@rule(aten.convolution_backward.default, heavy=True,
      check=lambda node: node.args[1].meta["val"].dim() in (3, 4, 5) and node.args[1] is not node.args[2])
def _convolution_backward(head, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    result = _layers.convolution(x, weight, None, stride, padding, dilation, transposed, output_padding, groups)
    of_x = _gradient(result, x, head, [weight]) if mask[0] else None
    of_weight = _gradient(result, weight, head, [x]) if mask[1] else None
    of_bias = ops.sum(head, [axis for axis in range(head.ndim) if axis != 1]) if mask[2] else None
    return of_x, of_weight, of_bias


# ---- pooling ----

@rule(aten.max_pool2d_with_indices.default, check=lambda node: only_first(node) or node.args[0].meta["val"].dim() == 4)
def _max_pool(x, kernel, stride=(), padding=(0, 0), dilation=(1, 1), ceil_mode=False):
    result = _layers.max_pool(x, kernel, stride, padding, dilation, ceil_mode)
    return result, _places_of_maxima(x, result, kernel, stride or kernel, padding, dilation) if x.ndim == 4 else None


def _places_of_maxima(x, result, kernel, stride, padding, dilation):
    """For each window the place of its first largest element, counted in the image. A NaN is largest, as in PyTorch."""
    (_, _, height, width), (u, v) = shape_of(x), map(heddle.reduce_axis, kernel)

    def place(n, c, i, j):
        row, column = i * stride[0] - padding[0] + u * dilation[0], j * stride[1] - padding[1] + v * dilation[1]
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        element = x[n, c, row, column]
        none = heddle.cast("i32", heddle.Expr(height * width))
        here = heddle.select((element == result[n, c, i, j]) | heddle.isnan(element), heddle.cast("i32", row * width + column), none)
        return heddle.min(heddle.select(inside, here, none), [u, v])

    return ops.cast(heddle.compute(tuple(shape_of(result)), place, "place"), "i64")


@rule(aten.max_pool2d_with_indices_backward.default, check=lambda node: node.args[1].meta["val"].dim() == 4)
def _max_pool_backward(head, x, kernel, stride, padding, dilation, ceil_mode, indices):
    """The gradient of each element is the sum over the windows that chose it, of those that may hold it."""
    (_, _, height, width), (_, _, rows, columns) = shape_of(x), shape_of(head)
    stride = stride or kernel
    spans = [(k - 1) * d // s + 1 for k, d, s in zip(kernel, dilation, stride)]  # windows along an axis with one element
    a, b = map(heddle.reduce_axis, spans)

    def of_element(n, c, y, x):
        i, j = (y + padding[0]) // stride[0] - a, (x + padding[1]) // stride[1] - b
        inside = (i >= 0) & (i < rows) & (j >= 0) & (j < columns)
        here = indices[n, c, i, j] == heddle.cast("i64", y * width + x)
        none = heddle.cast(head.dtype, heddle.Expr(0))
        return heddle.sum(heddle.select(inside, heddle.select(here, head[n, c, i, j], none), none), [a, b])

    return heddle.compute((*shape_of(x)[:2], height, width), of_element, "max_pool_backward")


@rule(aten.avg_pool2d_backward.default, check=lambda node: node.args[1].meta["val"].dim() == 4 and node.args[7] is None)
def _avg_pool_backward(head, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    return _gradient(_layers.avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad), x, head)


@rule(aten._adaptive_avg_pool2d_backward.default, check=lambda node: node.args[1].meta["val"].dim() == 4)
def _adaptive_backward(head, x):
    return _gradient(ops.adaptive_avg_pool(x, shape_of(head)[2:]), x, head)


@rule(aten.grid_sampler_2d_backward.default)
def _grid_sample_backward(head, x, grid, mode, padding, align_corners, mask):
    result = _layers.grid_sample(x, grid, mode, padding, align_corners)
    return (_gradient(result, x, head, [grid]) if mask[0] else None, _gradient(result, grid, head, [x]) if mask[1] else None)
