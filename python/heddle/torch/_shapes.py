"""Rules of operators that move elements, and of gathers."""

import torch

import heddle
from heddle import ops

from ._rules import aten, axes_of, axis_of, cast_to, order_of, rule, shape_of


# ---- shapes ----

def total(shape):
    product = 1
    for extent in shape:
        product *= extent
    return product


@rule(aten.view.default, aten._unsafe_view.default, aten.reshape.default, free=True)
def _view(x, shape):
    shape = list(shape)
    if -1 in shape:
        rest = total(extent for extent in shape if extent != -1)
        shape[shape.index(-1)] = total(shape_of(x)) // max(rest, 1)
    return ops.reshape(x, shape) if shape != shape_of(x) else x


@rule(aten.permute.default, free=True)
def _permute(x, order):
    return ops.transpose(x, [axis_of(x, a) for a in order])


@rule(aten.t.default, free=True)
def _t(x):
    return ops.transpose(x, [1, 0]) if x.ndim == 2 else x


@rule(aten.transpose.int, free=True)
def _transpose(x, a, b):
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return ops.transpose(x, order)


@rule(aten.expand.default, free=True)
def _expand(x, shape, implicit=False):
    own = [1] * (len(shape) - x.ndim) + shape_of(x)
    return ops.broadcast_to(x, [o if s == -1 else s for s, o in zip(shape, own)])


@rule(aten.unsqueeze.default, free=True)
def _unsqueeze(x, axis):
    return ops.expand_dims(x, [axis % (x.ndim + 1)])


@rule(aten.squeeze.dim, aten.squeeze.dims, free=True)
def _squeeze(x, axes):
    axes = [a for a in axes_of(x, axes) if shape_of(x)[a] == 1]
    return ops.squeeze(x, axes) if axes else x


@rule(aten.slice.Tensor, free=True)
def _slice(x, axis=0, start=None, end=None, step=1):
    return ops.slice(x, [start or 0], [shape_of(x)[axis] if end is None else end], [axis_of(x, axis)], [step])


def _between(x, axis, start, end, middle):
    """x with `middle` in place of start..end along an axis."""
    extent = shape_of(x)[axis]
    parts = [ops.slice(x, [0], [start], [axis])] if start > 0 else []
    parts.append(cast_to(middle, x.dtype))
    if end < extent:
        parts.append(ops.slice(x, [end], [extent], [axis]))
    return ops.concat(parts, axis) if len(parts) > 1 else parts[0]


def _place(position, extent):
    """A position of a slice, which may count from the end or lie beyond it."""
    return max(0, min(position + extent if position < 0 else position, extent))


@rule(aten.slice_scatter.default, free=True)
def _slice_scatter(x, source, axis=0, start=None, end=None, step=1):
    axis, extent = axis_of(x, axis), shape_of(x)[axis_of(x, axis)]
    start, end = _place(start or 0, extent), _place(extent if end is None else end, extent)
    if start >= end:
        return x
    return _between(x, axis, start, end, source) if step == 1 else _every(x, axis, start, end, step, cast_to(source, x.dtype))


