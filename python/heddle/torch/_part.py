"""Cuts a graph into parts for Heddle and the rest, and makes the parts callable."""

import collections
import dataclasses
import logging
import operator
import threading
import warnings
import weakref

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

import heddle

from ._declare import Held, Like, declare, declare_over, supports
from ._kept import restore_orders
from ._layout import inverse
from ._rules import FREE, HEAVY
from ._sizes import at, dimension_for, expressions_of, places_of

log = logging.getLogger("heddle.torch")

_version = operator.attrgetter("_version")

# A part without a product or a convolution is left to PyTorch where it has fewer nodes: a call of Heddle costs some microseconds.
_LEAST_NODES = 4


class _Support(OperatorSupportBase):
    def is_node_supported(self, submodules, node):
        return supports(node)


class LeftToTorch(UserWarning):
    """Says that PyTorch runs a part that Heddle should have taken, and why."""


class Part(torch.nn.Module):
    """A part of a graph, as a function of tensors. It is declared and compiled at its first call.

    A graph that was traced with dynamic shapes is compiled over dimensions, for ranges of sizes. Sizes that can be no dimensions,
    such as those that strides divide, are numbers: each of them is compiled by itself.
    """

    def __init__(self, graph_module, weights, options):
        super().__init__()
        self.graph_module, self.weights, self.options = graph_module, weights, options
        self.placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        self.passed = [i for i in range(len(self.placeholders)) if i not in weights]
        self.places = places_of(self.placeholders)
        self.fixed = set()  # symbols that are no dimensions
        self.compiled = {}  # by keys: entries, one for each set of weights. It is replaced and not changed: other threads read it
        self.lock = threading.Lock()  # of what compiles, and of what reads weights anew

    def forward(self, *args):
        entry = self._entry(args)
        if entry is None or entry.weights_changed(args):
            with self.lock:
                entry = self._entry(args) or self._compile(args)  # another thread may have made it
                if entry.weights_changed(args):
                    entry.refresh(args)
        return entry(args)

    def _entry(self, args):
        """The entry for the sizes and the weights of a call. Modules whose code PyTorch shares have entries of their own."""
        compiled = self.compiled
        for key in self._keys(compiled, args):
            for entry in compiled.get(key, ()):
                if entry.has_weights(args):
                    return entry
        return None

    def _keys(self, compiled, args):
        """What entries for a call are under: all shapes, or the ranges that have its sizes, which are () for a graph of one size."""
        if self.places is None:
            return [tuple(_kind(args[i]) for i in self.passed)]
        sizes = [place.size(args) for place in self.places]
        return [key for key in compiled if all(lo <= size <= hi for size, (lo, hi) in zip(sizes, key))]

    def _compile(self, args):
        """The entry for a call. Where Heddle refuses the part, it is PyTorch's at the sizes of the call."""
        self.compiled = {key: kept for key, entries in self.compiled.items() if (kept := [e for e in entries if e.is_alive()])}
        held = Held.of(self.graph_module, args, self.weights)
        try:
            key, declared, dims = self._declared_over(args, held) if self.places else self._declared(args, held)
            entry = _Compiled(self, args, declared, dims)
        except heddle.Error as error:
            if error.kind != "user":
                raise
            key, entry = self._key_at(args), _InTorch(self)
            warnings.warn(f"PyTorch runs a part of {len(self.graph_module.graph.nodes)} nodes, because Heddle says: {error}", LeftToTorch)
        self.compiled = self.compiled | {key: [*self.compiled.get(key, ()), entry]}
        return entry

    def _key_at(self, args):
        """What an entry for the sizes of this call alone is under."""
        return self._keys({}, args)[0] if self.places is None else tuple((size, size) for size in (p.size(args) for p in self.places))

    def _declared(self, args, held):
        """What an entry is under, the declaration, and its dimensions."""
        values = [Like.of(a) if isinstance(a, torch.Tensor) else a for a in args]
        return self._key_at(args), declare(self.graph_module, values, held), []

    def _declared_over(self, args, held):
        now = {place.symbol: place.size(args) for place in self.places}
        extents = [expressions_of(node.meta.get("val")) for node in self.placeholders]

        def declared_over(dims):
            def declare_at(*sizes):
                values = now | dict(zip(dims, sizes))
                return declare(self.graph_module, [_at(arg, e, values) for arg, e in zip(args, extents)], held)

            return declare_over(list(dims.values()), declare_at) if dims else declare_at()

        dims = {place.symbol: dimension_for(place, now[place.symbol]) for place in self.places if place.symbol not in self.fixed}
        declared, dims = self._most_dims({symbol: dim for symbol, dim in dims.items() if dim is not None}, declared_over)
        key = tuple((dims[s].lo, dims[s].hi) if s in dims else (size, size) for s, size in now.items())
        return key, declared, list(dims.values())

    def _most_dims(self, dims, declared_over):
        """A declaration over all of the dimensions, or over those that are possible. The others have one size in each entry."""
        declared, error = _attempt(declared_over, dims)
        if error is not None:
            alone = {symbol: dim for symbol, dim in dims.items() if len(dims) > 1 and _attempt(declared_over, {symbol: dim})[1] is None}
            declared, again = _attempt(declared_over, alone)
            if again is not None:
                alone = dict([next(iter(alone.items()))])
                declared = declared_over(alone)
            self.fixed |= set(dims) - set(alone)
            log.info("%s of a part have one size in each compiled entry: %s", ", ".join(map(str, set(dims) - set(alone))), error)
            dims = alone
        return declared, dims


