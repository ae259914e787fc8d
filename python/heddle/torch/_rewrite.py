"""Rewrites of a graph before it is cut into parts."""

import contextlib
import operator

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ._layers import product_of_heads, product_of_rows
from ._sizes import expression_of

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)


def _shape(node):
    return [expression_of(extent) for extent in node.meta["val"].shape]


def _is_view(node):
    return isinstance(node, torch.fx.Node) and node.target in _VIEWS


def _rows_of(node):
    """(bias or None, x, weight) of a product whose rows a view made of x; None for other nodes."""
    if node.target not in (aten.mm.default, aten.addmm.default) or node.kwargs:
        return None
    bias, rows, weight = node.args if node.target == aten.addmm.default else (None, *node.args)
    plain = bias is None or bias.meta["val"].dim() == 1
    return (bias, rows.args[0], weight) if _is_view(rows) and plain else None


def _put(product, node, views):
    """Puts a product, which has the shape of all views of a node, in their place and in that of the node."""
    product.meta = dict(views[0].meta)
    for view in views:
        view.replace_all_uses_with(product)
        node.graph.erase_node(view)
    node.graph.erase_node(node)


def keep_leading_dims(graph_module):
    """Products of all rows of a tensor with a symbol among its leading extents, without the view that makes one extent of them:

        view(x, [s0 * s1, k]) -> addmm -> view(.., [s0, s1, n])    becomes    product_of_rows(x, weight, bias)

    because a product of symbols is no extent of Heddle, and of a row of 2 * s0 it is not known which of the two it belongs to.
    """
    graph = graph_module.graph
    for node in list(graph.nodes):
        found, users = _rows_of(node), list(node.users)
        if found is None or not users or not all(_is_view(user) and _shape(user) == _shape(users[0]) for user in users):
            continue
        bias, x, weight = found
        *lead, columns = _shape(users[0])
        if all(isinstance(extent, int) for extent in lead) or columns != _shape(node)[-1]:
            continue
        first = next(n for n in node.graph.nodes if n in node.users)
        depth = weight.meta["val"].shape[0]
        with graph.inserting_before(first):
            if _shape(x) != [*lead, depth]:
                meta = {"val": x.meta["val"].reshape([*first.meta["val"].shape[:-1], depth])}
                x = graph.call_function(aten.view.default, (x, [*first.args[1][:-1], depth]))
                x.meta = meta
            product = graph.call_function(product_of_rows, (x, weight, bias, False))
        _put(product, node, users)
    graph.eliminate_dead_code()
    graph_module.recompile()


def _heads_of(node):
    """x of a view that makes one extent of all leading ones of x; None for other nodes."""
    x = node.args[0] if _is_view(node) else None
    return x if x is not None and len(_shape(x)) > 3 and _shape(x)[-2:] == _shape(node)[-2:] else None


def keep_heads(graph_module):
    """Products of batches and heads, without the views that make one extent of both:

        view(bmm(view(q, [b * h, m, k]), view(k, [b * h, k, n])), [b, h, m, n])    becomes    product_of_heads(q, k)

    so that the chain with the softmax between two of them has one shape, and is attention.
    """
    graph = graph_module.graph
    for node in graph.find_nodes(op="call_function", target=aten.bmm.default):
        x, y = (_heads_of(operand) for operand in node.args)
        users = list(node.users)
        if x is None or y is None or _shape(x)[:-2] != _shape(y)[:-2]:
            continue
        made = [*_shape(x)[:-1], _shape(y)[-1]]
        if not users or not all(_is_view(user) and _shape(user) == made for user in users):
            continue
        with graph.inserting_before(node):
            product = graph.call_function(product_of_heads, (x, y))
        _put(product, node, users)
    graph.eliminate_dead_code()
    graph_module.recompile()


def _is_transposed(node):
    """Whether a node is the transpose of a matrix."""
    if node.target is aten.permute.default:
        return [axis % 2 for axis in node.args[1]] == [1, 0] if node.meta["val"].dim() == 2 else False
    return node.target is aten.t.default and node.meta["val"].dim() == 2


def read_weights_as_they_lie(graph_module):
    """Products with a transposed weight, as those of linear layers, with the weight itself:

        addmm(bias, x, permute(weight, [1, 0]))    becomes    product_of_rows(x, weight, bias, True)

    Rules of products know both forms, but not a transpose that comes before.
    """
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.target is product_of_rows:
            x, weight, bias, _ = node.args
        elif node.target in (aten.mm.default, aten.addmm.default) and not node.kwargs:
            bias, x, weight = node.args if node.target is aten.addmm.default else (None, *node.args)
        else:
            continue
        if not _is_transposed(weight):
            continue
        with graph.inserting_before(node):
            product = graph.call_function(product_of_rows, (x, weight.args[0], bias, True))
        product.meta = dict(node.meta)
        node.replace_all_uses_with(product)
        graph.erase_node(node)
    graph.eliminate_dead_code()
    graph_module.recompile()


