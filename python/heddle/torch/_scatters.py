"""Rules of scatters, in which elements go to places that are data. Of equal places sums have a fixed order."""

import torch

import heddle
from heddle import ops

from ._layout import inverse
from ._rules import aten, axis_of, cast_to, rule, shape_of
from ._shapes import indexed_dims, indices_check, places_of, total


def _one_for_each_row(node):
    """A check: one place along the axis for each element of the others, as labels have."""
    x, axis, indices = (a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in node.args[:3])
    return x.dim() > 0 and list(indices.shape) == [1 if d == axis % x.dim() else n for d, n in enumerate(x.shape)]


@rule(aten.scatter.value, check=_one_for_each_row)
def _scatter_value(x, axis, indices, value):
    axis = axis_of(x, axis)

    def element(*at):
        chosen = indices[tuple(0 if d == axis else i for d, i in enumerate(at))]
        return heddle.select(chosen == heddle.cast(indices.dtype, at[axis] + 0), heddle.cast(x.dtype, heddle.Expr(value)), x[at])

    return heddle.compute(tuple(shape_of(x)), element, "scatter")


def _sources_for_all_indices(node):
    """A check: one source for each index."""
    index, source = (node.args[i].meta["val"].shape for i in (2, 3))
    return len(index) > 0 and list(index) == list(source)


@rule(aten.scatter.src, check=_sources_for_all_indices)
def _scatter(x, axis, indices, source):
    return ops.scatter_elements(x, indices, source, axis_of(x, axis))


@rule(aten.scatter_add.default, check=_sources_for_all_indices)
def _scatter_add(x, axis, indices, source):
    return ops.scatter_elements(x, indices, source, axis_of(x, axis), "add")


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


def _reduces(node):
    """A check: one source for each index; means of floats alone, since those of integers are rounded down."""
    x = node.args[0].meta["val"]
    return _sources_for_all_indices(node) and (node.args[4] != "mean" or x.dtype.is_floating_point)


def _neutral(reduce, x):
    """What changes no result of the reduction, in the shape of `x`."""
    if reduce in ("sum", "mean"):
        return ops.full(shape_of(x), 0, x.dtype)
    if reduce == "prod":
        return ops.full(shape_of(x), 1, x.dtype)
    value = heddle.lowest_value(x.dtype) if reduce == "amax" else heddle.highest_value(x.dtype)
    return heddle.compute(tuple(shape_of(x)), lambda *at: value, "neutral")


@rule(aten.scatter_reduce.two, check=_reduces)
def _scatter_reduce(x, axis, indices, source, reduce, include_self=True):
    axis, kind = axis_of(x, axis), _REDUCTIONS[reduce]
    if include_self and reduce != "mean":
        return ops.scatter_elements(x, indices, source, axis, kind)
    found = ops.scatter_elements(x if include_self else _neutral(reduce, x), indices, source, axis, kind)
    wide = "f64" if x.dtype == "f64" else "f32"  # holds counts that 16 bits do not
    count = ops.scatter_elements(ops.full(shape_of(x), 0, wide), indices, ops.full(shape_of(source), 1, wide), axis, "add")
    if reduce == "mean":
        others = ops.maximum(count, ops.full([], 1, wide)) if not include_self else count + 1
        found = cast_to(cast_to(found, wide) / others, x.dtype)
    return found if include_self else ops.where(ops.greater(count, ops.full([], 0, wide)), found, x)


@rule(aten.index_put.default, check=indices_check)
def _index_put(x, indices, values, accumulate=False):
    given = indexed_dims(indices)
    places, before, after = places_of([indices[axis] for axis in given]), given[0], given[-1] + 1
    common, shape = shape_of(places)[:-1], shape_of(x)
    values = ops.broadcast_to(cast_to(values, x.dtype), [*shape[:before], *common, *shape[after:]])
    if before:  # the dimensions of the places come first
        rank, lead = len(common), list(range(before))
        order = [*given, *lead, *range(after, x.ndim)]
        x = ops.transpose(x, order)
        values = ops.transpose(values, [*range(before, before + rank), *lead, *range(before + rank, values.ndim)])
    result = ops.scatter_nd(x, places, values, "add" if accumulate else "replace")
    return ops.transpose(result, inverse(order)) if before else result


@rule(aten.index_add.default, check=lambda node: node.args[0].meta["val"].dim() > 0 and node.args[2].meta["val"].dim() == 1)
def _index_add(x, axis, places, values, alpha=1):
    values = values if alpha == 1 else values * alpha
    return _index_put(x, [None] * axis_of(x, axis) + [places], values, accumulate=True)


def _elements_for_all_places(node):
    """A check: as many elements as there may be places. Of fewer PyTorch says whether they are enough."""
    x, mask, source = (a.meta["val"] for a in node.args)
    sizes = [*x.shape, *mask.shape, *source.shape]
    return all(isinstance(n, int) for n in sizes) and 0 < total(x.shape) <= total(source.shape)


@rule(aten.masked_scatter.default, check=_elements_for_all_places)
def _masked_scatter(x, mask, source):
    """The elements of `source`, in their order, where the mask holds: element i goes to the i-th place."""
    shape = shape_of(x)
    mask = ops.reshape(ops.broadcast_to(cast_to(mask, "bool"), shape), [total(shape)])
    source = ops.reshape(cast_to(source, x.dtype), [total(shape_of(source))])
    place = ops.maximum(ops.cumsum(cast_to(mask, "i64"), 0) - 1, ops.full([], 0, "i64"))
    return ops.reshape(ops.where(mask, ops.take(source, place), ops.reshape(x, [total(shape)])), shape)
