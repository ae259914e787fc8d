"""Rules of reductions."""

import math

from heddle import ops

from ._rules import DTYPES, FLOATS, as_number, aten, axes_of, axis_of, cast_to, rule


@rule(aten.mean.dim)
def _mean(x, axes, keepdim=False, dtype=None):
    return ops.mean(cast_to(x, DTYPES[dtype]) if dtype else x, axes_of(x, axes), keepdim)


@rule(aten.mean.default)
def _mean_all(x, dtype=None):
    return _mean(x, None, False, dtype)


def _summed(x, dtype):
    """The type of a sum or a product: that of floats, i64 of integers."""
    return DTYPES[dtype] if dtype else x.dtype if x.dtype in FLOATS else "i64"


@rule(aten.sum.dim_IntList)
def _sum(x, axes, keepdim=False, dtype=None):
    return ops.sum(cast_to(x, _summed(x, dtype)), axes_of(x, axes), keepdim)


@rule(aten.sum.default)
def _sum_all(x, dtype=None):
    return _sum(x, None, False, dtype)


@rule(aten.amax.default)
def _amax(x, axes=(), keepdim=False):
    return ops.max(as_number(x), axes_of(x, axes), keepdim)


@rule(aten.amin.default)
def _amin(x, axes=(), keepdim=False):
    return ops.min(as_number(x), axes_of(x, axes), keepdim)


@rule(aten.prod.dim_int)
def _prod(x, axis, keepdim=False, dtype=None):
    return ops.prod(cast_to(x, _summed(x, dtype)), axes_of(x, axis), keepdim)


@rule(aten.prod.default)
def _prod_all(x, dtype=None):
    return _prod(x, None, False, dtype)


@rule(aten.any.dim, aten.any.dims)
def _any(x, axes=None, keepdim=False):
    return ops.any(cast_to(x, "bool"), axes_of(x, axes), keepdim)


@rule(aten.any.default)
def _any_at_all(x):
    return _any(x)


_NORMS = (1, 2, math.inf, -math.inf)


@rule(aten.linalg_vector_norm.default, check=lambda node: (node.args[1] if len(node.args) > 1 else 2) in _NORMS)
def _vector_norm(x, order=2, axes=None, keepdim=False, dtype=None):
    """In f32 at least, as PyTorch adds them: squares of f16 overflow."""
    wanted, axes = DTYPES[dtype] if dtype else x.dtype, axes_of(x, axes)
    x = cast_to(x, "f64" if "f64" in (wanted, x.dtype) else "f32")
    if order in (1, 2):
        made = (ops.norm_l1 if order == 1 else ops.norm_l2)(x, axes, keepdim)
    else:
        made = (ops.max if order > 0 else ops.min)(ops.abs(x), axes, keepdim)
    return cast_to(made, wanted)


@rule(aten.var.correction, check=lambda node: node.kwargs.get("correction", 1) in (0, 1))
def _var(x, axes=None, correction=1, keepdim=False):
    return ops.var(x, axes_of(x, axes), keepdim, correction == 1)


def _along_axis(node):
    return len(node.args) > 1 and node.args[1] is not None


for _name in ("argmax", "argmin"):
    @rule(getattr(aten, _name).default, check=_along_axis)
    def _place(x, axis, keepdim=False, function=getattr(ops, _name)):
        return function(as_number(x), axis, keepdim)
for _name in ("max", "min"):
    @rule(getattr(aten, _name).dim)
    def _extreme(x, axis, keepdim=False, value=getattr(ops, _name), place=getattr(ops, f"arg{_name}")):
        return value(as_number(x), [axis_of(x, axis)], keepdim), place(as_number(x), axis, keepdim)


@rule(aten.cumsum.default)
def _cumsum(x, axis, dtype=None):
    return ops.cumsum(cast_to(x, _summed(x, dtype)), axis)


@rule(aten.cumprod.default)
def _cumprod(x, axis, dtype=None):
    return ops.cumprod(cast_to(x, _summed(x, dtype)), axis)


@rule(aten._cdist_forward.default, check=lambda node: node.args[2] in (1, 2, math.inf))
def _distances(x, y, order, mode=None):
    """Norms of the differences of all rows: (..., m, k) and (..., n, k) to (..., m, n)."""
    return _vector_norm(ops.expand_dims(x, [x.ndim - 1]) - ops.expand_dims(y, [y.ndim - 2]), order, [-1])
