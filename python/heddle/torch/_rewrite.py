"""Rewrites of a graph before it is cut into parts."""

import torch

from ._layers import product_of_rows
from ._sizes import expression_of

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)


def _shape(node):
    return [expression_of(extent) for extent in node.meta["val"].shape]


def _is_view(node):
    return isinstance(node, torch.fx.Node) and node.target in _VIEWS


def keep_leading_dims(graph_module):
    """Products of all rows of a tensor with a symbol among its leading extents, without the view that makes one extent of them:

        view(x, [s0 * s1, k]) -> addmm -> view(.., [s0, s1, n])    becomes    product_of_rows(x, weight, bias)

    because a product of symbols is no extent of Heddle, and of a row of 2 * s0 it is not known which of the two it belongs to.
    """
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.target not in (aten.mm.default, aten.addmm.default) or node.kwargs:
            continue
        bias, rows, weight = node.args if node.target == aten.addmm.default else (None, *node.args)
        if not _is_view(rows) or (bias is not None and bias.meta["val"].dim() != 1):
            continue
        x = rows.args[0]
        lead = _shape(x)[:-1]
        if all(isinstance(extent, int) for extent in lead) or _shape(x)[-1] != _shape(rows)[-1]:
            continue
        columns = _shape(node)[-1]
        if not all(_is_view(user) and _shape(user) == [*lead, columns] for user in node.users):
            continue
        with graph.inserting_before(node):
            product = graph.call_function(product_of_rows, (x, weight, bias))
        for user in list(node.users):
            product.meta = dict(user.meta)
            user.replace_all_uses_with(product)
            graph.erase_node(user)
        graph.erase_node(node)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
