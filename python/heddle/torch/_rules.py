"""The registry of rules, each of which declares an operator of core ATen, and what rules share.

A rule is a function of the arguments of a node, in which tensors are tensors of a declaration and numbers are Python's. It returns
a tensor, or a tuple of them, with None for those that nobody reads.
"""

import operator

import torch

import heddle
from heddle import ops

aten = torch.ops.aten

RULES = {}    # overload -> rule
CHECKS = {}   # overload -> whether a node has arguments that the rule takes
HEAVY = set() # overloads whose work is worth a part of its own
FREE = {operator.getitem}  # overloads that move elements only

DTYPES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "i8",
           torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.bool: "bool"}
TYPES = {name: dtype for dtype, name in DTYPES.items()}
FLOATS = {"f64", "f32", "f16", "bf16"}


def rule(*overloads, heavy=False, free=False, check=None):
    """Registers a function for overloads of an operator."""

    def register(function):
        for overload in overloads:
            RULES[overload] = function
            if check is not None:
                CHECKS[overload] = check
            if heavy:
                HEAVY.add(overload)
            if free:
                FREE.add(overload)
        return function

    return register


# ---- helpers ----

def shape_of(x):
    return list(x.shape)


def axis_of(x, axis):
    return axis % x.ndim if x.ndim else 0


def axes_of(x, axes):
    axes = [axes] if isinstance(axes, int) else list(axes or range(x.ndim))
    return [axis_of(x, a) for a in axes]


def cast_to(x, dtype):
    return x if x.dtype == dtype else ops.cast(x, dtype)


def order_of(dtype):
    return ["bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"].index(dtype)


def promoted(a, b):
    """Both operands in one type, as PyTorch promotes them. A number takes the type of the tensor, but a float makes integers f32."""
    if isinstance(a, heddle.Tensor) and isinstance(b, heddle.Tensor):
        low, high = sorted((a.dtype, b.dtype), key=order_of)
        # A tensor without dimensions counts as a number does.
        if a.ndim == 0 and b.ndim > 0 and (a.dtype in FLOATS) <= (b.dtype in FLOATS):
            wanted = b.dtype
        elif b.ndim == 0 and a.ndim > 0 and (b.dtype in FLOATS) <= (a.dtype in FLOATS):
            wanted = a.dtype
        else:
            wanted = "f32" if {low, high} == {"f16", "bf16"} else "i16" if {low, high} == {"u8", "i8"} else high
        return cast_to(a, wanted), cast_to(b, wanted)
    tensor, number = (a, b) if isinstance(a, heddle.Tensor) else (b, a)
    wanted = tensor.dtype
    if isinstance(number, float) and wanted not in FLOATS:
        wanted = "f32"
    elif isinstance(number, int) and not isinstance(number, bool) and wanted == "bool":
        wanted = "i64"
    tensor = cast_to(tensor, wanted)
    filled = ops.full([], float(number), wanted)
    return (tensor, filled) if isinstance(a, heddle.Tensor) else (filled, tensor)


def as_number(x):
    """What is compared in place of truth values. What comes of it is cast to PyTorch's type, as each result of a rule is."""
    return cast_to(x, "u8") if x.dtype == "bool" else x


def as_float(x):
    return x if x.dtype in FLOATS else ops.cast(x, "f32")


def only_first(node):
    return all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)
