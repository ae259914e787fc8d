#!/usr/bin/env python3
"""Times products and convolutions by Heddle and by the oneDNN 3.x inside PyTorch, in turns.

    side_by_side.py --library build/lib/libheddle_cpu.so [--threads 1,2] [--seconds 3] [--only bf16]
                    [--json results.json]

Both run in one process on the same arrays. A round calls each once, in an order that changes from
round to round. Figures are medians, and the best in brackets. Weights are constant and packed by
both before the time begins, where PyTorch can do that. Answers are compared first: exit status 1
where one differs by more than a hundredth of the largest element. Needs requirements.txt.
"""
import argparse
import ctypes
import json
import random
import statistics
import sys
import time

import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i8": torch.int8, "u8": torch.uint8,
          "i32": torch.int32}
# subject, type of the inputs
SUBJECTS = [
    ("matmul:1024x1024x1024,const_b=1", "bf16"),
    ("matmul:4096x4096x4096,const_b=1", "bf16"),
    ("matmul:1024x1024x1024,const_b=1", "i8"),
    ("matmul:1024x1024x1024,const_b=1", "f32"),
    ("matmul:2048x2048x2048,const_b=1", "f32"),
    ("conv2d:n=1,c=64,h=56,w=56,k=64,r=3,stride=1,pad=1,layout=nhwc", "i8"),
    ("conv2d:n=1,c=64,h=56,w=56,k=64,r=3,stride=1,pad=1,layout=nhwc", "bf16"),
    ("conv2d:n=1,c=64,h=56,w=56,k=64,r=3,stride=1,pad=1,layout=nhwc", "f32"),
    ("conv2d:n=1,c=256,h=56,w=56,k=64,r=1,stride=1,pad=0,layout=nhwc", "f32"),
    ("conv2d:n=1,c=256,h=14,w=14,k=1024,r=1,stride=1,pad=0,layout=nhwc", "f32"),
    ("conv2d:n=1,c=2048,h=7,w=7,k=512,r=1,stride=1,pad=0,layout=nhwc", "f32"),
    ("batch_matmul:96x512x512x64", "f32"),
]


class Heddle:
    """One subject with tensors of its own; call() computes outputs from inputs."""

    def __init__(self, library, subject, dtype, threads):
        self._lib = ctypes.CDLL(library)
        for name in ("open", "error", "dtype"):
            getattr(self._lib, f"heddle_cpu_{name}").restype = ctypes.c_char_p
        self._lib.heddle_cpu_open.restype = ctypes.c_void_p
        self._lib.heddle_cpu_extent.restype = ctypes.c_int64
        handle = self._lib.heddle_cpu_open(subject.encode(), dtype.encode(), threads)
        if not handle:
            raise RuntimeError(self._lib.heddle_cpu_error().decode())
        self._handle = ctypes.c_void_p(handle)
        self.inputs, self.outputs, every = [], [], []
        for i in range(self._lib.heddle_cpu_args(self._handle)):
            rank = self._lib.heddle_cpu_rank(self._handle, i)
            shape = [self._lib.heddle_cpu_extent(self._handle, i, d) for d in range(rank)]
            kind = DTYPES[self._lib.heddle_cpu_dtype(self._handle, i).decode()]
            output = self._lib.heddle_cpu_is_output(self._handle, i)
            if kind.is_floating_point:
                tensor = torch.rand(shape).sub_(0.5).to(kind)
            else:
                tensor = torch.randint(0 if kind == torch.uint8 else -64, 64, shape, dtype=kind)
            (self.outputs if output else self.inputs).append(tensor)
            every.append(tensor)
        pointers = (ctypes.c_void_p * len(every))(*[t.data_ptr() for t in every])
        if self._lib.heddle_cpu_bind(self._handle, pointers) != 0:
            raise RuntimeError(self._lib.heddle_cpu_error().decode())

    def call(self):
        if self._lib.heddle_cpu_call(self._handle) != 0:
            raise RuntimeError(self._lib.heddle_cpu_error().decode())
        return self.outputs[0]


def product(a, b):
    """Name -> call, of those ways of oneDNN that take these types."""
    if a.dtype == torch.int8:
        return {"torch._int_mm": lambda: torch._int_mm(a, b)}
    ways = {"torch.mm": lambda: torch.mm(a, b)}
    weight = b.t().contiguous()
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, a.shape[0])
    ways["packed linear"] = lambda: torch.ops.mkldnn._linear_pointwise(a, packed, None, "none", [],
                                                                       "")
    return ways


