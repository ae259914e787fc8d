"""The backend of torch.compile:  torch.compile(model, backend="heddle")

The graph of the model, after AOTAutograd's decompositions, is cut into parts that Heddle supports and the rest, which PyTorch
runs. Weights are taken by reference; changes of them are noticed at the next call. Where gradients are wanted, the graph of the
backward pass is compiled in the same way, and weights are arguments. TORCH_LOGS-like output: with the logger
"heddle.torch" at INFO, the parts and what stays in PyTorch are printed. Where Heddle refuses a part, PyTorch runs it, and a warning
of the class LeftToTorch says why.

mode       "max-autotune" tunes each part at its first call, for a minute where options have no budget; on a GPU this mode and
           "reduce-overhead" record CUDA graphs ("max-autotune-no-cudagraphs" does not)
options    "budget": "2m" tunes each part at its first call; "log": the file of records; "report": a function that is called
           with a Report of each graph; "mode": the mode, because torch.compile takes either a mode or options
"""

import logging

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend

from .._tune import seconds_of
from ._decompositions import decompositions
from ._export import from_torch
from ._graphs import with_cuda_graphs
from ._kept import partition
from ._part import LeftToTorch, Report, parts_of
from ._rewrite import rewrite

log = logging.getLogger("heddle.torch")


def _weights_of(graph_module, inputs):
    """The positions of inputs that stay the same tensors from call to call: parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    static = list(getattr(meta, "static_input_indices", None) or [])
    return {i for i in static if i < len(inputs)}


def _boxed(function):
    """A function of a list, which it empties, so that tensors that nobody else needs end before their memory is wanted."""

    def run(arguments):
        given = list(arguments)
        arguments.clear()
        return function(*given)

    run._boxed_call = True
    return run


def _compiler(options, graphs, is_inference):
    def compile_graph(graph_module, inputs):
        weights = _weights_of(graph_module, inputs)
        rewrite(graph_module)
        run = _boxed(parts_of(graph_module, weights if is_inference else set(), options))  # weights in training change at each call
        on_gpu = any(isinstance(x, torch.Tensor) and x.is_cuda for x in inputs)
        return with_cuda_graphs(run, graph_module, inputs, weights, is_inference) if graphs and on_gpu else run

    return compile_graph


def backend(graph_module, example_inputs, *, options=None, mode=None):
    """Compiles a graph of TorchDynamo."""
    options = dict(options or {})
    mode = mode or options.get("mode")  # torch.compile takes one of both alone
    if mode is not None and mode.startswith("max-autotune"):
        options.setdefault("budget", "60s")
    if "budget" in options:
        seconds_of(options["budget"])  # what is no time is an error at once
    graphs = mode in ("reduce-overhead", "max-autotune")
    return aot_autograd(fw_compiler=_compiler(options, graphs, False), bw_compiler=_compiler(options, False, False),
                        inference_compiler=_compiler(options, graphs, True), partition_fn=partition,
                        decompositions=decompositions())(graph_module, example_inputs)


# An installed package is registered by its entry point, which is this function.
if "heddle" not in torch._dynamo.list_backends(exclude_tags=None):
    register_backend(backend, name="heddle")
