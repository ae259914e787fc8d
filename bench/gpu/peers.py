#!/usr/bin/env python3
"""Times PyTorch (eager, which calls cuBLAS and cuDNN, and torch.compile) on the subjects of `heddle bench --target cuda`, in
its way: a CUDA graph of launches over rotated arguments that together exceed twice the L2,
random data, the median of 20 graphs. One line of JSON a subject.

    peers.py [--dtype bf16] [--no-compile] softmax:4096x4096 matmul:1024x1024x1024 ...
"""
import argparse
import json
import math
import random
import statistics
import sys
import warnings

import torch
import torch.nn.functional as F


def shape_of(text):
    return [int(x) for x in text.split("x")]


def named(words, defaults):
    """The parameters of a subject, c=64,h=56 and the like, with those left out."""
    values = dict(defaults)
    for word in words:
        key, _, value = word.partition("=")
        values[key] = value if key == "layout" else int(value)
    return values


def declare_convolution(words, rand):
    """conv2d and conv_bias_relu. Where channels are last ours lie as (n, h, w, c) and (r, s, c, k),
    theirs in PyTorch's channels_last; the weights are turned once, as ours are prepared once."""
    p = named(words, {"n": 1, "r": 3, "stride": 1, "pad": 0, "dilation": 1, "groups": 1, "layout": "nchw"})
    n, c, h, k, r = p["n"], p["c"], p["h"], p["k"], p["r"]
    w, s, group = p.get("w", h), p.get("s", r), c // p["groups"]
    last = p["layout"] == "nhwc"
    attributes = {key: p[name] for key, name in (("stride", "stride"), ("padding", "pad"),
                                                 ("dilation", "dilation"), ("groups", "groups"))}
    turned = {}

    def filters(weight):
        key = weight.data_ptr()
        if key not in turned:
            turned[key] = weight.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        return turned[key]

    def convolve(x, weight):
        if not last:
            return F.conv2d(x, weight, **attributes)
        return F.conv2d(x.permute(0, 3, 1, 2), filters(weight), **attributes).permute(0, 2, 3, 1)

    if last:
        return convolve, (rand(n, h, w, c), rand(r, s, group, k))
    return convolve, (rand(n, c, h, w), rand(k, group, r, s))


