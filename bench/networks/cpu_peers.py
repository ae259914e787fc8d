"""What Heddle is compared with on CPUs: by name, a function that makes a call on the arrays of `feed`.

    calls = make_calls(["onnxruntime", "openvino"], Case(path, module, inputs, threads))
    outputs = calls["openvino"]()      # a list of arrays, in the order of the file's outputs

All run on `threads` threads and compute in f32.
"""
import dataclasses
import importlib.metadata
import importlib.util
import pathlib

import numpy as np
import torch

from check_models import onnx_runtime


@dataclasses.dataclass
class Case:
    path: pathlib.Path  # the ONNX file
    module: torch.nn.Module
    inputs: tuple  # its tensors
    threads: int
    names: list  # of the inputs in the file

    @property
    def feed(self):
        return dict(zip(self.names, [x.numpy() for x in self.inputs]))


def to_list(outputs):
    if hasattr(outputs, "to_tuple"):
        outputs = outputs.to_tuple()
    if torch.is_tensor(outputs):
        outputs = (outputs,)
    return [x.detach().numpy() for x in outputs]


def onnx_runtime_default(case):
    session, feed = onnx_runtime(case.path, case.threads), case.feed
    return lambda: session.run(None, feed)


def onnx_runtime_best(case):
    """Inputs and outputs bound once, so that no call allocates; smaller parts of parallel loops, which balance
    better; no subnormal numbers. All graph optimisations are on by default."""
    session = onnx_runtime(case.path, case.threads, {"session.dynamic_block_base": "4",
                                                     "session.set_denormal_as_zero": "1"})
    binding = session.io_binding()
    kept = {name: np.ascontiguousarray(array) for name, array in case.feed.items()}
    for name, array in kept.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def call():
        session.run_with_iobinding(binding)
        return [value.numpy() for value in binding.get_outputs()]

    call.kept = kept
    return call


def openvino(case):
    """Tuned for latency, one stream. On processors with AMX the default would be bf16."""
    import openvino as ov

    compiled = ov.Core().compile_model(str(case.path), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(case.threads)})
    request = compiled.create_infer_request()
    arrays = {name: np.ascontiguousarray(array) for name, array in case.feed.items()}

    def call():
        results = request.infer(arrays, share_inputs=True, share_outputs=True)
        return [results[output] for output in compiled.outputs]

    return call


def pytorch(case):
    return lambda: to_list(case.module(*case.inputs))


def pytorch_compiled(mode):
    def make(case):
        compiled = torch.compile(case.module, mode=mode)
        return lambda: to_list(compiled(*case.inputs))
    return make


# Name -> (how to make it, the module that it needs, whether it runs where no peers are named).
PEERS = {
    "onnxruntime": (onnx_runtime_default, "onnxruntime", True),
    "onnxruntime best": (onnx_runtime_best, "onnxruntime", True),
    "openvino": (openvino, "openvino", True),
    "torch": (pytorch, "torch", True),
    "torch.compile": (pytorch_compiled("default"), "torch", False),
    "torch.compile max-autotune": (pytorch_compiled("max-autotune-no-cudagraphs"), "torch", False),
}


def usual_peers():
    """Those that are installed, without those that compile for minutes."""
    return [name for name, (_, module, usual) in PEERS.items() if usual and importlib.util.find_spec(module)]


def make_calls(names, case):
    return {name: PEERS[name][0](case) for name in names}


def versions(names):
    """By name of a package: its version."""
    packages = dict.fromkeys(PEERS[name][1] for name in names)
    return {package: importlib.metadata.version(package) for package in packages}
