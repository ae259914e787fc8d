"""Rules of sorts. Equal elements keep their order."""

from heddle import ops

from ._rules import as_number, aten, axis_of, rule


@rule(aten.topk.default)
def _topk(x, k, axis=-1, largest=True, sorted=True):
    return ops.top_k(as_number(x), k, axis_of(x, axis), largest)


@rule(aten.sort.default)
def _sort(x, axis=-1, descending=False):
    return ops.sort(as_number(x), axis_of(x, axis), descending)


@rule(aten.sort.stable)
def _sort_stably(x, stable=None, dim=-1, descending=False):
    return _sort(x, dim, descending)
