"""Rules of operators on elements, and of types and constants."""

import math

import torch

import heddle
from heddle import ops

from ._rules import DTYPES, FLOATS, as_float, as_number, aten, cast_to, promoted, rule, shape_of


def _scaled(b, alpha):
    if alpha == 1:
        return b
    return b * alpha if isinstance(b, (int, float)) else ops.mul(b, alpha)


# ---- arithmetic ----

def _multiplied(function, a, b):
    """A product or quotient in one type. Small floats and a number that their type does not hold meet in f32, as in PyTorch, whose sums
    round the number first."""
    tensor, number = (a, b) if isinstance(a, heddle.Tensor) else (b, a)
    small = {"f16": torch.float16, "bf16": torch.bfloat16}.get(tensor.dtype)
    if small is None or isinstance(number, heddle.Tensor) or math.isnan(number) or torch.tensor(number, dtype=small).item() == number:
        return function(*promoted(a, b))
    wide = ops.cast(tensor, "f32")
    return ops.cast(function(*promoted(*((wide, number) if tensor is a else (number, wide)))), tensor.dtype)


def _sum(a, b):
    return ops.logical_or(a, b) if a.dtype == "bool" else ops.add(a, b)


@rule(aten.add.Tensor, aten.add.Scalar)
def _add(a, b, alpha=1):
    return _sum(*promoted(a, _scaled(b, alpha)))


@rule(aten.sub.Tensor, aten.sub.Scalar)
def _sub(a, b, alpha=1):
    return ops.sub(*promoted(a, _scaled(b, alpha)))


@rule(aten.rsub.Tensor, aten.rsub.Scalar)
def _rsub(a, b, alpha=1):
    return ops.sub(*promoted(b, _scaled(a, alpha)))


def _product(a, b):
    return ops.logical_and(a, b) if a.dtype == "bool" else ops.mul(a, b)


@rule(aten.mul.Tensor, aten.mul.Scalar)
def _mul(a, b):
    return _multiplied(_product, a, b)


def _quotient(a, b):
    return ops.div(as_float(a), as_float(b))


@rule(aten.div.Tensor, aten.div.Scalar)
def _div(a, b):
    return _multiplied(_quotient, a, b)


def _floor_of_quotient(a, b):
    """As PyTorch has it for floats: from the remainder, because a / b may round up to the next integer."""
    rest = ops.fmod(a, b)
    other_sign = ops.logical_xor(ops.less(b, ops.full([], 0.0, b.dtype)), ops.less(rest, ops.full([], 0.0, b.dtype)))
    below = ops.logical_and(ops.not_equal(rest, ops.full([], 0.0, b.dtype)), other_sign)
    whole = ops.round(ops.sub(ops.div(ops.sub(a, rest), b), ops.cast(below, a.dtype)))
    return ops.where(ops.equal(b, ops.full([], 0.0, b.dtype)), ops.div(a, b), whole)