def _every(x, axis, start, end, step, source):
    """x with `source` in place of each step-th element of start..end along an axis."""
    def element(*at):
        i = at[axis] - start
        count = shape_of(source)[axis]
        from_source = source[tuple(heddle.min(heddle.max(i // step, 0), count - 1) if d == axis else a for d, a in enumerate(at))]
        return heddle.select((at[axis] >= start) & (at[axis] < end) & (i % step == 0), from_source, x[at])

    return heddle.compute(tuple(shape_of(x)), element, "slice_scatter")


@rule(aten.select_scatter.default, free=True)
def _select_scatter(x, source, axis, index):
    axis = axis_of(x, axis)
    index %= shape_of(x)[axis]
    return _between(x, axis, index, index + 1, ops.expand_dims(source, [axis]))


def _as_strided_check(node):
    """Elements of a dense tensor that begins its storage. An argument of the graph may lie anywhere in its storage: see _rewrite.py."""
    x, size, stride, offset = node.args
    numbers = [*size, *stride, offset, *x.meta["val"].shape]
    begins = x.op != "placeholder" and x.meta["val"].storage_offset() == 0 and x.meta["val"].is_contiguous()
    if not begins or not all(isinstance(n, int) for n in numbers):
        return False
    return offset + sum((extent - 1) * step for extent, step in zip(size, stride)) < total(x.meta["val"].shape)


@rule(aten.as_strided.default, free=True, check=_as_strided_check)
def _as_strided(x, size, stride, offset):
    flat = ops.reshape(x, [total(shape_of(x))])
    place = lambda axes: sum((i * s for i, s in zip(axes, stride)), heddle.Expr(offset))
    return heddle.compute(tuple(size), lambda *axes: flat[place(axes)], "as_strided")


@rule(aten.select.int, free=True)
def _select(x, axis, index):
    axis, extent = axis_of(x, axis), shape_of(x)[axis]
    index = index % extent
    return ops.squeeze(ops.slice(x, [index], [index + 1], [axis]), [axis])


@rule(aten.cat.default, free=True)
def _cat(tensors, axis=0):
    tensors = [t for t in tensors if shape_of(t) != [0]]
    wanted = max((t.dtype for t in tensors), key=order_of)
    return ops.concat([cast_to(t, wanted) for t in tensors], axis_of(tensors[0], axis)) if len(tensors) > 1 else tensors[0]


@rule(aten.stack.default, free=True)
def _stack(tensors, axis=0):
    return ops.stack(list(tensors), axis % (tensors[0].ndim + 1))


@rule(aten.split_with_sizes.default, free=True)
def _split(x, sizes, axis=0):
    return tuple(ops.split(x, list(sizes), axis_of(x, axis)))


@rule(aten.split.Tensor, free=True)
def _split_even(x, size, axis=0):
    axis, extent = axis_of(x, axis), shape_of(x)[axis]
    return tuple(ops.split(x, [min(size, extent - at) for at in range(0, extent, size)], axis))


@rule(aten.unbind.int, free=True)
def _unbind(x, axis=0):
    return tuple(_select(x, axis, i) for i in range(shape_of(x)[axis]))


@rule(aten.repeat.default, free=True)
def _repeat(x, repeats):
    missing = len(repeats) - x.ndim
    return ops.tile(ops.reshape(x, [1] * missing + shape_of(x)) if missing else x, list(repeats))


@rule(aten.constant_pad_nd.default, free=True)
def _pad(x, amounts, value=0.0):
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(amounts) // 2):
        before[x.ndim - 1 - i], after[x.ndim - 1 - i] = amounts[2 * i], amounts[2 * i + 1]
    return ops.pad(x, before, after, "constant", float(value))


@rule(aten.flip.default, free=True)
def _flip(x, axes):
    return ops.flip(x, axes_of(x, axes))


@rule(aten.roll.default, free=True)
def _roll(x, shifts, axes=()):
    shifts, axes = ([value] if isinstance(value, int) else value for value in (shifts, axes))
    if not axes:
        return ops.reshape(ops.roll(ops.reshape(x, [total(shape_of(x))]), shifts[0], 0), shape_of(x))
    for shift, axis in zip(shifts, axes):
        x = ops.roll(x, shift, axis_of(x, axis))
    return x


@rule(aten.pixel_shuffle.default, free=True)
def _pixel_shuffle(x, factor):
    return ops.pixel_shuffle(x, factor)


@rule(aten.diagonal.default, free=True)
def _diagonal(x, offset=0, first=0, second=1):
    first, second, shape = axis_of(x, first), axis_of(x, second), shape_of(x)
    rows, columns = max(-offset, 0), max(offset, 0)
    others = [axis for axis in range(x.ndim) if axis not in (first, second)]

    def element(*at):
        index = dict(zip(others, at)) | {first: at[-1] + rows, second: at[-1] + columns}
        return x[tuple(index[axis] for axis in range(x.ndim))]

    extent = min(shape[first] - rows, shape[second] - columns)
    return heddle.compute((*(shape[axis] for axis in others), extent), element, "diagonal")


# ---- gathers ----

@rule(aten.embedding.default)
def _embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return ops.gather(weight, indices, 0)


@rule(aten.index_select.default)
def _index_select(x, axis, indices):
    return ops.gather(x, indices, axis_of(x, axis))


@rule(aten.gather.default)
def _gather(x, axis, indices, sparse_grad=False):
    return ops.gather_elements(x, indices, axis_of(x, axis))


def places_of(indices):
    """Tensors of integers, in their common shape, as one with the index of each dimension along its last axis."""
    rank = max(index.ndim for index in indices)
    shapes = [[1] * (rank - index.ndim) + shape_of(index) for index in indices]
    common = [max(extents) if min(extents) > 0 else 0 for extents in zip(*shapes)]
    return ops.concat([ops.expand_dims(ops.broadcast_to(cast_to(index, "i64"), common), [rank]) for index in indices], rank)


def indexed_dims(indices):
    return [axis for axis, index in enumerate(indices) if index is not None]


def indices_check(node):
    """Integers for dimensions that follow each other."""
    given = indexed_dims(node.args[1])
    integers = all(node.args[1][axis].meta["val"].dtype in (torch.int64, torch.int32) for axis in given)
    return integers and given == list(range(given[0], given[-1] + 1))


@rule(aten.index.Tensor, check=indices_check)
def _index(x, indices):
    given = indexed_dims(indices)
    if len(given) == 1:
        return ops.gather(x, indices[given[0]], given[0])
    indices, before = [indices[axis] for axis in given], given[0]
    places = places_of(indices)
    rank = places.ndim - 1
    others = [axis for axis in range(x.ndim) if axis not in given]
    gathered = ops.gather_nd(ops.transpose(x, [*given, *others]) if before else x, places)
    order = [*range(rank, rank + before), *range(rank), *range(rank + before, gathered.ndim)]
    return ops.transpose(gathered, order) if before else gathered
