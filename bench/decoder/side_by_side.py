#!/usr/bin/env python3
"""Times a step of a decoder on an NVIDIA GPU by Heddle and by PyTorch with a static cache, one after the other.

    side_by_side.py [--cases 1:64:1024,16:64:1024,1:4000:4608] [--tokens 32] [--dtype bf16]
                    [--heddle build/bin/heddle] [--json results.json] [sizes as of llama.py]

A case is batch:prompt:capacity. Heddle is `heddle generate` (a token drawn greedily is part of its time, as
it is of PyTorch's), PyTorch runs the same decoder eagerly and by torch.compile with CUDA graphs. The times are
medians of tokens; a table and the bytes a second of the weights are printed. Weights are random, so that
tokens are not compared. Needs requirements.txt of ../gpu, onnx and a GPU.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import llama

WARM = 8


def heddle_step(options, model, batch, prompt, capacity):
    ids = ",".join(str(7 * i % options.vocabulary) for i in range(prompt))
    command = [options.heddle, "generate", model, "--target", "cuda", "--dtype", options.dtype, "--batch", str(batch),
               "--prompt-ids", ids, "--capacity", str(capacity), "--chunk", "512", "--tokens", str(options.tokens),
               "--greedy", "--end-ids", "none", "-q", "--json"]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return result["token_s"], result["bytes_per_step"]


class Decoder:
    def __init__(self, o, dtype):
        import torch

        self.torch, self.o, self.dtype = torch, o, dtype
        torch.manual_seed(1)
        size = o.hidden // o.heads
        self.size, self.qkv = size, [o.hidden, o.groups * size, o.groups * size]
        shapes = {"qkv": (sum(self.qkv), o.hidden), "o": (o.hidden, o.hidden), "gate": (o.inner, o.hidden),
                  "up": (o.inner, o.hidden), "down": (o.hidden, o.inner)}
        self.layers = [{n: self.random(*s) for n, s in shapes.items()} for _ in range(o.layers)]
        self.embedding, self.head = self.random(o.vocabulary, o.hidden), self.random(o.vocabulary, o.hidden)

    def random(self, *shape):
        return self.torch.randn(*shape, device="cuda", dtype=self.dtype) * 0.02

    def norm(self, x):
        return x * self.torch.rsqrt((x.float() ** 2).mean(-1, keepdim=True) + 1e-5).to(x.dtype)

    def rotated(self, x, cosine, sine):
        a, b = x.chunk(2, -1)
        return x * cosine + self.torch.cat([-b, a], -1) * sine

    def step(self, ids, position, keys, values, cosine, sine, places):
        f, batch, x = self.torch.nn.functional, ids.shape[0], self.embedding[ids]
        c, s, seen = cosine[position], sine[position], (places <= position)[None, None, None]
        heads = lambda t, n: t.view(batch, 1, n, self.size).transpose(1, 2)
        for l, w in enumerate(self.layers):
            q, k, v = (self.norm(x) @ w["qkv"].T).split(self.qkv, -1)
            keys[l].index_copy_(2, position, self.rotated(heads(k, self.o.groups), c, s))
            values[l].index_copy_(2, position, heads(v, self.o.groups))
            y = f.scaled_dot_product_attention(self.rotated(heads(q, self.o.heads), c, s), keys[l], values[l],
                                               attn_mask=seen, enable_gqa=True)
            x = x + y.transpose(1, 2).reshape(batch, 1, -1) @ w["o"].T
            h = self.norm(x)
            x = x + (f.silu(h @ w["gate"].T) * (h @ w["up"].T)) @ w["down"].T
        return (self.norm(x[:, -1]) @ self.head.T).float()

    def seconds(self, step, batch, prompt, capacity, tokens):
        torch, times = self.torch, []
        shape = (batch, self.o.groups, capacity, self.size)
        keys, values = ([self.random(*shape) for _ in self.layers] for _ in range(2))
        for cache in keys + values:  # otherwise torch.compile makes no CUDA graph of a step that writes them
            torch._dynamo.mark_static_address(cache)
        places = torch.arange(capacity, device="cuda")
        angle = torch.outer(places.float(), 1 / 10000 ** (torch.arange(0, self.size, 2, device="cuda") / self.size))
        angle = torch.cat([angle, angle], 1)
        cosine, sine = angle.cos().to(self.dtype), angle.sin().to(self.dtype)
        ids = torch.ones(batch, 1, dtype=torch.long, device="cuda")
        with torch.no_grad():
            for n in range(tokens + WARM):
                position = torch.tensor([prompt + n % (capacity - prompt)], device="cuda")
                torch.cuda.synchronize()
                begin = time.perf_counter()
                ids = step(ids, position, keys, values, cosine, sine, places).argmax(-1)[:, None].clone()
                torch.cuda.synchronize()
                times.append(time.perf_counter() - begin)
        return sorted(times[WARM:])[tokens // 2]


def run(options):
    import torch

    decoder = Decoder(options, {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[options.dtype])
    compiled = torch.compile(decoder.step, mode="reduce-overhead", dynamic=False)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        model = str(pathlib.Path(folder) / "llama.onnx")
        options.bits = 0
        llama.write(model, options)
        print(f"{'batch':>5} {'past':>6} {'Heddle us':>10} {'eager us':>10} {'compiled us':>12} {'compiled/Heddle':>16} {'GB/s':>7}")
        for batch, prompt, capacity in options.cases:
            ours, moved = heddle_step(options, model, batch, prompt, capacity)
            eager, graphs = (decoder.seconds(f, batch, prompt, capacity, options.tokens) for f in (decoder.step, compiled))
            results.append({"batch": batch, "past": prompt, "capacity": capacity, "heddle_s": ours, "eager_s": eager,
                            "compiled_s": graphs, "bytes": moved})
            print(f"{batch:5} {prompt:6} {ours * 1e6:10.0f} {eager * 1e6:10.0f} {graphs * 1e6:12.0f} "
                  f"{graphs / ours:16.2f} {moved / ours / 1e9:7.0f}", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    case = lambda text: [tuple(map(int, c.split(":"))) for c in text.split(",")]
    parser.add_argument("--cases", type=case, default=case("1:64:1024,16:64:1024,1:4000:4608"))
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--dtype", choices=("bf16", "f16", "f32"), default="bf16")
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--json")
    llama.add_sizes(parser)
    run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
