#!/usr/bin/env python3
"""Times a model over a range of lengths on an NVIDIA GPU: one library of Heddle's for all lengths
beside libraries for one length each, one CUDA graph a call, and PyTorch as a CUDA graph.

    gpu_sizes.py bert [--range 1..512] [--sizes 24,128,300,512] [--right 1,2,63,65] [--dtype f16]
                 [--tune 40] [--seconds 1] [--heddle build/bin/heddle] [--target cuda] [--no-torch]

The models are those of export_models.py that take words, with random weights. --tune: "raced" is the
library of what `heddle tune --budget` found in so many seconds, all of its kernels chosen by a race.
Times are medians of rounds in an order that changes. Answers at --sizes and at --right are compared
with PyTorch's in f32: exit status 1 where one differs by more than 3e-2 of the largest output (f32:
1e-3). Needs requirements.txt and a GPU.
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

import exported
from export_models import export
from gpu_side_by_side import DTYPES, TOLERANCE, captured, first, make, race_on_gpu


class Library(exported.Network):
    """One whose run_on_gpu takes `sizes` before the arrays."""

    def __init__(self, folder):
        (path,) = folder.glob("lib*.so")
        super().__init__(path)

    def _tensors(self, list_of):
        return []  # extents that depend on the sizes have no arrays here

    def call_on(self, inputs, output, size):
        arrays = [x.cuda().contiguous() for x in inputs]
        lists = [(ctypes.c_void_p * len(a))(*[t.data_ptr() for t in a]) for a in (arrays, [output])]

        def call():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            sizes = [ctypes.c_int64(size)] if size else []
            if self._function("run_on_gpu")(ctypes.c_void_p(self._handle), *sizes, *lists,
                                            stream) != 0:
                raise RuntimeError(self._function("error")().decode())
            return output

        call.arrays = arrays  # which live as long as the call
        return call


def heddle(options, *arguments, **environment):
    done = subprocess.run([options.heddle, *arguments], capture_output=True, text=True,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise RuntimeError(f"heddle {' '.join(arguments)}: {done.stderr}")


def export_all(options, model, folder):
    """The libraries by name: "range", "raced", and the lengths."""
    common = ["--dtype", options.precision, "--target", options.target]
    log = str(folder / "log.jsonl")
    if options.tune:
        heddle(options, "tune", str(model), "--dims", f"seq={options.range}", *common, "--budget",
               str(options.tune), "--sizes", ",".join(map(str, options.sizes)), "--log", log, "-q")

    def one(name, dims, records=""):
        heddle(options, "export", str(model), "--dims", f"seq={dims}", *common, "-o",
               str(folder / name), HEDDLE_LOG_FILE=records)
        return Library(folder / name)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        jobs = {"range": pool.submit(one, "range", options.range)}
        if options.tune:
            jobs["raced"] = pool.submit(one, "raced", options.range, log)
        for size in options.sizes:
            jobs[size] = pool.submit(one, str(size), str(size))
        return {name: job.result() for name, job in jobs.items()}


def cut(inputs, size):
    """Random words of that length, and the mask where the model takes one."""
    torch.manual_seed(size)
    return tuple(torch.randint(0, 1000, (1, size)) if i == 0 else torch.ones(1, size, dtype=x.dtype)
                 for i, x in enumerate(inputs))


def measure(options, libraries, module, half, inputs, size, timed):
    """The seconds of each contestant, and the differences of their answers."""
    here = cut(inputs, size)
    on_gpu = tuple(x.cuda() for x in here)
    want = first(module(*on_gpu)).float().cpu()
    calls = {}
    for name in ["range", "raced", size]:
        if name not in libraries:
            continue
        output = torch.full(want.shape, float("nan"), dtype=DTYPES["f32"], device="cuda")
        call = libraries[name].call_on(here, output, 0 if name == size else size)
        calls["alone" if name == size else name] = call
    differences = {}
    for name, call in calls.items():
        call()
        torch.cuda.synchronize()
        off = (call().float().cpu() - want).abs().max() / want.abs().max()
        differences[name] = float(off) if off == off else float("inf")
    if not timed:
        return {}, differences
    if options.torch:
        calls["torch graph"] = captured(half, on_gpu)
    return race_on_gpu(calls, options.seconds), differences


def parse():
    numbers = lambda text: [int(n) for n in text.split(",") if n]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--range", default="1..512")
    parser.add_argument("--sizes", type=numbers, default=[24, 128, 300, 512])
    parser.add_argument("--right", type=numbers, default=[1, 2, 63, 65])
    parser.add_argument("--dtype", dest="precision", choices=sorted(TOLERANCE), default="f16")
    parser.add_argument("--tune", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    return parser.parse_args()


def main():
    options = parse()
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    begin = time.perf_counter()
    module, inputs = make(options.model, 1)
    wrong = 0
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / f"{options.model}.onnx"
        export(module, inputs, str(model), "torchscript", True)
        libraries = export_all(options, model, pathlib.Path(folder))
        print(f"libraries after {time.perf_counter() - begin:.0f} s", flush=True)
        half = make(options.model, 1)[0].to("cuda", DTYPES[options.precision])
        module = module.cuda()
        for size in sorted({*options.sizes, *options.right}):
            seconds, off = measure(options, libraries, module, half, inputs, size,
                                   size in options.sizes)
            wrong += any(d > TOLERANCE[options.precision] for d in off.values())
            alone = seconds.get("alone")
            print(f"{size:4d} words: " + "; ".join(
                name + (f" {seconds[name] * 1e6:.0f} us" if name in seconds else "") +
                (f" ({alone / seconds[name]:.2f} of alone)" if alone and name != "alone" else "") +
                (f", off by {off[name]:.1e}" if name in off else "")
                for name in {**seconds, **off}), flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
