"""The backend of torch.compile:  torch.compile(model, backend="heddle")

The graph of the model, after AOTAutograd's decompositions, is cut into parts that Heddle supports and the rest, which PyTorch
runs. Weights are taken by reference; changes of them are noticed at the next call. TORCH_LOGS-like output: with the logger
"heddle.torch" at INFO, the parts and what stays in PyTorch are printed.

options    "budget": "2m" tunes each part at its first call; "log": the file of records
"""

import logging

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend

from ._part import parts_of

log = logging.getLogger("heddle.torch")


def _weights_of(graph_module, inputs):
    """The positions of inputs that stay the same tensors from call to call: parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    static = list(getattr(meta, "static_input_indices", None) or [])
    return {i for i in static if i < len(inputs)}


def _compiler(options):
    def compile_graph(graph_module, inputs):
        return make_boxed_func(parts_of(graph_module, _weights_of(graph_module, inputs), options))

    return compile_graph


def _decompositions():
    table = dict(torch._decomp.core_aten_decompositions())
    # Heddle has these as operators.
    for op in (torch.ops.aten.hardswish, torch.ops.aten.hardsigmoid, torch.ops.aten.silu, torch.ops.aten.mish,
               torch.ops.aten._scaled_dot_product_flash_attention_for_cpu):
        for overload in op.overloads():
            table.pop(getattr(op, overload), None)
    return table


def backend(graph_module, example_inputs, *, options=None, mode=None):
    """Compiles a graph of TorchDynamo. A mode other than "max-autotune" is ignored; that tunes, by default for a minute."""
    options = dict(options or {})
    if mode is not None and mode.startswith("max-autotune"):
        options.setdefault("budget", "60s")
    compile_graph = _compiler(options)
    run_by_torch = lambda graph_module, _: make_boxed_func(graph_module)
    return aot_autograd(fw_compiler=compile_graph, bw_compiler=run_by_torch, inference_compiler=compile_graph,
                        decompositions=_decompositions())(graph_module, example_inputs)


# An installed package is registered by its entry point, which is this function.
if "heddle" not in torch._dynamo.list_backends(exclude_tags=None):
    register_backend(backend, name="heddle")
