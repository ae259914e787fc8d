#!/usr/bin/env python3
"""Times networks on an NVIDIA GPU by Heddle and PyTorch, in turns in one process.

    gpu_side_by_side.py resnet50 mobilenet_v2 bert [--batch 1,32] [--dtype f32,f16]
                        [--compiled MODES] [--seconds 2] [--heddle build/bin/heddle] [--target cuda]
                        [--passes=LIST] [--json results.json]

The networks are those of export_models.py and, with a slash in the name (timm/levit_128s), those of
../corpus; their weights are random. Heddle's library (`heddle export`: the static choice, or the
records of HEDDLE_LOG_FILE) runs on arrays that are on the GPU, one CUDA graph a call. PyTorch runs the module eagerly, as a CUDA graph captured of that ("torch graph";
images with their channels innermost in f16), and with --compiled by torch.compile in each of these
modes: reduce-overhead (with CUDA graphs), max-autotune. cuDNN searches its algorithms (benchmark).
A round times each of them, by events around several calls, in an order that changes; the figures are
medians of rounds. Answers are compared with PyTorch's in f32: exit status 1 where one differs by
more than 1e-3 of the largest output in f32, or by more than 3e-2 in f16. PyTorch computes f32
without tf32, as Heddle does. Needs requirements.txt and a GPU.
"""
import argparse
import concurrent.futures
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "corpus"))

import exported
import sources
from export_models import export, networks, randomize
from race import race
from result_text import show, write_results

TOLERANCE = {"f32": 1e-3, "f16": 3e-2}
DTYPES = {"f32": torch.float32, "f16": torch.float16, "f64": torch.float64, "i64": torch.int64,
          "i32": torch.int32}
CALLS = 20  # between two events, so that the time of an event is small beside it


def cases(options):
    return [(name, precision, batch) for name in options.networks
            for precision in options.precision for batch in options.batch]


def make(name, batch):
    if "/" in name:
        module, inputs = sources.make(name)
    else:
        torch.manual_seed(1)
        module, inputs = networks()[name]()
        randomize(module)
        module.eval()
    return module, tuple(torch.cat([x] * batch) if x.shape[0] == 1 else x for x in inputs)


def run_heddle(options, path, precision, folder):
    command = [options.heddle, "export", str(path), "-o", str(folder), "--dtype", precision,
               "--target", options.target]
    if options.passes:
        command += ["--passes", options.passes]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return time.perf_counter() - begin


def export_all(options, folder):
    """By case: the folder of Heddle's library, and the seconds that the export took. What fails is told."""
    jobs, failed = {}, []
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 4)) as pool:
        for name, batch in sorted({(n, b) for n, _, b in cases(options)}):
            module, inputs = make(name, batch)
            path = folder / f"{name.replace('/', '-')}_{batch}.onnx"
            try:
                with torch.no_grad():
                    export(module, inputs, path, "torchscript", False)
            except Exception as error:  # the exporter's own limits
                failed.append(f"{name}, batch {batch}: {error}")
                continue
            for precision in options.precision:
                to = folder / f"{path.stem}_{precision}"
                jobs[name, precision, batch] = (to, pool.submit(run_heddle, options, path,
                                                                precision, to))
        done = {}
        for case, (to, job) in jobs.items():
            if error := job.exception():
                failed.append(str(error))
            else:
                done[case] = (to, job.result())
        return done, failed


class OnGpu:
    """A library of Heddle's on arrays of PyTorch."""

    def __init__(self, folder, inputs):
        (library,) = folder.glob("lib*.so")
        self.network = exported.Network(library)
        self.inputs = [x.cuda().to(DTYPES[dtype]).contiguous()
                       for x, (_, dtype) in zip(inputs, self.network.types("input"))]
        self.outputs = [torch.empty(shape, dtype=DTYPES[dtype], device="cuda")
                        for shape, dtype in self.network.types("output")]

    def __call__(self):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.network.run_on_gpu([x.data_ptr() for x in self.inputs],
                                [x.data_ptr() for x in self.outputs], stream)
        return self.outputs[0]


