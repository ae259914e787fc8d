#!/usr/bin/env python3
"""A Llama-like decoder with random weights, as an ONNX file with past and present, or as a GGUF file.

    llama.py OUT.onnx [--layers 4] [--hidden 2048] [--heads 32] [--groups 8] [--inner 5632]
             [--vocabulary 32000] [--bits 4 --block 128]
    llama.py OUT.gguf [--type f32|f16|bf16] [--bits 4]

The ONNX file has input_ids, attention_mask, position_ids, and for each layer past.N.key and past.N.value of
(batch, groups, past, size). With --bits the weights of products are MatMulNBits in blocks, in a GGUF file Q4_0 or
Q8_0, whose blocks are 32. Files of the same sizes and bits have the same weights. Needs numpy and onnx, and gguf.
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
        self.tensors = {}  # by name: (rows, columns) of f32, or integers in blocks and their scales

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
        self.tensors[name] = value
        return self.constant(value, np.float32, name)

    def linear(self, x, name, depth, columns, options):
        if not options.bits:
            return self.op("MatMul", [x, self.weights(depth, columns, name, depth ** -0.5)])
        blocks, per_byte = depth // options.block, 8 // options.bits
        packed = self.random.integers(0, 256, (columns, blocks, options.block // per_byte), np.uint8)
        scales = (np.abs(self.random.standard_normal(columns * blocks)) + 1) * 2.4 / 2 ** options.bits / depth ** 0.5
        scales = scales.astype(np.float16)
        self.tensors[name] = (packed, scales.reshape(columns, blocks, 1))
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


def decoder(o):
    g, size = Graph(), o.hidden // o.heads
    x = g.op("Gather", [g.weights(o.vocabulary, o.hidden, "embedding", 1), "input_ids"], axis=0)
    of_keys, of_queries = tables(g, size)
    hidden = mask(g)
    for l in range(o.layers):
        x = layer(g, x, l, o, of_keys, of_queries, hidden)
    g.op("Identity", [g.linear(g.norm(x, "norm", o.hidden), "head", o.hidden, o.vocabulary, o)], "logits")
    return g


def write_onnx(path, o):
    save(decoder(o), path, "llama", vocabulary=o.vocabulary, layers=o.layers, heads=o.groups, size=o.hidden // o.heads,
         opsets={"": 17, "com.microsoft": 1})


def save(g, path, name, *, vocabulary, layers, heads, size, opsets):
    """Writes the file of a decoder with the inputs and outputs that exporters give it, and its weights beside it."""
    info = helper.make_tensor_value_info
    inputs = [info(n, TensorProto.INT64, ["batch", d])
              for n, d in (("input_ids", "seq"), ("attention_mask", "total"), ("position_ids", "seq"))]
    outputs = [info("logits", TensorProto.FLOAT, ["batch", "seq", vocabulary])]
    for l in range(layers):
        for kind in ("key", "value"):
            for when, rows, to in (("past", "past", inputs), ("present", "total", outputs)):
                to.append(info(f"{when}.{l}.{kind}", TensorProto.FLOAT, ["batch", heads, rows, size]))
    graph = helper.make_graph(g.nodes, name, inputs, outputs, g.constants)
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid(*o) for o in opsets.items()])
    onnx.save(model, path, save_as_external_data=True, location=path.split("/")[-1] + ".data")


GGUF_NAMES = {"embedding": "token_embd", "head": "output", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output",
              "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}


def pairs_of(rows, heads):
    """Llama's GGUF files turn elements 2i and 2i + 1 of a head, where others turn i and i + size / 2."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def blocks_of(packed, scales, bits):
    """The bytes of Q4_0, whose bytes have elements i and i + 16, or of Q8_0."""
    if bits == 8:
        numbers = packed ^ 128
    else:
        numbers = np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:2], 32)
        numbers = numbers[..., :16] | numbers[..., 16:] << 4
    both = np.concatenate([scales.view(np.uint8), numbers], -1)
    return both.reshape(len(packed), -1)


def write_gguf(path, o):
    import gguf

    writer, kind = gguf.GGUFWriter(path, "llama"), gguf.GGMLQuantizationType
    writer.add_block_count(o.layers)
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(o.hidden)
    writer.add_feed_forward_length(o.inner)
    writer.add_head_count(o.heads)
    writer.add_head_count_kv(o.groups)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(o.hidden // o.heads)
    writer.add_vocab_size(o.vocabulary)
    writer.add_tokenizer_model("none")
    for name, value in decoder(o).tensors.items():
        part, _, l = name.partition(".")
        to = (f"blk.{l}." if l else "") + GGUF_NAMES[part] + ".weight"
        turned = (lambda w: pairs_of(w, {"q": o.heads, "k": o.groups}[part])) if part in "qk" else lambda w: w
        if isinstance(value, tuple):
            raw = kind.Q4_0 if o.bits == 4 else kind.Q8_0
            writer.add_tensor(to, blocks_of(*map(turned, value), o.bits), raw_dtype=raw)
            continue
        rows = np.ascontiguousarray(value if part == "embedding" else turned(np.ascontiguousarray(value.T)))
        raw = kind[("f32" if o.bits else o.type).upper()]
        writer.add_tensor(to, gguf.quants.quantize(rows, raw), raw_dtype=raw)
    ones = np.ones(o.hidden, np.float32)
    for l in range(o.layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{l}.{name}.weight", ones)
    writer.add_tensor("output_norm.weight", ones)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(path, o):
    (write_gguf if path.endswith(".gguf") else write_onnx)(path, o)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--bits", type=int, choices=(4, 8), default=0)
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--type", choices=("f32", "f16", "bf16"), default="f32")
    add_sizes(parser)
    options = parser.parse_args()
    if options.out.endswith(".gguf"):
        options.block = 32
    write(options.out, options)


if __name__ == "__main__":
    main()
