#!/usr/bin/env python3
"""Times PyTorch (eager, which calls cuBLAS and cuDNN, and torch.compile) on the subjects of gpu_bench, in
gpu_bench's way: a CUDA graph of launches over rotated arguments that together exceed twice the L2,
random data, the median of 20 graphs. One line of JSON a subject.

    peers.py [--dtype bf16] [--no-compile] softmax:4096x4096 matmul:1024x1024x1024 ...
"""
import argparse
import json
import statistics
import sys

import torch
import torch.nn.functional as F


def shape_of(text):
    return [int(x) for x in text.split("x")]


def declare(subject, dtype):
    """(function, tuple of arguments) for a subject, or None where PyTorch has no one call for it."""
    name, _, rest = subject.partition(":")
    words = rest.split(",")
    dims = shape_of(words[0]) if words else []

    def rand(*shape):
        return torch.empty(*shape, device="cuda", dtype=torch.float32).uniform_(-1, 1).to(dtype)

    if name == "matmul":
        m, n, k = dims
        return lambda a, b: a @ b, (rand(m, k), rand(k, n))
    rows = {
        "softmax": lambda x: torch.softmax(x, -1),
        "log_softmax": lambda x: torch.log_softmax(x, -1),
        "gelu": lambda x: F.gelu(x),
        "transpose": lambda x: x.t().contiguous(),
        "row_sum": lambda x: x.sum(-1),
        "column_sum": lambda x: x.sum(0),
        "full_sum": lambda x: x.sum(),
        "argmax": lambda x: x.argmax(-1),
    }
    if name in rows:
        return rows[name], (rand(*dims),)
    if name in ("layer_norm", "rms_norm"):
        n = dims[1]
        if name == "layer_norm":
            return lambda x, w, b: F.layer_norm(x, (n,), w, b), (rand(*dims), rand(n), rand(n))
        return lambda x, w: F.rms_norm(x, (n,), w), (rand(*dims), rand(n))
    if name == "bias_gelu":
        return lambda x, b: F.gelu(x + b), (rand(*dims), rand(dims[1]))
    if name == "add_relu":
        return lambda x, y: torch.relu(x + y), (rand(*dims), rand(*dims))
    return None


def time_us(fn, args):
    """Median microseconds of one call."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    out = fn(*args)
    size = sum(t.numel() * t.element_size() for t in args) + out.numel() * out.element_size()
    sets = [args]
    while len(sets) * size < 2 * l2 and len(sets) < 1024:
        sets.append(tuple(t.clone() for t in args))
    outs = [None] * len(sets)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i, s in enumerate(sets):
            outs[i] = fn(*s)
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        fn(*args)
        end.record()
        torch.cuda.synchronize()
        launches = max(4, min(1000, int(0.3 / max(begin.elapsed_time(end), 1e-3))))
        launches = max(launches, len(sets)) if len(sets) <= 64 else launches
        graph = torch.cuda.CUDAGraph()
        keep = []
        with torch.cuda.graph(graph, stream=stream):
            for i in range(launches):
                keep.append(fn(*sets[i % len(sets)]))
                if len(keep) > len(sets):
                    keep.pop(0)
        graph.replay()
        torch.cuda.synchronize()
        samples = []
        for _ in range(20):
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            samples.append(begin.elapsed_time(end) * 1e3 / launches)
    return statistics.median(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16"])
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("subjects", nargs="+")
    o = parser.parse_args()
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[o.dtype]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    for subject in o.subjects:
        line = {"subject": subject, "dtype": o.dtype}
        declared = declare(subject, dtype)
        if declared is None:
            line["missing"] = True
        else:
            fn, args = declared
            with torch.no_grad():
                line["eager_us"] = time_us(fn, args)
                if not o.no_compile:
                    try:
                        torch._dynamo.reset()
                        line["inductor_us"] = time_us(torch.compile(fn, dynamic=False), args)
                    except Exception as e:  # noqa: BLE001: the peer's own failure is a result
                        line["inductor_error"] = str(e)[:200]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
