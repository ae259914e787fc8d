#!/usr/bin/env python3
"""Heddle beside PyTorch on a GPU, in one process and in turns: Heddle's static schedule, its tuned one
(where a record applies), PyTorch eager (cuBLAS, cuDNN and its own kernels), torch.compile
(Inductor, Triton) and, for products, cuBLASLt with a search of its own: all algorithms that its heuristic
names are timed, and the fastest right one takes part.

    side_by_side.py --library build/lib/libheddle_gpu.so softmax:4096x4096 matmul:4096x4096x4096
    side_by_side.py --library ... --list memory --json results.json

All work on the same tensors (DLPack), random numbers, rotated so that together they exceed twice the
L2. A sample is a CUDA graph of many calls, so that the cost of launching is out; the graphs of all
take turns, in an order drawn anew each round; the figure is the median. Results are compared with
PyTorch's. `ratio` is the time of the fastest peer over the best of ours.
"""
import argparse
import ctypes
import json
import math
import random
import statistics
import sys
import time

import torch
import torch.utils.dlpack

from peers import declare, graph_of, in_turns, rotated

SHAPES = ["4096x4096", "16384x1024", "256x65536"]
LISTS = {
    "memory": [f"{op}:{s}" for op in ("softmax", "layer_norm", "bias_gelu", "row_sum", "column_sum",
                                      "full_sum", "argmax", "transpose") for s in SHAPES],
    "matmul": ["matmul:4096x4096x4096", "matmul:1024x1024x1024", "matmul:16x4096x4096"],
    "matmul16": ["matmul:4096x4096x4096", "matmul:1024x1024x1024", "matmul:1x4096x4096",
                 "matmul:16x4096x4096", "matmul:32x32x4096", "matmul:32x32x28672"],
}


def convolutions(batch, layout):
    """The shapes of ResNet-50's convolutions, each once."""
    out = [f"conv2d:n={batch},c=3,h=224,k=64,r=7,stride=2,pad=3,layout={layout}"]
    for c, k, h in ((64, 256, 56), (128, 512, 28), (256, 1024, 14), (512, 2048, 7)):
        for of in (f"c={c},h={h},k={c},pad=1", f"c={c},h={h},k={k},r=1", f"c={k},h={h},k={c},r=1"):
            out.append(f"conv2d:n={batch},{of},layout={layout}")
    for c, k, h in ((256, 512, 56), (512, 1024, 28), (1024, 2048, 14)):
        out.append(f"conv2d:n={batch},c={c},h={h},k={k},r=1,stride=2,layout={layout}")
    return out


def mobile_convolutions(batch, layout):
    """Ten shapes of MobileNet-v2: the first convolution, five of 1x1 and four depthwise ones."""
    out = ["c=3,h=224,k=32,stride=2,pad=1"]
    out += [f"c={c},h={h},k={k},r=1" for c, h, k in (
        (32, 112, 16), (16, 112, 96), (144, 56, 24), (96, 14, 576), (320, 7, 1280))]
    out += [f"c={c},h={h},k={c},groups={c},pad=1,stride={stride}" for c, h, stride in (
        (32, 112, 1), (96, 112, 2), (144, 56, 1), (960, 7, 1))]
    return [f"conv2d:n={batch},{of},layout={layout}" for of in out]


LISTS |= {f"mobilenet{batch}_{layout}": mobile_convolutions(batch, layout)
          for batch in (1, 32) for layout in ("nhwc", "nchw")}
LISTS |= {f"resnet{batch}_{layout}": convolutions(batch, layout)
          for batch in (1, 32) for layout in ("nhwc", "nchw")}
LISTS["conv"] = [f"conv2d:{c},layout=nhwc" for c in (
    "n=32,c=256,h=14,k=256,pad=1", "n=1,c=1024,h=14,k=256,r=1", "n=32,c=64,h=56,k=256,r=1",
    "n=1,c=64,h=56,k=64,pad=1", "n=1,c=256,h=14,k=256,pad=1")]
LISTS["conv"] += [c.replace("nhwc", "nchw") for c in LISTS["conv"]]
LISTS["attention"] = [
    "attention:96x512x64", "attention:96x512x64,causal=1", "attention:12x512x64",
    "attention:128x4096x128", "attention:128x4096x128,causal=1", "attention:256x1x128,s=4096,kv=64"]