@rule(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div_rounded(a, b, rounding_mode=None):
    a, b = promoted(a, b)
    if rounding_mode is None:
        return ops.div(as_float(a), as_float(b))
    if a.dtype not in FLOATS:
        return ops.floor_divide(a, b) if rounding_mode == "floor" else ops.div(a, b)
    return _floor_of_quotient(a, b) if rounding_mode == "floor" else ops.trunc(ops.div(a, b))


@rule(aten.fmod.Tensor, aten.fmod.Scalar)
def _fmod(a, b):
    return ops.fmod(*promoted(a, b))


@rule(aten.remainder.Tensor, aten.remainder.Scalar)
def _remainder(a, b):
    return ops.mod(*promoted(a, b))


def _of_floats(node):
    """A check: the result is a float."""
    return node.meta["val"].is_floating_point()


def _known_power(node):
    return _of_floats(node) or isinstance(node.args[1], int) and 0 <= node.args[1] < 64


@rule(aten.pow.Tensor_Scalar, check=_known_power)
def _pow(x, exponent):
    x = as_float(x) if isinstance(exponent, float) else as_number(x)
    if exponent == 2:
        return ops.mul(x, x)
    if x.dtype in FLOATS:
        return ops.pow(x, float(exponent))
    if exponent < 2:
        return x if exponent else ops.full(shape_of(x), 1.0, x.dtype)
    half = _pow(x, exponent // 2)
    return ops.mul(ops.mul(half, half), x) if exponent % 2 else ops.mul(half, half)


@rule(aten.pow.Tensor_Tensor, check=_of_floats)
def _pow_tensors(a, b):
    return ops.pow(*map(as_float, promoted(a, b)))


@rule(aten.pow.Scalar, check=_of_floats)
def _pow_of_number(base, exponent):
    return ops.pow(*map(as_float, promoted(base, exponent)))


def _of_two(function, *overloads):
    @rule(*overloads)
    def _rule(a, b):
        return function(*promoted(a, b))


def _of_numbers(function):
    """An operator of two numbers, also for truth values."""
    return lambda a, b: function(as_number(a), as_number(b))


for _name in ("maximum", "minimum"):
    _of_two(_of_numbers(getattr(ops, _name)), getattr(aten, _name).default)


@rule(aten.atan2.default)
def _atan2(a, b):
    return ops.atan2(*map(as_float, promoted(a, b)))


for _name, _function in (("eq", ops.equal), ("ne", ops.not_equal), ("lt", ops.less), ("le", ops.less_equal), ("gt", ops.greater),
                         ("ge", ops.greater_equal)):
    _of_two(_function if _name in ("eq", "ne") else _of_numbers(_function), getattr(aten, _name).Tensor, getattr(aten, _name).Scalar)
for _name in ("logical_and", "logical_or", "logical_xor"):
    @rule(getattr(aten, _name).default)
    def _logical(a, b, function=getattr(ops, _name)):
        return function(cast_to(a, "bool"), cast_to(b, "bool"))
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    _of_two(getattr(ops, _name), getattr(aten, _name).Tensor, getattr(aten, _name).Scalar)


@rule(aten.logical_not.default)
def _logical_not(x):
    return ops.logical_not(cast_to(x, "bool"))


@rule(aten.bitwise_not.default)
def _bitwise_not(x):
    return ops.logical_not(x) if x.dtype == "bool" else ops.bitwise_not(x)


for _name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
              "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "reciprocal", "silu", "mish", "hardswish", "hardsigmoid"):
    @rule(getattr(aten, _name).default)
    def _of_float(x, function=getattr(ops, _name)):
        return function(as_float(x))
for _name in ("isnan", "isinf"):
    @rule(getattr(aten, _name).default)
    def _is(x, function=getattr(ops, _name)):
        return function(as_float(x))
for _name in ("neg", "abs", "sign", "relu"):
    @rule(getattr(aten, _name).default)
    def _of_any(x, function=getattr(ops, _name)):
        return function(x)
for _name in ("floor", "ceil", "trunc", "round"):  # integers are what they are
    @rule(getattr(aten, _name).default)
    def _rounded(x, function=getattr(ops, _name)):
        return function(x) if x.dtype in FLOATS else x


@rule(aten.gelu.default)
def _gelu(x, approximate="none"):
    return ops.gelu_tanh(x) if approximate == "tanh" else ops.gelu(x)


@rule(aten.leaky_relu.default)
def _leaky_relu(x, slope=0.01):
    return ops.leaky_relu(x, slope)


@rule(aten.elu.default, check=lambda node: len(node.args) <= 2)
def _elu(x, alpha=1.0):
    return ops.elu(x, alpha)


@rule(aten.hardtanh.default)
def _hardtanh(x, low=-1.0, high=1.0):
    return ops.clip(x, low, high)


@rule(aten.clamp.default, check=lambda node: all(not isinstance(a, torch.fx.Node) for a in node.args[1:]))
def _clamp(x, min=None, max=None):
    low = -float("inf") if min is None else min
    high = float("inf") if max is None else max
    return ops.clip(x, low, high) if x.dtype in FLOATS else _clamp_between(x, min, max)


@rule(aten.clamp_min.default)
def _clamp_min(x, low):
    return _clamp_between(x, low)


@rule(aten.clamp_max.default)
def _clamp_max(x, high):
    return _clamp_between(x, None, high)


@rule(aten.clamp.Tensor)
def _clamp_between(x, min=None, max=None):
    if min is not None:
        x = ops.maximum(*promoted(x, min))
    return x if max is None else ops.minimum(*promoted(x, max))


@rule(aten.where.self)
def _where(condition, a, b):
    return ops.where(cast_to(condition, "bool"), *promoted(a, b))


# ---- types and constants ----

def _plain_copy(node):
    return set(node.kwargs) <= {"dtype", "layout", "device", "pin_memory", "non_blocking", "memory_format"} and \
        node.kwargs.get("layout") in (None, torch.strided)


@rule(aten._to_copy.default, check=_plain_copy)
def _to_copy(x, dtype=None, **_):
    return x if dtype is None else cast_to(x, DTYPES[dtype])


@rule(aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default, free=True)
def _same(x, memory_format=None):
    return x


@rule(aten.copy.default, free=True)
def _copy(x, source, non_blocking=False):
    return ops.broadcast_to(cast_to(source, x.dtype), shape_of(x))


@rule(torch.ops.prims.convert_element_type.default)
def _convert(x, dtype):
    return cast_to(x, DTYPES[dtype])


def _known_dtype(node):
    return node.meta["val"].dtype in DTYPES


@rule(aten.full.default, free=True, check=_known_dtype)
def _full(shape, value, dtype=None, **_):
    default = "bool" if isinstance(value, bool) else "i64" if isinstance(value, int) else "f32"
    return ops.full(list(shape), float(value), DTYPES[dtype] if dtype else default)


@rule(aten.empty.memory_format, free=True, check=_known_dtype)
def _empty(shape, dtype=None, **_):
    return ops.full(list(shape), 0.0, DTYPES[dtype] if dtype else "f32")


@rule(aten.new_empty_strided.default, free=True, check=_known_dtype)
def _new_empty(x, shape, stride, dtype=None, **_):
    return ops.full(list(shape), 0.0, DTYPES[dtype] if dtype else x.dtype)


@rule(aten.full_like.default, free=True, check=_known_dtype)
def _full_like(x, value, dtype=None, **_):
    return ops.full(shape_of(x), float(value), DTYPES[dtype] if dtype else x.dtype)


@rule(aten.scalar_tensor.default, free=True, check=_known_dtype)
def _scalar(value, dtype=None, **_):
    return ops.full([], float(value), DTYPES[dtype] if dtype else "f32")


@rule(aten.arange.start_step, free=True, check=_known_dtype)
def _arange(start, end, step=1, dtype=None, **_):
    whole = all(isinstance(number, int) for number in (start, end, step))
    dtype = DTYPES[dtype] if dtype else "i64" if whole else "f32"
    count, number = math.ceil((end - start) / step), "i64" if whole else "f64"
    return heddle.compute((count,), lambda i: heddle.cast(dtype, heddle.cast(number, i + 0) * step + start), "arange")
