#!/usr/bin/env python3
"""Tunes an ONNX file by TVM's MetaSchedule within a budget of seconds, and times the result.

    tvm.py model.onnx [--seconds 300] [--threads 2] [--trials-per-round 64] [--work-dir FOLDER]

What `heddle tune model.onnx --budget 300s` is compared with. Needs tvm_requirements.txt in an
environment of its own, and there, because later ones crash, what pip does not choose by itself:

    pip install --no-deps apache-tvm-ffi==0.1.14

MetaSchedule counts trials and not seconds: tuning goes round by round with one database, and stops
after the round in which the budget is spent.
"""
import argparse
import os
import statistics
import sys
import tempfile
import time

# This file has the name of the package: its own folder must not be where Python looks first.
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != HERE]


def import_tvm():
    """The package, or an end with a message that says what is missing."""
    try:
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx
    except Exception as error:  # a wheel that does not load raises more than ImportError
        sys.exit(f"apache-tvm cannot be used: {error}\ninstall tvm_requirements.txt")
    try:
        from tvm.s_tir.meta_schedule import relax_integration
    except ImportError as error:
        sys.exit(f"this wheel of apache-tvm ({tvm.__version__}) has no MetaSchedule: {error}\n"
                 "install tvm_requirements.txt, whose version has it")
    return tvm, relax, from_onnx, relax_integration


def read_model(path, from_onnx, relax):
    """The module with its weights apart, and the shapes and types of its inputs."""
    import onnx

    model = onnx.load(path)
    constants = {t.name for t in model.graph.initializer}
    inputs = []
    for info in model.graph.input:
        if info.name in constants:
            continue
        tensor = info.type.tensor_type
        shape = [d.dim_value for d in tensor.shape.dim]
        if 0 in shape:
            sys.exit(f"input {info.name} has open dimensions; export it with fixed ones")
        inputs.append((info.name, shape, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)))
    module = from_onnx(model, shape_dict={name: shape for name, shape, _ in inputs})
    return relax.transform.DecomposeOpsForInference()(module), inputs


def lowered(tvm, relax, module, target):
    """Fused loops in place of operators: the tasks, which compile_relax makes in the same way."""
    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern(),
              relax.transform.FoldConstant(), relax.transform.FuseOps(),
              relax.transform.FuseTIR()]
    with target, tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(passes)(module)


def make_arrays(tvm, inputs):
    import numpy as np

    rng = np.random.default_rng(1)
    arrays = []
    for _, shape, dtype in inputs:
        value = rng.standard_normal(shape) if np.issubdtype(dtype, np.floating) else np.ones(shape)
        arrays.append(tvm.runtime.tensor(value.astype(dtype)))
    return arrays


def time_of(tvm, relax, executable, arrays, seconds):
    machine = relax.VirtualMachine(executable, tvm.cpu())
    machine["main"](*arrays)
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        machine["main"](*arrays)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trials-per-round", type=int, default=64)
    parser.add_argument("--work-dir")
    options = parser.parse_args()
    os.environ["TVM_NUM_THREADS"] = str(options.threads)
    tvm, relax, from_onnx, integration = import_tvm()
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": options.threads})
    module, inputs = read_model(options.model, from_onnx, relax)
    module = lowered(tvm, relax, module, target)
    arrays = make_arrays(tvm, inputs)
    folder = options.work_dir or tempfile.mkdtemp(prefix="metaschedule-")

    trials = 0
    begin = time.perf_counter()
    database = None
    while time.perf_counter() - begin < options.seconds:
        database = integration.tune_relax(module, {}, target, folder,
                                          max_trials_global=options.trials_per_round,
                                          num_trials_per_iter=min(16, options.trials_per_round),
                                          seed=trials)
        trials += options.trials_per_round
        print(f"{time.perf_counter() - begin:7.1f} s, {trials} trials", flush=True)
    executable = integration.compile_relax(database, module, target, None)
    tuned = time_of(tvm, relax, executable, arrays, 3)
    print(f"{options.model}: {tuned * 1e3:.3f} ms after {trials} trials in "
          f"{time.perf_counter() - begin:.0f} s, {options.threads} threads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