# Decoding: one row for each head, eight or four heads of a key head.
LISTS["decode"] = [
    "attention:256x1x128,s=4096,kv=64", "attention:32x1x128,s=4096,kv=8", "attention:32x1x128,s=32768,kv=8",
    "attention:256x1x64,s=2048,kv=64", "attention:64x1x128,s=1000,kv=8", "attention:32x1x128,s=4096",
    "attention:128x1x128,s=777,kv=32"]
# Operands that lie along the depth, as those of a linear layer do: what wgmma takes of any type.
LISTS["matmul_nt"] = [f"matmul:{s},tb=1" for s in (
    "4096x4096x4096", "8192x8192x8192", "2048x2048x2048", "1024x4096x4096", "3000x1544x1024")]
LISTS["conv1x1"] = [f"conv2d:{c},r=1,layout=nhwc" for c in (
    "n=32,c=64,h=56,k=256", "n=32,c=256,h=14,k=1024", "n=32,c=512,h=28,k=128", "n=8,c=160,h=7,k=960")]
# What networks have between their convolutions and products.
LISTS["network"] = [
    "max_pool2d:n=32,c=64,h=112,r=3,stride=2,pad=1", "max_pool2d:n=32,c=64,h=112,r=3,stride=2,pad=1,layout=nhwc",
    "avg_pool2d:n=32,c=192,h=35,r=3,stride=1,pad=1", "global_avg_pool:n=32,c=2048,h=7",
    "global_avg_pool:n=32,c=2048,h=7,layout=nhwc", "resize_bilinear:n=8,c=64,h=64",
    "resize_bilinear:n=8,c=64,h=64,layout=nhwc", "concat:25088x256", "concat:25088x256,axis=0",
    "layer_norm:65536x64", "layer_norm:4096x768", "softmax:49152x64", "gather:30522x768,n=4096",
    "gather:30522x768,n=128", "argmax:4096x1000", "argmax:32x50257", "top_k:32x1000",
    "conv_add_relu:n=32,c=64,h=56,k=256,r=1,layout=nhwc", "conv_add_relu:n=1,c=256,h=14,k=1024,r=1,layout=nhwc"]
# Grouped convolutions of ResNeXt-50 and -101 and RegNetY.
LISTS["grouped"] = [f"conv2d:n=32,c={c},h={h},k={c},groups={g},pad=1,layout={layout}"
                    for c, h, g in ((128, 56, 32), (256, 28, 32), (512, 14, 32), (1024, 7, 32), (224, 28, 2),
                                    (512, 28, 8)) for layout in ("nhwc", "nchw")]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32,
          "i64": torch.int64, "i8": torch.int8, "f8e4m3": torch.float8_e4m3fn}
# Largest difference from PyTorch's result, relative to 1 + |result|.
TOLERANCE = {"f32": 1e-3, "bf16": 3e-2, "f16": 1e-2, "tf32": 5e-2, "i8": 0, "f8e4m3": 0.15}
# f32 whose products both sides round to tf32.
DTYPES["tf32"] = torch.float32
SEARCH = "cublaslt"
PEERS = ["eager", "inductor", SEARCH]
VERSIONS = {"torch": torch.__version__}  # of the peers that took part


class Library:
    def __init__(self, path):
        c = ctypes.CDLL(path)
        c.heddle_gpu_error.restype = ctypes.c_char_p
        c.heddle_gpu_open.restype = ctypes.c_void_p
        c.heddle_gpu_open.argtypes = [ctypes.c_char_p] * 3
        c.heddle_gpu_dtype.restype = ctypes.c_char_p
        c.heddle_gpu_dtype.argtypes = c.heddle_gpu_rank.argtypes = [ctypes.c_void_p, ctypes.c_int]
        c.heddle_gpu_extent.restype = ctypes.c_int64
        c.heddle_gpu_extent.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        c.heddle_gpu_bind.restype = ctypes.c_void_p
        c.heddle_gpu_bind.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int]
        c.heddle_gpu_call.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        c.heddle_gpu_take.argtypes = [ctypes.c_void_p, ctypes.c_int]
        c.heddle_gpu_version.restype = ctypes.c_char_p
        for name in ("inputs", "args", "ways", "version", "close", "unbind"):
            getattr(c, "heddle_gpu_" + name).argtypes = [ctypes.c_void_p]
        self.c = c

    def error(self):
        return self.c.heddle_gpu_error().decode()


