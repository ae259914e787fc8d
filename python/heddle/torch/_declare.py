"""Graphs of core ATen as declarations."""

import operator

import torch

import heddle
from heddle import ops

from . import _elements, _layers, _shapes  # noqa: F401, they register their rules
from ._rules import CHECKS, DTYPES, RULES


def _values(node):
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [value]


def supports(node):
    """Whether a node of a graph can be declared."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        source = node.args[0]
        return isinstance(source, torch.fx.Node) and supports(source)
    if node.target not in RULES:
        return False
    tensors = [v for n in [node, *node.all_input_nodes] for v in _values(n) if isinstance(v, torch.Tensor)]
    if any(t.dtype not in DTYPES or t.layout != torch.strided for t in tensors):
        return False
    if len({t.device for t in tensors if t.dim() > 0}) > 1 or any(t.device.type not in ("cpu", "cuda") for t in tensors):
        return False
    check = CHECKS.get(node.target)
    return check is None or bool(check(node))


def declare(graph_module, args, weights):
    """The declaration of a graph at the shapes of `args`.

    Returns pairs (position, placeholder) of the inputs that calls pass, the outputs, and whether the graph returns a tuple. The
    arguments at `weights` are constants, by reference.
    """
    env, inputs, position = {}, [], 0
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            value = args[position]
            if isinstance(value, torch.Tensor):
                if position in weights and value.device.type == "cpu":
                    value = heddle.constant(value.detach(), node.name)
                else:
                    make = heddle.constant_placeholder if position in weights else heddle.placeholder
                    value = make(tuple(value.shape), value.dtype, node.name)
                    inputs.append((position, value))
            env[node] = value
            position += 1
        elif node.op == "call_function":
            of = torch.fx.map_arg((node.args, node.kwargs), lambda n: env[n])
            env[node] = of[0][0][of[0][1]] if node.target is operator.getitem else RULES[node.target](*of[0], **of[1])
        elif node.op == "output":
            results = node.args[0]
            is_tuple = isinstance(results, (tuple, list))
            outputs = _outputs([env[n] for n in (results if is_tuple else [results])], [t for _, t in inputs])
    used = heddle.placeholders(outputs)
    return [(i, t) for i, t in inputs if t in used], outputs, is_tuple


def _outputs(results, inputs):
    """An output is a stage of its own, and named once."""
    outputs = []
    for result in results:
        if result in inputs or result in outputs or result.values is not None:
            result = ops.identity(result)
        outputs.append(result)
    return outputs