def declare_attention(dims, words, rand):
    """attention. With a batch: without one PyTorch takes none of its fused kernels."""
    heads, tokens, size = dims
    p = named(words, {"s": 0, "kv": 0, "causal": 0})
    keys, groups = p["s"] or tokens, p["kv"] or heads
    more = {"is_causal": True} if p["causal"] else {}
    if groups == heads:
        args = rand(heads, tokens, size), rand(heads, keys, size), rand(heads, keys, size)
        return fastest_attention(
            lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None], **more)[0],
            args), args
    flat = lambda x: x.reshape(1, -1, *x.shape[-2:])  # noqa: E731
    args = (rand(groups, heads // groups, tokens, size), rand(groups, 1, keys, size),
            rand(groups, 1, keys, size))
    return fastest_attention(
        lambda q, k, v: F.scaled_dot_product_attention(
            flat(q), flat(k), flat(v), enable_gqa=True, **more).reshape(q.shape), args), args


def fastest_attention(call, args):
    """`call` with the backend of PyTorch's attention that takes the least time for `args`."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def pinned(backend):
        def run(*tensors):
            with sdpa_kernel(backend):
                return call(*tensors)
        return run

    best, least = call, math.inf
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION,
                    SDPBackend.EFFICIENT_ATTENTION):
        run, graph = pinned(backend), torch.cuda.CUDAGraph()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")  # each reason why a backend does not apply
                for _ in range(3):
                    run(*args)
                torch.cuda.synchronize()
                with torch.cuda.graph(graph):
                    for _ in range(20):
                        run(*args)
        except RuntimeError:
            continue
        graph.replay()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if begin.elapsed_time(end) < least:
            best, least = run, begin.elapsed_time(end)
    return best


def declare_matmul(dims, words, rand):
    """matmul, and where flags say so with operands that are stored the other way round. Bytes are added up
    in i32 (torch._int_mm, for which the second operand must lie along the depth), 8-bit floats by
    torch._scaled_mm, likewise."""
    m, n, k = dims
    p = named(words, {"ta": 0, "tb": 0})
    a, b = rand(*((k, m) if p["ta"] else (m, k))), rand(*((n, k) if p["tb"] else (k, n)))
    product = torch._int_mm if a.dtype == torch.int8 else torch.matmul
    if a.dtype == torch.float8_e4m3fn:
        one = torch.ones((), device="cuda")

        def product(x, y):
            return torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=x.dtype)
    return lambda a, b: product(a.t() if p["ta"] else a, b.t() if p["tb"] else b), (a, b)


def declare_network(name, words, dims, rand):
    """What networks have between their convolutions and products, or None."""
    if name == "concat":
        axis = named(words[1:], {"axis": 1})["axis"]
        return lambda x, y, z: torch.cat((x, y, z), axis), (rand(*dims), rand(*dims), rand(*dims))
    if name == "gather":
        n = named(words[1:], {"n": 4096})["n"]
        rows = torch.randint(0, dims[0], (n,), device="cuda", dtype=torch.int32)
        return lambda table, rows: F.embedding(rows, table), (rand(*dims), rows)
    if name == "top_k":
        k = named(words[1:], {"k": 5})["k"]
        return lambda x: torch.topk(x, k, -1).values, (rand(*dims),)
    images = {
        "max_pool2d": lambda x, p: F.max_pool2d(x, p["r"], p["stride"], p["pad"]),
        "avg_pool2d": lambda x, p: F.avg_pool2d(x, p["r"], p["stride"], p["pad"], count_include_pad=False),
        "global_avg_pool": lambda x, p: x.mean((2, 3), keepdim=True),
        "resize_bilinear": lambda x, p: F.interpolate(x, scale_factor=p["scale"], mode="bilinear"),
    }
    if name not in images:
        return None
    p = named(words, {"n": 1, "r": 3, "stride": 2, "pad": 0, "scale": 2, "layout": "nchw"})
    n, c, h, w = p["n"], p["c"], p["h"], p.get("w", p["h"])
    if p["layout"] == "nchw":
        return lambda x: images[name](x, p), (rand(n, c, h, w),)
    return (lambda x: images[name](x.permute(0, 3, 1, 2), p).permute(0, 2, 3, 1)), (rand(n, h, w, c),)


def declare_residual(words, rand):
    """conv_add_relu: as declare_convolution, with a bias and a residual."""
    convolve, (x, weight) = declare_convolution(words, rand)
    last = "layout=nhwc" in words
    with torch.no_grad():
        shape = convolve(x, weight).shape
    bias = rand(shape[-1] if last else shape[1])
    along = (-1,) if last else (-1, 1, 1)
    return (lambda x, weight, bias, residual: torch.relu(
        convolve(x, weight) + bias.view(along) + residual)), (x, weight, bias, rand(*shape))


def declare(subject, dtype):
    """(function, tuple of arguments) for a subject, or None where PyTorch has no one call for it."""
    name, _, rest = subject.partition(":")
    words = rest.split(",")

    def rand(*shape):
        if dtype == torch.int8:
            return torch.randint(-30, 31, shape, device="cuda", dtype=dtype)
        return torch.empty(*shape, device="cuda", dtype=torch.float32).uniform_(-1, 1).to(dtype)

    if name == "conv2d":
        return declare_convolution(words, rand)
    if name == "depthwise_conv2d":
        channels = next(w for w in words if w.startswith("c="))[2:]
        return declare_convolution([*words, "k=" + channels, "groups=" + channels], rand)
    if name == "conv_add_relu":
        return declare_residual(words, rand)
    dims = shape_of(words[0]) if words and "=" not in words[0] else []
    if (found := declare_network(name, words, dims, rand)) is not None:
        return found
    if name == "attention":
        return declare_attention(dims, words[1:], rand)

    if name == "matmul":
        return declare_matmul(dims, words[1:], rand)
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


def rotated(subject, args, out):
    """Sets of arguments that, with their results, together exceed twice the L2; the first is `args`.
    The weights of a convolution are one tensor in all of them: ours are constant, and made ready for one."""
    kept = 1 if subject.startswith("conv") else len(args)
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    size = sum(t.numel() * t.element_size() for t in (*args[:kept], out))
    sets = [args]
    while len(sets) * size < 2 * l2 and len(sets) < 1024:
        sets.append(tuple(t.clone() for t in args[:kept]) + tuple(args[kept:]))
    return sets


def graph_of(call, sets, stream):
    """(graph, launches) of call(0) ... call(sets - 1) in turn: about a third of a millisecond, every
    set at least once where they are not too many."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        for i in range(sets):
            call(i)
        begin.record()
        for i in range(sets):
            call(i)
        end.record()
        torch.cuda.synchronize()
        each = max(begin.elapsed_time(end) / sets, 1e-3)
        launches = max(4, sets if sets <= 64 else 0, min(1000, int(0.3 / each)))
        graph = torch.cuda.CUDAGraph()
        keep = []
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
            for i in range(launches):
                keep.append(call(i % sets))
                if len(keep) > sets:
                    keep.pop(0)
        graph.replay()
        torch.cuda.synchronize()
    return graph, launches


def in_turns(graphs, rounds, stream):
    """Median microseconds of one call, by name: the graphs take turns, in an order drawn each round."""
    samples = {name: [] for name in graphs}
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    names = list(graphs)
    with torch.cuda.stream(stream):
        for _ in range(rounds):
            random.shuffle(names)
            for name in names:
                graph, launches = graphs[name]
                begin.record()
                graph.replay()
                end.record()
                torch.cuda.synchronize()
                samples[name].append(begin.elapsed_time(end) * 1e3 / launches)
    return {name: statistics.median(s) for name, s in samples.items()}


def time_us(subject, fn, args):
    """Median microseconds of one call."""
    sets = rotated(subject, args, fn(*args))
    stream = torch.cuda.Stream()
    graph = graph_of(lambda i: fn(*sets[i]), len(sets), stream)
    return in_turns({"it": graph}, 20, stream)["it"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16"])
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("subjects", nargs="+")
    o = parser.parse_args()
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[o.dtype]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    for subject in o.subjects:
        line = {"subject": subject, "dtype": o.dtype}
        declared = declare(subject, dtype)
        if declared is None:
            line["missing"] = True
        else:
            fn, args = declared
            with torch.no_grad():
                line["eager_us"] = time_us(subject, fn, args)
                if not o.no_compile:
                    try:
                        torch._dynamo.reset()
                        line["inductor_us"] = time_us(subject, torch.compile(fn, dynamic=False), args)
                    except Exception as e:  # noqa: BLE001: the peer's own failure is a result
                        line["inductor_error"] = str(e)[:200]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