def managed_tensor(tensor):
    """The DLManagedTensor of a tensor; its receiver calls the deleter."""
    capsule = torch.utils.dlpack.to_dlpack(tensor)
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    pointer = api.PyCapsule_GetPointer(capsule, b"dltensor")
    api.PyCapsule_SetName(capsule, USED)  # the name must outlive the capsule
    return pointer


USED = b"used_dltensor"


class Heddle:
    """One of Heddle's subjects on sets of tensors; None in `error` when it works."""

    def __init__(self, library, subject, dtype, choice):
        self.lib = library
        self.handle = library.c.heddle_gpu_open(subject.encode(), dtype.encode(), choice.encode())
        self.error = None if self.handle else library.error()
        self.calls = []

    def bind(self, sets):
        c = self.lib.c
        inputs = c.heddle_gpu_inputs(self.handle)
        for tensors in sets:
            outputs = []
            for i in range(inputs, c.heddle_gpu_args(self.handle)):
                shape = [c.heddle_gpu_extent(self.handle, i, d)
                         for d in range(c.heddle_gpu_rank(self.handle, i))]
                outputs.append(torch.empty(shape, device="cuda",
                                           dtype=DTYPES[c.heddle_gpu_dtype(self.handle, i).decode()]))
            pointers = [managed_tensor(t) for t in (*tensors, *outputs)]
            call = c.heddle_gpu_bind(self.handle, (ctypes.c_void_p * len(pointers))(*pointers),
                                     len(pointers))
            if not call:
                raise RuntimeError(self.lib.error())
            self.calls.append((call, outputs))

    def __call__(self, i):
        call, outputs = self.calls[i]
        if self.lib.c.heddle_gpu_call(call, torch.cuda.current_stream().cuda_stream) != 0:
            raise RuntimeError(self.lib.error())
        return outputs[0]

    def search(self, wanted, tolerance, stream):
        """The graph of the fastest way whose result is right, or None. Later calls take that way."""
        best, least = None, math.inf
        for way in range(self.lib.c.heddle_gpu_ways(self.handle)):
            self.lib.c.heddle_gpu_take(self.handle, way)
            try:
                self.calls[0][1][0].zero_()
                with torch.cuda.stream(stream):
                    got = self(0)
                torch.cuda.synchronize()
                if difference(got.reshape(wanted.shape), wanted) > tolerance:
                    continue
                graph = graph_of(self, len(self.calls), stream)
            except RuntimeError:  # the library refuses
                continue
            if (us := in_turns({"it": graph}, 3, stream)["it"]) < least:
                best, least = graph, us
        return best

    def close(self):
        for call, _ in self.calls:
            self.lib.c.heddle_gpu_unbind(call)
        if self.handle:
            self.lib.c.heddle_gpu_close(self.handle)


def difference(ours, theirs):
    a, b = ours.double().flatten(), theirs.double().flatten()
    return ((a - b).abs() / (1 + b.abs())).max().item()


def exactly(fn, args):
    """The result without sums of parts in 16 bits, which cuBLAS otherwise takes for some sizes."""
    matmul = torch.backends.cuda.matmul
    names = ("allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction")
    before = [getattr(matmul, n) for n in names]
    for name in names:
        setattr(matmul, name, False)
    out = fn(*args)
    for name, value in zip(names, before):
        setattr(matmul, name, value)
    return out


def run(library, subject, dtype, rounds, compile_too, knobs=()):
    line = {"subject": subject, "dtype": dtype}
    declared = declare(subject, DTYPES[dtype])
    if declared is None:
        raise SystemExit(f"side_by_side.py: PyTorch has no one call for {subject}")
    fn, args = declared
    with torch.no_grad():
        wanted = exactly(fn, args)
        sets = rotated(subject, args, wanted)
        stream = torch.cuda.Stream()
        graphs, ours = {}, []
        for choice in ("static", "tuned", *knobs):
            heddle = Heddle(library, subject, dtype, choice)
            if heddle.error:
                line[choice + "_error"] = heddle.error
                continue
            heddle.bind(sets)
            ours.append(heddle)
            with torch.cuda.stream(stream):
                got = heddle(0)
            torch.cuda.synchronize()
            worst = difference(got.reshape(wanted.shape), wanted)
            line["difference"] = max(line.get("difference", 0), worst)
            graphs[choice] = graph_of(heddle, len(sets), stream)
        graphs["eager"] = graph_of(lambda i: fn(*sets[i]), len(sets), stream)
        if subject.startswith("matmul:"):
            peer = Heddle(library, subject, dtype, SEARCH)
            if peer.error:
                line[SEARCH + "_error"] = peer.error
            else:
                ours.append(peer)
                peer.bind(sets)
                VERSIONS[SEARCH] = library.c.heddle_gpu_version(peer.handle).decode()
                if graph := peer.search(wanted, TOLERANCE[dtype], stream):
                    graphs[SEARCH] = graph
        if compile_too:
            try:
                torch._dynamo.reset()
                compiled = torch.compile(fn, dynamic=False)
                graphs["inductor"] = graph_of(lambda i: compiled(*sets[i]), len(sets), stream)
            except Exception as e:  # noqa: BLE001: the peer's own failure is a result
                line["inductor_error"] = str(e)[:200]
        line["us"] = in_turns(graphs, rounds, stream)
        graphs.clear()
        for heddle in ours:
            heddle.close()
    best = min((line["us"][k] for k in ("static", "tuned") if k in line["us"]), default=math.inf)
    line["ratio"] = min(line["us"][k] for k in PEERS if k in line["us"]) / best
    line["right"] = line.get("difference", math.inf) <= TOLERANCE[dtype] * (
        math.sqrt(args[0].numel()) if subject.startswith("full_sum") else 1)
    return line


