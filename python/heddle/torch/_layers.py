"""Rules of products, convolutions, norms and pooling."""

import torch

import heddle
from heddle import ops

from ._rules import aten, only_first, rule, shape_of


# ---- products and convolutions ----

@rule(aten.mm.default, aten.bmm.default, heavy=True)
def _mm(a, b):
    return ops.matmul(a, b)


@rule(aten.addmm.default, heavy=True, check=lambda node: set(node.kwargs.values()) <= {1})
def _addmm(bias, a, b):
    return ops.add(ops.matmul(a, b), bias)


def product_of_rows(x, weight, bias, transposed):
    """x (..., k) times weight (k, n), or (n, k) where it is transposed, plus bias where there is one: a node of _rewrite.py."""
    product = torch.matmul(x, weight.t() if transposed else weight)
    return product if bias is None else product + bias


@rule(product_of_rows, heavy=True)
def _product_of_rows(x, weight, bias, transposed):
    product = ops.matmul(x, weight, transpose_b=transposed)
    return product if bias is None else ops.add(product, bias)


def product_of_heads(x, y):
    """x (..., m, k) times y (..., k, n) of equal leading extents: a node of _rewrite.py."""
    return torch.matmul(x, y)


@rule(product_of_heads, heavy=True)
def _product_of_heads(x, y):
    return ops.matmul(x, y)


def _convolution_check(node):
    return node.args[0].meta["val"].is_floating_point() and node.args[0].meta["val"].dim() in (3, 4, 5)


@rule(aten.convolution.default, heavy=True, check=_convolution_check)
def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    name = f"{'conv_transpose' if transposed else 'conv'}{x.ndim - 2}d"
    more = {"output_padding": list(output_padding)} if transposed else {}
    return getattr(ops, name)(x, weight, bias, stride=list(stride), padding=list(padding), dilation=list(dilation), groups=groups, **more)


# ---- attention: PyTorch has an operator for each of its implementations ----

def _attention(q, k, v, mask, causal, scale):
    if causal:
        mask = heddle.compute((shape_of(q)[-2], shape_of(k)[-2]), lambda i, j: j <= i, "causal")
    return ops.scaled_dot_product_attention(q, k, v, mask, scale or 0.0)


def _plain_attention(dropout):
    """Without dropout, which is argument number `dropout`, and where only the result is read."""
    return lambda node: not (len(node.args) > dropout and node.args[dropout]) and not node.kwargs.get("dropout_p") and only_first(node)


@rule(aten._scaled_dot_product_flash_attention_for_cpu.default, heavy=True, check=_plain_attention(3))
def _attention_of_cpu(q, k, v, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    return (_attention(q, k, v, attn_mask, is_causal, scale), None)


@rule(aten._scaled_dot_product_flash_attention.default, heavy=True, check=_plain_attention(3))
def _flash_attention(q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, scale=None):
    return (_attention(q, k, v, None, is_causal, scale),)


@rule(aten._scaled_dot_product_efficient_attention.default, aten._scaled_dot_product_cudnn_attention.default, heavy=True,
      check=_plain_attention(5))
def _masked_attention(q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, scale=None):
    return (_attention(q, k, v, attn_bias, is_causal, scale),)


# ---- norms ----

@rule(aten._native_batch_norm_legit_no_training.default, check=only_first)
def _batch_norm(x, scale, shift, mean, variance, momentum, epsilon):
    channels = shape_of(x)[1]
    scale = ops.full([channels], 1.0, mean.dtype) if scale is None else scale
    shift = ops.full([channels], 0.0, mean.dtype) if shift is None else shift
    return (ops.batch_norm(x, scale, shift, mean, variance, epsilon), None, None)


@rule(aten.native_batch_norm.default, aten.cudnn_batch_norm.default, check=lambda node: only_first(node) and node.args[5] is False)
def _batch_norm_of_inference(x, scale, shift, mean, variance, training, momentum, epsilon):
    return _batch_norm(x, scale, shift, mean, variance, momentum, epsilon)


@rule(aten.native_group_norm.default, check=only_first)
def _group_norm(x, scale, shift, n, c, hw, groups, epsilon):
    return (ops.group_norm(x, groups, scale, shift, epsilon), None, None)


@rule(aten._softmax.default)
def _softmax(x, axis, half_to_float):
    return ops.softmax(ops.cast(x, "f32") if half_to_float else x, axis)


@rule(aten._log_softmax.default)
def _log_softmax(x, axis, half_to_float):
    return ops.log_softmax(ops.cast(x, "f32") if half_to_float else x, axis)


# ---- pooling ----

def max_pool(x, kernel, stride=(), padding=(), dilation=(), ceil_mode=False):
    return _batched(ops.max_pool, len(kernel))(x, list(kernel), list(stride), list(padding), list(dilation), ceil_mode)


@rule(aten.max_pool3d_with_indices.default, check=only_first)
def _max_pool_of_volumes(x, *window):
    return max_pool(x, *window), None


@rule(aten.avg_pool2d.default, aten.avg_pool3d.default, check=lambda node: len(node.args) < 7 or node.args[6] is None)
def avg_pool(x, kernel, stride=(), padding=(), ceil_mode=False, count_include_pad=True, divisor_override=None):
    return _batched(ops.avg_pool, len(kernel))(x, list(kernel), list(stride), list(padding), ceil_mode, count_include_pad)


@rule(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def _adaptive(x, size):
    return _batched(ops.adaptive_avg_pool, len(size))(x, list(size))


@rule(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default, check=only_first)
def _adaptive_max(x, size):
    return _batched(ops.adaptive_max_pool, len(size))(x, list(size)), None


_SAMPLES, _OUTSIDE = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@rule(aten.grid_sampler_2d.default)
def grid_sample(x, grid, mode, padding, align_corners):
    return ops.grid_sample(x, grid, _SAMPLES[mode], _OUTSIDE[padding], align_corners)


def _batched(function, dims):
    """A function of images (or volumes) in batches, also for one of them."""

    def call(x, *args):
        if x.ndim == dims + 2:
            return function(x, *args)
        return ops.squeeze(function(ops.expand_dims(x, [0]), *args), [0])

    return call


@rule(aten.im2col.default)
def _unfold(x, kernel, dilation, padding, stride):
    return _batched(ops.unfold, 2)(x, list(kernel), list(stride), list(padding), list(dilation))


@rule(aten.col2im.default)
def _fold(x, size, kernel, dilation, padding, stride):
    return _batched(ops.fold, 1)(x, list(size), list(kernel), list(stride), list(padding), list(dilation))