def convolution(x, w):
    """x is NHWC; w is RSCK, with padding that keeps the size."""
    image = x.permute(0, 3, 1, 2)  # channels last in memory
    w = w.permute(3, 2, 0, 1).contiguous()
    pad = (w.shape[2] // 2, w.shape[3] // 2)
    if x.dtype != torch.int8:
        packed = torch.ops.mkldnn._reorder_convolution_weight(
            w, pad, (1, 1), (1, 1), 1, list(image.shape))
        return {"packed conv": lambda: torch.ops.mkldnn._convolution_pointwise(
            image, packed, None, pad, (1, 1), (1, 1), 1, "none", [], "")}
    # PyTorch's int8 convolution takes u8 images and writes i32 as f32.
    image = image.view(torch.uint8)
    scales, zeros = torch.ones(w.shape[0]), torch.zeros(w.shape[0], dtype=torch.int64)
    packed = torch.ops.onednn.qconv_prepack(w, scales, 1.0, 0, [1, 1], [1, 1], [1, 1], 1,
                                            list(image.shape))
    return {"packed qconv, u8": lambda: torch.ops.onednn.qconv2d_pointwise(
        image, 1.0, 0, packed, scales, zeros, None, [1, 1], [1, 1], [1, 1], 1, 1.0, 0,
        torch.float32, "none", [], "")}


def peers(subject, inputs):
    """What oneDNN offers for a subject; nothing, with the reason printed, where packing fails."""
    try:
        if subject.startswith("batch_matmul"):
            return {"torch.bmm": lambda: torch.bmm(*inputs)}  # MKL, where PyTorch has it
        return product(*inputs) if subject.startswith("matmul") else convolution(*inputs)
    except RuntimeError as error:
        print(f"  oneDNN left out of {subject}: {str(error).splitlines()[0]}")
        return {}


def differs(subject, ours, theirs):
    if subject.startswith("conv2d"):
        theirs = theirs.permute(0, 2, 3, 1)
    ours, theirs = ours.to(torch.float64), theirs.to(torch.float64)
    return float((ours - theirs).abs().max() / theirs.abs().max())


def time_in_turns(calls, seconds):
    samples = {name: [] for name in calls}
    order = list(calls)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        rounds += 1
        random.shuffle(order)
        for name in order:
            begin = time.perf_counter()
            calls[name]()
            samples[name].append(time.perf_counter() - begin)
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="build/lib/libheddle_cpu.so")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", default="", help="subjects and types with this text")
    parser.add_argument("--json", help="write the medians to this file too")
    options = parser.parse_args()
    version = next((line.split("v")[-1].split(" ")[0] for line in torch.__config__.show().splitlines()
                    if "MKL-DNN" in line or "oneDNN" in line), "?")
    print(f"PyTorch {torch.__version__}, oneDNN {version}")
    wrong, results = 0, []
    for threads in [int(t) for t in options.threads.split(",")]:
        torch.set_num_threads(threads)
        for subject, dtype in SUBJECTS:
            if options.only not in f"{subject} {dtype}":
                continue
            heddle = Heddle(options.library, subject, dtype, threads)
            calls = {"heddle": heddle.call}
            for name, call in peers(subject, heddle.inputs).items():
                try:
                    theirs = call()
                except Exception as error:  # an operator that this PyTorch lacks
                    print(f"  {name} left out: {str(error).splitlines()[0]}")
                    continue
                # As u8 the image of the int8 convolution has other values.
                if "u8" not in name and differs(subject, heddle.call(), theirs) > 0.01:
                    print(f"WRONG {subject} {dtype} {name}")
                    wrong = 1
                calls[name] = call
            samples = time_in_turns(calls, options.seconds)
            middle = {name: statistics.median(times) for name, times in samples.items()}
            best = min((m for name, m in middle.items() if name != "heddle"), default=None)
            ratio = f"{best / middle['heddle']:.2f}" if best else ""
            text = ", ".join(f"{name} {m * 1e6:.1f} ({min(samples[name]) * 1e6:.1f}) us"
                             for name, m in middle.items())
            print(f"{threads} {dtype} {subject}: {ratio}  {text}", flush=True)
            results.append({"subject": f"{subject} {dtype}, {threads} threads", "us": {
                "static" if name == "heddle" else name: m * 1e6 for name, m in middle.items()}})
            if options.json:  # after each subject, so that a run that is cut off keeps what it has
                with open(options.json, "w", encoding="utf-8") as f:
                    json.dump({"peers": {"torch": torch.__version__, "onednn": version}, "results": results}, f, indent=1)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