def write_json(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"gpu": torch.cuda.get_device_name(), "peers": VERSIONS, "results": lines}, f, indent=1)


def print_table(lines, knobs=()):
    columns = ["static", "tuned", *PEERS, *knobs]
    for i, choice in enumerate(knobs):
        print(f"({i + 1}) {choice}")
    names = columns[:len(columns) - len(knobs)] + [f"({i + 1})" for i in range(len(knobs))]
    print(f"\n{'microseconds':34}" + "".join(f"{c:>10}" for c in names) + "     ratio")
    print("-" * 98)
    for line in lines:
        cells = "".join(f"{line['us'][c]:10.1f}" if c in line["us"] else f"{'-':>10}" for c in columns)
        remark = "" if line["right"] else f"   differs by {line.get('difference', math.nan):.2g}"
        print(f"{line['subject'] + ' ' + line['dtype']:34}{cells}{line['ratio']:10.2f}{remark}")
        for choice in ("static", SEARCH, *knobs):
            if choice + "_error" in line:
                print(f"    {choice}: {line[choice + '_error']}")
    mean = math.exp(statistics.fmean(math.log(line["ratio"]) for line in lines))
    print("-" * 98)
    print(f"{'geometric mean':34}{mean:60.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--library", required=True, help="libheddle_gpu.so")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16", "tf32", "i8", "f8e4m3"])
    parser.add_argument("--list", choices=sorted(LISTS), action="append", default=[])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--no-compile", action="store_true", help="without Inductor")
    parser.add_argument("--knobs", action="append", default=[], metavar="NAME=VALUE,..",
                        help="time the static schedule with these knobs too (a kind by its number); "
                             "'declared': without rewrites of the graph; 'graph:winograd(tile=4)': that of another graph")
    parser.add_argument("--drawn", metavar="FILE", help="the subjects that drawn.py wrote")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no subject after this time")
    parser.add_argument("--json", help="write the results to this file too")
    parser.add_argument("subjects", nargs="*")
    o = parser.parse_args()
    subjects = o.subjects + [s for name in o.list for s in LISTS[name]]
    drawn = {}
    if o.drawn:
        with open(o.drawn, encoding="utf-8") as f:
            drawn = {line["subject"]: line for line in json.load(f)}
        subjects += drawn
    if not subjects:
        parser.error("name subjects, or a --list")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = o.dtype == "tf32"
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    random.seed(1)
    library = Library(o.library)
    lines, failed = [], 0
    begin = time.monotonic()
    for i, subject in enumerate(subjects):
        if time.monotonic() - begin > o.seconds:
            print(f"side_by_side.py: {len(subjects) - i} subjects are left out", file=sys.stderr)
            break
        if sys.stderr.isatty():
            print(f"\r[{i + 1}/{len(subjects)}] {subject}\033[K", end="", file=sys.stderr)
        try:
            lines.append(drawn.get(subject, {}) | run(library, subject, o.dtype, o.rounds, not o.no_compile, o.knobs))
        except RuntimeError as e:
            failed += 1
            print(f"side_by_side.py: {subject}: {e}", file=sys.stderr)
        if o.json:  # after each subject, so that a run that is cut off keeps what it has
            write_json(o.json, lines)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    if lines:
        print_table(lines, o.knobs)
    return 0 if not failed and all(line["right"] for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
