"""Graphs of core ATen as declarations."""

import dataclasses
import operator

import torch

import heddle
from heddle import ops

from . import _elements, _layers, _reductions, _scatters, _shapes, _sorts, _training  # noqa: F401, they register their rules
from ._constants import constants_of
from ._layout import inverse, is_usual, order_of_strides
from ._rules import CHECKS, DTYPES, RULES, TYPES, cast_to


def _values(node):
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _is_empty(tensor):
    return isinstance(tensor, torch.Tensor) and any(isinstance(extent, int) and extent == 0 for extent in tensor.shape)


def supports(node):
    """Whether a node of a graph can be declared."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        source = node.args[0]
        return isinstance(source, torch.fx.Node) and supports(source) and not _is_empty(node.meta["val"])
    if node.target not in RULES:
        return False
    results = _values(node) if isinstance(node.meta.get("val"), torch.Tensor) else _values(node)[:1]  # others may be empty
    tensors = [v for v in results + [v for n in node.all_input_nodes for v in _values(n)] if isinstance(v, torch.Tensor)]
    if any(t.dtype not in DTYPES or t.layout != torch.strided or _is_empty(t) for t in tensors):
        return False
    if len({t.device for t in tensors if t.dim() > 0}) > 1 or any(t.device.type not in ("cpu", "cuda") for t in tensors):
        return False
    check = CHECKS.get(node.target)
    return check is None or bool(check(node))


@dataclasses.dataclass
class Like:
    """What a declaration knows of a tensor that calls pass: its extents, its type, and the order in which its elements are dense."""

    shape: tuple
    dtype: torch.dtype
    order: list | None  # None: the usual one

    @staticmethod
    def of(tensor):
        return Like(tuple(tensor.shape), tensor.dtype, order_of(tensor))


@dataclasses.dataclass
class Input:
    """A tensor that calls pass, with its dimensions in `order`."""

    position: int
    tensor: heddle.Tensor
    order: list | None


@dataclasses.dataclass
class Output:
    """A result. It is computed with its dimensions in `order`, so that its strides are those that PyTorch expects."""

    tensor: heddle.Tensor
    order: list | None
    node: torch.fx.Node

    @property
    def dtype(self):
        return TYPES[self.tensor.dtype]


@dataclasses.dataclass
class Declaration:
    inputs: list
    outputs: list
    is_tuple: bool  # whether the graph returns a tuple


def order_of(tensor):
    """The order of a tensor whose elements are dense; None where that is the usual one, or where there is none."""
    if tensor.is_contiguous():
        return None
    order = order_of_strides(tensor.shape, tensor.stride())
    return None if order is None or is_usual(order) else order


def _order_of_result(node):
    """The same for what PyTorch expects of a node, at the sizes with which it was traced, or for what the backward pass alone reads."""
    if "order" in node.meta:
        return node.meta["order"]
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    numbers = lambda extents: [e.node.hint if isinstance(e, torch.SymInt) else e for e in extents]
    shape, strides = numbers(value.shape), numbers(value.stride())
    order = None if None in shape or None in strides else order_of_strides(shape, strides)
    return None if order is None or is_usual(order) else order


def _read(tensor, order):
    """A tensor that is passed in `order`, with its dimensions in their own order."""
    return tensor if order is None else ops.transpose(tensor, inverse(order))


def _input(position, like, name, is_weight=False):
    """What is passed, and what the graph reads of it."""
    shape = like.shape if like.order is None else tuple(like.shape[d] for d in like.order)
    tensor = (heddle.constant_placeholder if is_weight else heddle.placeholder)(shape, like.dtype, name)
    return Input(position, tensor, like.order), _read(tensor, like.order)


def _weight(position, value, name):
    """The same for a weight. On the CPU it is a constant that shares the elements, and nothing is passed."""
    if value.device.type != "cpu":
        return _input(position, Like.of(value), name, True)
    order = order_of(value)
    shared = value.detach() if order is None else value.detach().permute(order)
    return None, _read(heddle.constant(shared, name), order)


@dataclasses.dataclass
class Held:
    """What a declaration does not get from calls."""

    weights: dict    # by position among the arguments: an Input or None, and what the graph reads
    constants: dict  # by node: what it is

    @staticmethod
    def of(graph_module, args, weights):
        """weights: the positions of weights among the arguments of a graph."""
        placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        return Held({i: _weight(i, args[i], placeholders[i].name) for i in weights}, constants_of(graph_module.graph))


def _value(target):
    """What makes the value of a node: a rule, or for numbers that depend on sizes the function of Python itself."""
    if target is torch.ops.aten.sym_size.int:
        return lambda x, axis: x.shape[axis]
    return RULES.get(target, target)


def _typed(made, value):
    """The value of a node, in the types that PyTorch gives it."""
    if isinstance(made, tuple) and isinstance(value, (tuple, list)):
        return tuple(_typed(m, v) for m, v in zip(made, value))
    if isinstance(made, heddle.Tensor) and isinstance(value, torch.Tensor) and value.dtype in DTYPES:
        return cast_to(made, DTYPES[value.dtype])
    return made


def declare(graph_module, values, held):
    """The declaration of a graph.

    values    for each argument a Like or a number; what stands for weights does not matter
    held      the weights and constants of the graph
    """
    env, inputs, position = dict(held.constants), [], 0
    for node in graph_module.graph.nodes:
        if node in env:
            continue
        if node.op == "placeholder":
            passed, read = None, values[position]
            if position in held.weights:
                passed, read = held.weights[position]
            elif isinstance(read, Like):
                passed, read = _input(position, read, node.name)
            if passed is not None:
                inputs.append(passed)
            env[node] = read
            position += 1
        elif node.op == "call_function":
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: env[n])
            env[node] = _typed(_value(node.target)(*args, **kwargs), node.meta.get("val"))
        elif node.op == "output":
            results = node.args[0]
            is_tuple = isinstance(results, (tuple, list))
            outputs = _outputs([(n, env[n]) for n in (results if is_tuple else [results])], [i.tensor for i in inputs])
    used = heddle.placeholders([o.tensor for o in outputs])
    return Declaration([i for i in inputs if i.tensor in used], outputs, is_tuple)


def _outputs(results, inputs):
    """An output is a stage of its own, and named once."""
    outputs = []
    for node, result in results:
        order = _order_of_result(node)
        if order is not None:
            result = ops.transpose(result, order)
        if result in inputs or any(result == o.tensor for o in outputs) or result.values is not None:
            result = ops.identity(result)
        outputs.append(Output(result, order, node))
    return outputs


def declare_over(dims, declare_at):
    """The declaration over dimensions of those that declare_at(size, ...) gives. Throws heddle.Error where there is none."""
    made = []

    def tensors_at(*sizes):
        made.append(declare_at(*sizes))
        return [o.tensor for o in made[-1].outputs]

    outputs, pairs = heddle.generalize(dims, tensors_at)
    over = dict(pairs)
    inputs = [dataclasses.replace(i, tensor=over[i.tensor]) for i in made[0].inputs]
    outputs = [dataclasses.replace(o, tensor=t) for o, t in zip(made[0].outputs, outputs)]
    return Declaration(inputs, outputs, made[0].is_tuple)
