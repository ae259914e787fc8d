"""The sizes of a graph that was traced with dynamic shapes: symbols of PyTorch, and dimensions of Heddle for them."""

import dataclasses

import sympy
import torch

import heddle

# The largest size that a compiled part is for, where PyTorch knows no bound: a power of two, at least this and four times the
# size of the first call. A call beyond it compiles anew.
_LEAST_LARGEST = 64


def expression_of(extent):
    """An extent as a number, or as an expression of symbols."""
    if not isinstance(extent, torch.SymInt):
        return int(extent)
    expression = extent.node.expr
    return int(expression) if expression.is_number else expression


def at(extent, values):
    """The number that an extent is where symbols have `values`."""
    return extent if isinstance(extent, int) else int(extent.xreplace(values))


def expressions_of(value):
    """The extents of a tensor, or the number that an argument is."""
    if isinstance(value, torch.Tensor):
        return [expression_of(e) for e in value.shape]
    return [expression_of(value)] if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool) else []


@dataclasses.dataclass
class Place:
    """Where calls give a symbol: argument `position`, which is a number (axis None) or a tensor with that extent."""

    symbol: sympy.Symbol
    position: int
    axis: int | None
    least: int    # the smallest size
    largest: int | None  # None: not known

    def size(self, args):
        return args[self.position] if self.axis is None else args[self.position].shape[self.axis]


def places_of(placeholders):
    """The places of all symbols of the arguments of a graph; None where one has none, or PyTorch knows nothing about it."""
    found, missing = {}, set()
    for position, node in enumerate(placeholders):
        value = node.meta.get("val")
        for axis, expression in enumerate(expressions_of(value)):
            if isinstance(expression, int):
                continue
            missing |= expression.free_symbols
            if expression.is_symbol and expression not in found:
                symint = value.shape[axis] if isinstance(value, torch.Tensor) else value
                bounds = symint.node.shape_env.bound_sympy(expression)
                if symint.node.hint is None:
                    return None
                largest = int(bounds.upper) if bounds.upper.is_Integer else None
                found[expression] = Place(expression, position, axis if isinstance(value, torch.Tensor) else None,
                                          max(1, int(bounds.lower)), largest)
    return list(found.values()) if missing <= set(found) else None


def dimension_for(place, size):
    """A dimension of Heddle for a symbol that has `size` now; None where it has one size only."""
    largest = _LEAST_LARGEST
    while largest < 4 * size:
        largest *= 2
    if place.largest is not None:
        largest = min(largest, place.largest)
    return heddle.dim(str(place.symbol), place.least, largest) if largest > place.least else None