def _attempt(declared_over, dims):
    """The declaration over dimensions, or the error of Heddle that says why there is none."""
    try:
        return declared_over(dims), None
    except heddle.Error as error:
        if error.kind != "user" or not dims:
            raise
        return None, error


def _at(arg, expressions, values):
    """An argument of a graph where symbols have values."""
    if not isinstance(arg, torch.Tensor):
        return at(expressions[0], values) if expressions else arg
    return dataclasses.replace(Like.of(arg), shape=tuple(at(e, values) for e in expressions))


class _Compiled:
    def __init__(self, part, args, declared, dims):
        self.places = part.places
        # Each call compares all weights, so that this is done by identities. Who replaces a weight does not keep it here, and an
        # entry of which one has ended is never found again: another tensor may have its identity.
        self.weights = sorted(part.weights)
        self.identities = list(map(id, map(args.__getitem__, self.weights)))
        self.ended = []
        self.references = [weakref.ref(args[i], self.ended.append) for i in self.weights]
        self.versioned = [i for i in self.weights if not args[i].is_inference()]
        self.versions = self._versions(args)
        self.device = _device_of(part.graph_module, args)
        self.is_tuple = declared.is_tuple
        network = heddle.Network([o.tensor for o in declared.outputs], [i.tensor for i in declared.inputs],
                                 target="cuda" if self.device.type == "cuda" else None)
        network._dims = dims
        if "budget" in part.options:
            network.tune(part.options["budget"], log=part.options.get("log"), progress=False)
        self.network = network
        self.inputs = [(i.position, i.order) for i in declared.inputs if i.position not in part.weights]
        self.outputs = [_Result(o, self.device) for o in declared.outputs]
        self.dynamic = bool(dims)
        self.shapes = {}  # by sizes: the shapes of the outputs
        self._bind(declared, part.weights, args)

    def _bind(self, declared, weights, args):
        """The arrays of the call: weights stay, and all others are given by their addresses."""
        arrays, moving = [], []
        for i in declared.inputs:
            if i.position not in weights:
                moving.append(len(arrays))
            arrays.append(heddle.NDArray(self._passed(args[i.position], i.order).detach()))
        for result, shape in zip(self.outputs, self._shapes_of(args)):
            moving.append(len(arrays))
            arrays.append(heddle.NDArray(torch.empty(shape, dtype=result.dtype, device=self.device)))
        self.call = heddle._heddle._BoundCall(self.network.kernel, arrays, moving)

    def _passed(self, tensor, order):
        """A tensor as the network takes it: on its device, and dense."""
        if tensor.device != self.device:
            tensor = tensor.to(self.device)
        if order is not None:
            tensor = tensor.permute(order)
        return tensor if tensor.is_contiguous() else tensor.contiguous()

    def _shapes_of(self, args):
        """The shapes of the outputs, as they are computed."""
        sizes = tuple(place.size(args) for place in self.places) if self.dynamic else ()
        shapes = self.shapes.get(sizes)
        if shapes is None:
            values = dict(zip((place.symbol for place in self.places), sizes)) if self.dynamic else {}
            if len(self.shapes) > 4096:
                self.shapes = {}
            shapes = self.shapes[sizes] = [result.shape(values) for result in self.outputs]
        return shapes

    def has_weights(self, args):
        return self.is_alive() and list(map(id, map(args.__getitem__, self.weights))) == self.identities

    def is_alive(self):
        """Whether a call can have these weights again."""
        return not self.ended

    def _versions(self, args):
        return list(map(_version, map(args.__getitem__, self.versioned)))

    def weights_changed(self, args):
        """Whether weights were changed in place since they were read."""
        return self._versions(args) != self.versions

    def refresh(self, args):
        """Reads weights anew. The versions are set after it: until then calls of other threads wait for the lock of the part."""
        versions = self._versions(args)
        self.network.refresh()
        self.versions = versions

    def __call__(self, args):
        passed = [self._passed(args[i], order) for i, order in self.inputs]
        made = [torch.empty(shape, dtype=o.dtype, device=self.device) for o, shape in zip(self.outputs, self._shapes_of(args))]
        stream = torch._C._cuda_getCurrentRawStream(self.device.index) if self.device.type == "cuda" else 0
        shapes = [t.shape for t in passed + made] if self.dynamic else []
        self.call([t.data_ptr() for t in passed + made], shapes, stream)
        results = tuple(o.passed_back(t) for t, o in zip(made, self.outputs))
        return results if self.is_tuple else results[0]


