"""What a graph computes from none of its arguments, such as masks and positions: constants, which PyTorch computes once."""

import torch

import heddle

# A constant of fewer nodes is a formula, which costs its readers less than a read of memory.
_LEAST_NODES = 4
# One of more elements may be a small one that was expanded.
_MOST_ELEMENTS = 1 << 22


def _sources(graph):
    """By node that depends on no argument, the nodes that it is computed from, itself among them."""
    sources = {}
    for node in graph.nodes:
        if node.op == "call_function" and all(n in sources for n in node.all_input_nodes):
            sources[node] = {node}.union(*(sources[n] for n in node.all_input_nodes))
    return sources


def _is_worth_it(node, sources):
    value = node.meta.get("val")
    is_read = any(user not in sources for user in node.users)
    return is_read and isinstance(value, torch.Tensor) and len(sources[node]) >= _LEAST_NODES and value.numel() <= _MOST_ELEMENTS


def constants_of(graph):
    """By node, the constants of a graph as tensors of a declaration. They are computed on the CPU, whatever the device of the graph."""
    sources = _sources(graph)
    wanted = [node for node in sources if _is_worth_it(node, sources)]
    needed, env = set().union(*(sources[node] for node in wanted)), {}
    with torch.no_grad():
        for node in sources:
            if node in needed:
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: env[n])
                if kwargs.get("device") is not None:
                    kwargs = {**kwargs, "device": torch.device("cpu")}
                env[node] = node.target(*args, **kwargs)
    return {node: heddle.constant(env[node].contiguous(), node.name) for node in wanted}
