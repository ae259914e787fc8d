"""Rules of sorts. Equal elements keep their order."""

from heddle import ops

from ._rules import as_number, aten, axis_of, cast_to, rule


@rule(aten.topk.default)
def _topk(x, k, axis=-1, largest=True, sorted=True):
    values, places = ops.top_k(as_number(x), k, axis_of(x, axis), largest)
    return cast_to(values, x.dtype), places


@rule(aten.sort.default)
def _sort(x, axis=-1, descending=False):
    values, places = ops.sort(as_number(x), axis_of(x, axis), descending)
    return cast_to(values, x.dtype), places


@rule(aten.sort.stable)
def _sort_stably(x, stable=None, dim=-1, descending=False):
    return _sort(x, dim, descending)