class _InTorch:
    """What calls a part that Heddle refuses."""

    def __init__(self, part):
        self.graph_module, self.placeholders = part.graph_module, part.placeholders

    def has_weights(self, args):
        return True

    def is_alive(self):
        return True

    def weights_changed(self, args):
        return False

    def __call__(self, args):
        return self.graph_module(*(arg.contiguous() if "order" in node.meta else arg for node, arg in zip(self.placeholders, args)))


class _Result:
    """What a call needs to know of an output."""

    def __init__(self, output, part_device):
        self.dtype, self.back = output.dtype, output.order and inverse(output.order)
        device = output.node.meta["val"].device
        self.elsewhere = device if device.type != part_device.type else None  # a number on the CPU, of a part on a GPU
        extents = output.tensor.shape
        if not all(isinstance(extent, int) for extent in extents):
            extents = expressions_of(output.node.meta["val"])
            extents = [extents[d] for d in output.order] if output.order else extents
        self.extents = extents

    def passed_back(self, tensor):
        if self.back is not None:
            tensor = tensor.permute(self.back)
        return tensor if self.elsewhere is None else tensor.to(self.elsewhere)

    def shape(self, values):
        return tuple(at(extent, values) for extent in self.extents)


def _device_of(graph_module, args):
    """The device that a part computes on."""
    for value in args:
        if isinstance(value, torch.Tensor) and value.device.type == "cuda":
            return value.device
    for node in graph_module.graph.nodes:  # a part without inputs
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type == "cuda":
            return torch.device("cuda", value.device.index or 0)
    return torch.device("cpu")


def _kind(argument):
    """What a part is compiled for: a number, or the shape, type, device and order of a tensor."""
    if isinstance(argument, torch.Tensor):
        order = None if argument.is_contiguous() else argument.stride()
        return argument.shape, argument.dtype, argument.device, order
    return argument


def _worth_it(nodes):
    if any(node.target in HEAVY for node in nodes):
        return True
    return sum(node.target not in FREE for node in nodes) >= _LEAST_NODES


@dataclasses.dataclass
class Report:
    """What came of a graph: the number of nodes of each part, and how often PyTorch computes an operator."""

    parts: list
    in_torch: dict

    @staticmethod
    def of(graph_module, parts):
        taken = {node for part in parts for node in part.nodes}
        left = [node for node in graph_module.graph.nodes if node.op == "call_function" and node not in taken]
        names = collections.Counter(str(node.target) for node in left if node.meta.get("val") is not None)
        return Report([len(part.nodes) for part in parts], dict(names.most_common()))

    def say(self):
        log.info("%d parts of %d nodes for heddle; %d nodes stay in PyTorch", len(self.parts), sum(self.parts), sum(self.in_torch.values()))
        for name, count in self.in_torch.items():
            log.info("  in PyTorch: %s, %d times", name, count)


def parts_of(graph_module, weights, options):
    """The graph with its parts as calls of Part. `weights`: positions of inputs that are weights."""
    partitioner = CapabilityBasedPartitioner(graph_module, _Support(), allows_single_node_partition=True)
    parts = [p for p in partitioner.propose_partitions() if _worth_it(p.nodes)]
    report = Report.of(graph_module, parts)
    report.say()
    if "report" in options:
        options["report"](report)
    if not parts:
        restore_orders(graph_module)
        return graph_module
    fused = partitioner.fuse_partitions(parts)
    inputs = [node for node in fused.graph.nodes if node.op == "placeholder"]
    static = {inputs[i] for i in weights if i < len(inputs)}
    for node in fused.graph.nodes:
        if node.op == "call_module" and node.target.startswith("fused_"):
            own = {i for i, arg in enumerate(node.args) if arg in static}
            setattr(fused, node.target, Part(getattr(fused, node.target), own, options))
    restore_orders(fused)
    return fused
