#!/usr/bin/env python3
"""Names the convolutions, products and attentions of networks as subjects for side_by_side.py, drawn by rule.

    drawn.py --networks 40 --without ../python/networks.txt --batch 1,32 > drawn.json
    side_by_side.py --library ... --dtype f16 --no-compile --drawn drawn.json

Networks are taken from the corpus in the order of the CRC-32 of their names, without those of given lists. Each
runs once on the CPU at batch 1, and what it calls is noted; other batches have as many times the images, rows or
heads. A subject has the share of its network's multiplications that it takes, of all calls that are alike. Of the
subjects of a network with more than one hundredth of these, --each are drawn by the CRC-32 of their texts. Left
out are forms that side_by_side.py has no one call for: unequal strides, masks, products of several matrices.
Needs the requirements of ../corpus.
"""
import argparse
import collections
import json
import math
import pathlib
import sys
import zlib

import torch
from torch.overrides import TorchFunctionMode

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parent / "corpus"
sys.path[:0] = [str(CORPUS), str(HERE.parent / "networks")]
LEAST_SHARE = 0.01


def one_of(value):
    """The number that a parameter of all dimensions of an image is; None where they differ."""
    if isinstance(value, int):
        return value
    values = set(value) if isinstance(value, (tuple, list)) else {None}
    return values.pop() if len(values) == 1 else None


def convolution(batch, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    p = {"stride": one_of(stride), "pad": one_of(padding), "dilation": one_of(dilation)}
    if not all(isinstance(v, int) for v in p.values()) or x.dim() != 4:
        return None
    n, c, h, w = x.shape
    k, _, r, s = weight.shape
    words = {"n": n * batch, "c": c, "h": h, "w": w, "k": k, "r": r, "s": s, **p, "groups": groups}
    usual = {"w": h, "s": r, "stride": 1, "pad": 0, "dilation": 1, "groups": 1}
    text = ",".join(f"{key}={value}" for key, value in words.items() if usual.get(key) != value)
    height, width = ((size + 2 * p["pad"] - p["dilation"] * (of - 1) - 1) // p["stride"] + 1
                     for size, of in ((h, r), (w, s)))
    return f"conv2d:{text},layout=nhwc", n * batch * height * width * weight.numel()


def linear(batch, x, weight, bias=None):
    rows = batch * math.prod(x.shape[:-1])
    n, k = weight.shape
    return f"matmul:{rows}x{n}x{k},tb=1", rows * n * k


def product(batch, x, y):
    if y.dim() != 2 or x.dim() < 2 or not isinstance(y, torch.nn.Parameter):
        return None
    rows = batch * math.prod(x.shape[:-1])
    return f"matmul:{rows}x{y.shape[1]}x{y.shape[0]}", rows * y.numel()


def attention(batch, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, **more):
    if attn_mask is not None or q.dim() < 3 or q.shape[:-2] != k.shape[:-2] or q.shape[-1] != v.shape[-1]:
        return None
    heads, (rows, size), keys = batch * math.prod(q.shape[:-2]), q.shape[-2:], k.shape[-2]
    words = [f"{heads}x{rows}x{size}"] + ([f"s={keys}"] if keys != rows else []) + (["causal=1"] if is_causal else [])
    return "attention:" + ",".join(words), 2 * heads * rows * keys * size


FUNCTIONS = {torch.conv2d: convolution, torch.nn.functional.conv2d: convolution, torch.nn.functional.linear: linear,
             torch.matmul: product, torch.Tensor.matmul: product,
             torch.nn.functional.scaled_dot_product_attention: attention}


class Calls(TorchFunctionMode):
    """What is called, as pairs of a function and its arguments, of which tensors are empty ones of their shapes."""

    def __init__(self):
        super().__init__()
        self.all = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in FUNCTIONS:
            def shape(a):
                if not isinstance(a, torch.Tensor):
                    return a
                empty = a.detach().to("meta")
                return torch.nn.Parameter(empty, False) if isinstance(a, torch.nn.Parameter) else empty
            self.all.append((FUNCTIONS[function], [shape(a) for a in args],
                             {key: shape(a) for key, a in (kwargs or {}).items()}))
        return function(*args, **(kwargs or {}))


def subjects_of(name, batches):
    """By batch: the share of each subject of a network."""
    import sources
    module, inputs = sources.make(name)
    for part in module.modules():
        if hasattr(part, "fused_attn"):  # exporters know no attention
            part.fused_attn = True
    with torch.no_grad(), Calls() as calls:
        module(*inputs)
    found = {}
    for batch in batches:
        work = collections.Counter()
        for function, args, more in calls.all:
            try:
                known = function(batch, *args, **{"q" if k == "query" else "k" if k == "key" else "v" if k == "value"
                                                  else k: v for k, v in more.items()})
            except TypeError:
                known = None
            if known:
                work[known[0]] += known[1]
        whole = sum(work.values())
        found[batch] = {subject: n / whole for subject, n in work.items()}
    return found


def candidates(o):
    without = {name for path in o.without for name in pathlib.Path(path).read_text().split()}
    names = [n for n in (CORPUS / "networks.txt").read_text().split() if n not in without]
    libraries = o.libraries.split(",")
    return sorted((n for n in names if n.split("/")[0] in libraries), key=lambda n: zlib.crc32(n.encode()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", type=int, default=40)
    parser.add_argument("--without", action="append", default=[], metavar="FILE")
    parser.add_argument("--libraries", default="torchvision,timm")
    parser.add_argument("--batch", default="1,32")
    parser.add_argument("--each", type=int, default=1, help="subjects of a network at a batch")
    o = parser.parse_args()
    batches = [int(n) for n in o.batch.split(",")]
    lines, seen, taken = [], set(), 0
    for name in candidates(o):
        if taken == o.networks:
            break
        try:
            found = subjects_of(name, batches)
        except Exception as error:  # what a library cannot make
            print(f"{name}: {str(error)[:100]}", file=sys.stderr)
            continue
        taken += 1
        for batch, shares in found.items():
            large = sorted((s for s in shares if shares[s] > LEAST_SHARE and s not in seen),
                           key=lambda s: zlib.crc32(f"{name} {s}".encode()))
            for subject in large[:o.each]:
                seen.add(subject)
                lines.append({"subject": subject, "network": name, "batch": batch, "share": round(shares[subject], 4)})
    json.dump(lines, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
