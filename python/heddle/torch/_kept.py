"""What the forward graph of a training step keeps for the backward graph, and how it lies in memory."""

import torch
from functorch.compile import min_cut_rematerialization_partition

from ._layout import is_usual, order_of_strides
from ._rules import aten

_CONVOLUTIONS = (aten.convolution.default, aten.convolution_backward.default)
_POOLING = (aten.max_pool2d_with_indices.default, aten.avg_pool2d.default, aten._native_batch_norm_legit_functional.default)
_MOST_COPIES = 2  # joins of channels that read an image: with channels innermost each of them copies it
_INNERMOST = [0, 2, 3, 1]


def partition(joint, inputs, **options):
    """Cuts the graph of a step where least is kept. Images that are kept have their channels innermost, as they are computed: only the
    two graphs read them, and no caller knows their strides."""
    forward, backward = min_cut_rematerialization_partition(joint, inputs, **options)
    images = _images(forward.graph)
    results = forward.graph.output_node().args[0]
    seen = set(results[:options["num_fwd_outputs"]])
    kept = {node.name: node for node in results[options["num_fwd_outputs"]:] if node in images and node not in seen}
    for node in backward.graph.find_nodes(op="placeholder"):
        if node.name in kept:
            node.meta["order"] = kept[node.name].meta["order"] = _INNERMOST
    return forward, backward


def _is_image(node):
    """Whether a node is an image of several channels and pixels, whose elements lie as usual."""
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor) or value.dim() != 4:
        return False
    if not all(isinstance(extent, int) for extent in (*value.shape, *value.stride())):
        return False
    order = order_of_strides(value.shape, value.stride())
    return order is not None and is_usual(order) and value.shape[1] > 1 and value.shape[2] * value.shape[3] > 1


def _keeps_channels(node):
    """Whether each channel of the result is computed from the same channel of images."""
    source = node.args[0] if node.target.__name__ == "getitem" else node
    return torch.Tag.pointwise in getattr(source.target, "tags", ()) or source.target in _POOLING


def _images(graph):
    """The results of convolutions, and what is computed from their channels; none in a graph that often joins channels."""
    images = set()
    for node in graph.nodes:
        if _is_image(node) and (node.target in _CONVOLUTIONS or _keeps_channels(node) and images & _sources(node)):
            images.add(node)
    joined = lambda node: sum(user.target is aten.cat.default for user in node.users)
    return set() if any(joined(node) > _MOST_COPIES for node in images) else images


def _sources(node):
    """The tensors that a node is computed from; of a result of several those of all of them."""
    source = node.args[0] if node.target.__name__ == "getitem" else node
    return set(source.all_input_nodes)


def restore_orders(graph_module):
    """What a graph computes by itself, outside of parts, reads images as they lie in PyTorch."""
    graph = graph_module.graph
    for node in list(graph.nodes):
        others = [user for user in node.users if user.op == "call_function"]
        if "order" not in node.meta or not others:
            continue
        with graph.inserting_after(node):
            usual = graph.call_function(aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
        usual.meta = {key: value for key, value in node.meta.items() if key != "order"}
        for user in others:
            user.replace_input_with(node, usual)
    graph_module.recompile()
