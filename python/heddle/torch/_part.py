"""Cuts a graph into parts for Heddle and the rest, and makes the parts callable."""

import collections
import logging
import threading

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

import heddle

from ._declare import declare, supports
from ._rules import FREE, HEAVY, TYPES

log = logging.getLogger("heddle.torch")

# A part without a product or a convolution is left to PyTorch where it has fewer nodes: a call of Heddle costs some microseconds.
_LEAST_NODES = 4


class _Support(OperatorSupportBase):
    def is_node_supported(self, submodules, node):
        return supports(node)


class Part(torch.nn.Module):
    """A part of a graph, as a function of tensors. It is declared and compiled for each set of shapes that it is called with."""

    def __init__(self, graph_module, weights, options):
        super().__init__()
        self.graph_module, self.weights, self.options = graph_module, weights, options
        placeholders = sum(node.op == "placeholder" for node in graph_module.graph.nodes)
        self.passed = [i for i in range(placeholders) if i not in weights]
        self.compiled = {}
        self.lock = threading.Lock()

    def forward(self, *args):
        key = tuple(_kind(args[i]) for i in self.passed)
        entry = self.compiled.get(key)
        if entry is None:
            with self.lock:
                entry = self.compiled.get(key) or self._compile(key, args)
        elif entry.weights_differ(args):
            with self.lock:
                entry = self._compile(key, args)
        return entry(args)

    def _compile(self, key, args):
        entry = self.compiled[key] = _Compiled(self, args)
        return entry


class _Compiled:
    def __init__(self, part, args):
        self.weights = [(i, args[i].data_ptr(), args[i]) for i in sorted(part.weights)]
        self.versions = [_version(w) for _, _, w in self.weights]
        inputs, outputs, self.is_tuple = declare(part.graph_module, args, part.weights)
        self.inputs = [i for i, _ in inputs]
        target = "cuda" if any(isinstance(a, torch.Tensor) and a.is_cuda for a in args) else None
        self.network = heddle.Network(outputs, [t for _, t in inputs], target=target)
        if "budget" in part.options:
            self.network.tune(part.options["budget"], log=part.options.get("log"), progress=False)
        self.kernel = self.network.kernel
        self.outputs = [(t.shape, TYPES[t.dtype]) for t in outputs]

    def weights_differ(self, args):
        """Whether other tensors are weights now. Weights that were changed in place are read anew."""
        if any(args[i].data_ptr() != pointer for i, pointer, _ in self.weights):
            return True
        versions = [_version(args[i]) for i, _, _ in self.weights]
        if versions != self.versions:
            self.versions = versions
            self.network.refresh()
        return False

    def __call__(self, args):
        if not self.inputs:  # no array says that the outputs are tensors of torch
            outputs = tuple(torch.empty(shape, dtype=dtype) for shape, dtype in self.outputs)
            self.kernel(*outputs)
            return outputs if self.is_tuple else outputs[0]
        result = self.kernel(*[args[i] for i in self.inputs])
        return (result,) if self.is_tuple and not isinstance(result, tuple) else result


def _kind(argument):
    """What a part is compiled for: a number, or the shape, type and device of a tensor."""
    if isinstance(argument, torch.Tensor):
        return argument.shape, argument.dtype, argument.device
    return argument


def _version(tensor):
    return 0 if tensor.is_inference() else tensor._version


def _worth_it(nodes):
    if any(node.target in HEAVY for node in nodes):
        return True
    return sum(node.target not in FREE for node in nodes) >= _LEAST_NODES


def _say(graph_module, parts):
    if not log.isEnabledFor(logging.INFO):
        return
    taken = {node for part in parts for node in part.nodes}
    left = [node for node in graph_module.graph.nodes if node.op == "call_function" and node not in taken]
    log.info("%d parts of %d nodes for heddle; %d nodes stay in PyTorch", len(parts), len(taken), len(left))
    for name, count in collections.Counter(str(node.target) for node in left).most_common():
        log.info("  in PyTorch: %s, %d times", name, count)


def parts_of(graph_module, weights, options):
    """The graph with its parts as calls of Part. `weights`: positions of inputs that are weights."""
    partitioner = CapabilityBasedPartitioner(graph_module, _Support(), allows_single_node_partition=True)
    parts = [p for p in partitioner.propose_partitions() if _worth_it(p.nodes)]
    _say(graph_module, parts)
    if not parts:
        return graph_module
    fused = partitioner.fuse_partitions(parts)
    inputs = [node for node in fused.graph.nodes if node.op == "placeholder"]
    static = {inputs[i] for i in weights if i < len(inputs)}
    for node in fused.graph.nodes:
        if node.op == "call_module" and node.target.startswith("fused_"):
            own = {i for i, arg in enumerate(node.args) if arg in static}
            setattr(fused, node.target, Part(getattr(fused, node.target), own, options))
    return fused