def _storage(node):
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _storage_of(node):
    """The node that made the storage in which the tensor of a node lies, or the argument of the graph that is in it."""
    while True:
        sources = (node.args[0] if node.target is operator.getitem else node).all_input_nodes
        shared = next((n for n in sources if _storage(n) == _storage(node)), None)
        if shared is None:
            return node
        node = shared


def stride_over_storages(graph_module):
    """as_strided of a view, whose offset counts in the storage, as one of the tensor that made the storage:

        y = mul(x, 2); as_strided(slice(y, 0, 1), size, stride, 3)    becomes    as_strided(y, size, stride, 3)

    because what a part computes has a storage of its own. An argument stays as it is where it lies, which calls may change.
    """
    graph = graph_module.graph
    for node in graph.find_nodes(op="call_function", target=aten.as_strided.default):
        x, size, stride, *rest = node.args
        offset, base = rest[0] if rest else node.kwargs.get("storage_offset"), _storage_of(x)
        if offset is None:
            offset = x.meta["val"].storage_offset()
            if base.op == "placeholder":  # calls may give it other offsets than the traced one
                with graph.inserting_before(node):
                    start = graph.call_function(aten.sym_storage_offset.default, (base,))
                    offset = graph.call_function(operator.add, (start, offset - base.meta["val"].storage_offset()))
                start.meta, offset.meta = {"val": base.meta["val"].storage_offset()}, {"val": x.meta["val"].storage_offset()}
        node.args, node.kwargs = (base, size, stride, offset), {}
    graph.eliminate_dead_code()
    graph_module.recompile()


def drop_aliases(graph_module):
    """Aliases, as graphs for training have of what they keep, are what they stand for. Otherwise a part writes it twice."""
    graph = graph_module.graph
    for node in graph.find_nodes(op="call_function", target=aten.alias.default):
        if node.args[0].op == "call_function":
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    graph_module.recompile()


def _device_of(graph):
    """The device of a graph: the GPU where any of its tensors is there."""
    devices = {node.meta["val"].device for node in graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)}
    return next((device for device in devices if device.type == "cuda"), torch.device("cpu"))


def _elsewhere(value, device):
    """The value of a node as if it were on another device."""
    with getattr(value, "fake_mode", None) or contextlib.nullcontext():
        return value.to(device)


def write_numbers_out(graph_module):
    """Attributes of the graph that are numbers, as torch.tensor(2.0) leaves them, as what makes them:

        get_attr("_tensor_constant0")    becomes    full([], 2.0)    on the device of the graph

    What is computed from them alone is then a constant, and nothing is copied from the CPU at each call.
    """
    graph, device, made = graph_module.graph, _device_of(graph_module.graph), set()
    for node in list(graph.nodes):
        value = node.meta.get("val")
        number = getattr(graph_module, node.target, None) if node.op == "get_attr" else None
        if isinstance(number, torch.Tensor) and number.dim() == 0 and isinstance(value, torch.Tensor):
            with unset_fake_temporarily(), graph.inserting_before(node):
                full = graph.call_function(aten.full.default, ([], number.item()), {"dtype": number.dtype, "device": device})
            full.meta = {**node.meta, "val": _elsewhere(value, device)}
            node.replace_all_uses_with(full)
            graph.erase_node(node)
            made.add(full)
        elif node.all_input_nodes and all(n in made for n in node.all_input_nodes) and isinstance(value, torch.Tensor):
            node.meta["val"] = _elsewhere(value, device)
            made.add(node)
    graph_module.recompile()


def _made_on_the_cpu(graph):
    """The nodes on the CPU that are computed from no argument, and that only nodes of the same kind, or nodes on a GPU, read."""
    alone, own = set(), []
    for node in graph.nodes:
        draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())  # by the generator of its device
        if node.op == "call_function" and not draws and all(n in alone for n in node.all_input_nodes):
            alone.add(node)
            own.append(node)
    is_on = lambda node, kind: isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].device.type == kind
    found = set()
    for node in reversed(own):
        if is_on(node, "cpu") and all(user in found or is_on(user, "cuda") for user in node.users):
            found.add(node)
    return found


def make_on_the_gpu(graph_module):
    """What a graph on a GPU computes on the CPU from no argument, and then copies, such as a table of positions, is made on the GPU:

        _to_copy(arange(8, device=cpu), device=cuda)    becomes    _to_copy(arange(8, device=cuda), device=cuda)

    It is then part of what Heddle computes, and nothing is copied at each call.
    """
    graph, device = graph_module.graph, _device_of(graph_module.graph)
    if device.type != "cuda":
        return
    moved = _made_on_the_cpu(graph)
    for node in graph.nodes:
        if node in moved:
            if not node.all_input_nodes or node.kwargs.get("device") is not None:
                node.kwargs = {**node.kwargs, "device": device}
            node.meta["val"] = _elsewhere(node.meta["val"], device)
    graph_module.recompile()


def rewrite(graph_module):
    """All rewrites."""
    write_numbers_out(graph_module)
    make_on_the_gpu(graph_module)
    drop_aliases(graph_module)
    stride_over_storages(graph_module)
    keep_leading_dims(graph_module)
    keep_heads(graph_module)
    read_weights_as_they_lie(graph_module)
