#!/usr/bin/env python3
"""A Llama-like decoder with random weights, as an ONNX file with past and present and as a PyTorch step.

    llama.py OUT.onnx [--layers 4] [--hidden 2048] [--heads 32] [--groups 8] [--inner 5632]
             [--vocabulary 32000] [--bits 4 --block 128]

The file has input_ids, attention_mask, position_ids, and for each layer past.N.key and past.N.value of
(batch, groups, past, size). With --bits the weights of products are MatMulNBits in blocks. Needs numpy and onnx.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

POSITIONS = 8192
SIZES = {"layers": 4, "hidden": 2048, "heads": 32, "groups": 8, "inner": 5632, "vocabulary": 32000}


def add_sizes(parser):
    for name, usual in SIZES.items():
        parser.add_argument("--" + name, type=int, default=usual)


class Graph:
    def __init__(self):
        self.nodes, self.constants, self.random = [], [], np.random.default_rng(1)

    def constant(self, value, dtype=np.int64, name=None):
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def op(self, kind, inputs, output=None, domain="", **attributes):
        output = output or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def weights(self, rows, columns, name, scale):
        """Rows and columns are random, elements their sums: faster than random elements, and of full rank 2."""
        value = self.random.standard_normal((rows, 1), np.float32)
        value = (value + self.random.standard_normal((1, columns), np.float32)) * np.float32(scale)
        return self.constant(value, np.float32, name)

    def linear(self, x, name, depth, columns, options):
        if not options.bits:
            return self.op("MatMul", [x, self.weights(depth, columns, name, depth ** -0.5)])
        blocks, per_byte = depth // options.block, 8 // options.bits
        packed = self.random.integers(0, 256, (columns, blocks, options.block // per_byte), np.uint8)
        scales = (np.abs(self.random.standard_normal(columns * blocks)) + 1) * 0.15 / depth ** 0.5
        return self.op("MatMulNBits", [x, self.constant(packed, np.uint8, name),
                                       self.constant(scales, np.float32, name + ".scales")],
                       domain="com.microsoft", K=depth, N=columns, bits=options.bits, block_size=options.block)

    def norm(self, x, name, columns):
        mean = self.op("ReduceMean", [self.op("Mul", [x, x])], axes=[-1], keepdims=1)
        root = self.op("Sqrt", [self.op("Add", [mean, self.constant(1e-5, np.float32)])])
        return self.op("Mul", [self.op("Div", [x, root]), self.constant(np.ones(columns), np.float32, name)])

    def rotated(self, x, cosine, sine, axis, size):
        half = [self.op("Slice", [x, self.constant([b]), self.constant([b + size // 2]), self.constant([axis])])
                for b in (0, size // 2)]
        turned = self.op("Concat", [self.op("Neg", [half[1]]), half[0]], axis=-1)
        return self.op("Add", [self.op("Mul", [x, cosine]), self.op("Mul", [turned, sine])])


def tables(g, size):
    """The cosines and sines of the positions, for keys and for queries in groups."""
    inverse = 1 / 10000 ** (np.arange(0, size, 2) / size)
    angle = np.tile(np.arange(POSITIONS)[:, None] * inverse, 2)
    rows = [g.op("Gather", [g.constant(f(angle), np.float32), "position_ids"], axis=0) for f in (np.cos, np.sin)]
    lifted = lambda axes: [g.op("Unsqueeze", [r, g.constant(axes)]) for r in rows]
    return lifted([1]), lifted([1, 2])


def mask(g):
    total = g.op("Gather", [g.op("Shape", ["attention_mask"]), g.constant(1)], axis=0)
    past = g.op("Gather", [g.op("Shape", ["past.0.key"]), g.constant(2)], axis=0)
    columns = g.op("Range", [g.constant(0), total, g.constant(1)])
    rows = g.op("Unsqueeze", [g.op("Range", [past, total, g.constant(1)]), g.constant([1])])
    there = g.op("Unsqueeze", [g.op("Cast", ["attention_mask"], to=TensorProto.BOOL), g.constant([1, 2])])
    seen = g.op("And", [g.op("LessOrEqual", [columns, rows]), there])
    hidden = g.op("Where", [seen, g.constant(0, np.float32), g.constant(-1e9, np.float32)])
    return g.op("Unsqueeze", [hidden, g.constant([1])])


def layer(g, x, l, o, of_keys, of_queries, hidden):
    size, per_group = o.hidden // o.heads, o.heads // o.groups
    h = g.norm(x, f"norm1.{l}", o.hidden)
    q = g.op("Reshape", [g.linear(h, f"q.{l}", o.hidden, o.hidden, o), g.constant([0, 0, o.groups, per_group, size])])
    q = g.rotated(g.op("Transpose", [q], perm=[0, 2, 3, 1, 4]), *of_queries, 4, size)
    k, v = (g.op("Transpose", [g.op("Reshape", [g.linear(h, f"{n}.{l}", o.hidden, o.groups * size, o),
                                                g.constant([0, 0, o.groups, size])])], perm=[0, 2, 1, 3])
            for n in "kv")
    for name, new in (("key", g.rotated(k, *of_keys, 3, size)), ("value", v)):
        g.op("Concat", [f"past.{l}.{name}", new], f"present.{l}.{name}", axis=2)
    keys = g.op("Unsqueeze", [f"present.{l}.key", g.constant([2])])
    scores = g.op("MatMul", [q, g.op("Transpose", [keys], perm=[0, 1, 2, 4, 3])])
    scores = g.op("Add", [g.op("Mul", [scores, g.constant(size ** -0.5, np.float32)]), hidden])
    values = g.op("Unsqueeze", [f"present.{l}.value", g.constant([2])])
    y = g.op("MatMul", [g.op("Softmax", [scores], axis=-1), values])
    y = g.op("Reshape", [g.op("Transpose", [y], perm=[0, 3, 1, 2, 4]), g.constant([0, 0, o.hidden])])
    x = g.op("Add", [x, g.linear(y, f"o.{l}", o.hidden, o.hidden, o)])
    h = g.norm(x, f"norm2.{l}", o.hidden)
    gate, up = (g.linear(h, f"{n}.{l}", o.hidden, o.inner, o) for n in ("gate", "up"))
    h = g.op("Mul", [g.op("Mul", [gate, g.op("Sigmoid", [gate])]), up])
    return g.op("Add", [x, g.linear(h, f"down.{l}", o.inner, o.hidden, o)])


def write(path, o):
    g, size = Graph(), o.hidden // o.heads
    x = g.op("Gather", [g.weights(o.vocabulary, o.hidden, "embedding", 1), "input_ids"], axis=0)
    of_keys, of_queries = tables(g, size)
    hidden = mask(g)
    for l in range(o.layers):
        x = layer(g, x, l, o, of_keys, of_queries, hidden)
    g.op("Identity", [g.linear(g.norm(x, "norm", o.hidden), "head", o.hidden, o.vocabulary, o)], "logits")
    info = helper.make_tensor_value_info
    inputs = [info(n, TensorProto.INT64, ["batch", d])
              for n, d in (("input_ids", "seq"), ("attention_mask", "total"), ("position_ids", "seq"))]
    outputs = [info("logits", TensorProto.FLOAT, ["batch", "seq", o.vocabulary])]
    for l in range(o.layers):
        for name in ("key", "value"):
            for when, rows, to in (("past", "past", inputs), ("present", "total", outputs)):
                to.append(info(f"{when}.{l}.{name}", TensorProto.FLOAT, ["batch", o.groups, rows, size]))
    graph = helper.make_graph(g.nodes, "llama", inputs, outputs, g.constants)
    model = helper.make_model(graph, ir_version=9, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    onnx.save(model, path, save_as_external_data=True, location=path.split("/")[-1] + ".data")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--bits", type=int, choices=(4, 8), default=0)
    parser.add_argument("--block", type=int, default=128)
    add_sizes(parser)
    options = parser.parse_args()
    write(options.out, options)


if __name__ == "__main__":
    main()