def first(outputs):
    while not torch.is_tensor(outputs):
        outputs = outputs[0]
    return outputs


def captured(module, inputs):
    """The module as one CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = first(module(*inputs))

    def call():
        graph.replay()
        return output

    return call


def contestants(case, folder, options):
    name, precision, batch = case
    module, inputs = make(name, batch)
    ours = OnGpu(folder, inputs)
    module = module.cuda()
    on_gpu = tuple(x.cuda() for x in inputs)
    want = first(module(*on_gpu)).float().cpu()
    if precision == "f16":
        module = module.half()
        on_gpu = tuple(x.half() if x.is_floating_point() else x for x in on_gpu)
        if on_gpu[0].dim() == 4:
            module = module.to(memory_format=torch.channels_last)
            on_gpu = tuple(x.to(memory_format=torch.channels_last) for x in on_gpu)
    calls = {"heddle": ours, "torch": lambda: first(module(*on_gpu)),
             "torch graph": captured(module, on_gpu)}
    for mode in options.compiled:
        torch._dynamo.reset()
        compiled = torch.compile(module, mode=mode)
        calls[f"torch.compile {mode}"] = lambda compiled=compiled: first(compiled(*on_gpu))
    return calls, want


def mean_of_calls(call, behind=0):
    """Seconds of a call, as the GPU measures them over several. They start after `behind` cycles of the GPU, in which the processor
    gets ahead, so that a call that is shorter than its launch is not timed by that."""
    begin, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if behind:
        torch.cuda._sleep(behind)
    begin.record()
    for _ in range(CALLS):
        call()
    done.record()
    done.synchronize()
    return begin.elapsed_time(done) / CALLS / 1e3


def race_on_gpu(calls, seconds, behind=0):
    for call in calls.values():
        for _ in range(5):
            call()
    torch.cuda.synchronize()
    return race(calls, seconds, lambda call: mean_of_calls(call, behind))


def measure(case, folder, options):
    with torch.no_grad():
        calls, want = contestants(case, folder, options)
        scale = float(want.abs().max())
        differences = {}
        for name, call in calls.items():
            got = call()
            torch.cuda.synchronize()
            differences[name] = float((got.float().cpu() - want).abs().max()) / scale
        seconds = race_on_gpu(calls, options.seconds)
    return {"network": case[0], "precision": case[1], "batch": case[2], "seconds": seconds,
            "differences": differences, "right": max(differences.values()) <= TOLERANCE[case[1]]}


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--batch", type=lambda t: [int(n) for n in t.split(",")], default=[1, 32])
    parser.add_argument("--dtype", dest="precision", type=lambda t: t.split(","), default=["f32", "f16"])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--passes", default="")
    parser.add_argument("--compiled", type=lambda t: t.split(","), default=[])
    parser.add_argument("--json")
    options = parser.parse_args()
    if unknown := {n for n in options.networks if "/" not in n} - set(networks()):
        parser.error(f"no networks {sorted(unknown)}; there are {sorted(networks())}")
    if unknown := set(options.precision) - set(TOLERANCE):
        parser.error(f"no precision {sorted(unknown)}; there are {sorted(TOLERANCE)}")
    return options


def main():
    options = parse()
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    results = []
    with tempfile.TemporaryDirectory() as folder:
        exports, failed = export_all(options, pathlib.Path(folder))
        for case, (to, seconds) in exports.items():
            try:
                results.append(measure(case, to, options))
            except Exception as error:  # PyTorch captures no module that waits for the GPU
                failed.append(f"{case}: {error}")
                continue
            results[-1]["export_seconds"] = seconds
            name, precision, batch = case
            show(f"{name} {precision}, batch {batch}", results[-1])
            if options.json:
                write_results(options.json, results, {"torch": torch.__version__})
    for failure in failed:
        print(failure, file=sys.stderr)
    return int(bool(failed) or not all(r["right"] for r in results))


if __name__ == "__main__":
    sys.exit(main())
