"""Training steps, written once for both: a network is a function of a backend, which is heddle.ops or torch.nn.functional.

A backend has the operators that networks call; weights are what `weight(name, shape, role)` returns, in the order of the calls.
"""
import math

from cases import INNERMOST


class Declared:
    """Heddle's operators. With a type narrower than f32, products take their operands in it."""

    def __init__(self, layout, dtype):
        import heddle
        self.hd, self.ops, self.layout, self.dtype = heddle, heddle.ops, layout, dtype
        self.weights = []

    def weight(self, name, shape, role="plain"):
        if self.layout == "NHWC" and role in INNERMOST:
            shape = [shape[i] for i in INNERMOST[role]]
        self.weights.append(self.hd.placeholder(tuple(shape), "f32", name))
        return self.weights[-1]

    def _narrow(self, x):
        return x if self.dtype == "f32" else self.ops.cast(x, self.dtype)

    def _wide(self, x):
        return x if self.dtype == "f32" else self.ops.cast(x, "f32")

    def conv(self, x, w, stride, padding):
        return self.ops.conv2d(self._narrow(x), self._narrow(w), None, [stride], [padding], layout=self.layout)

    def dense(self, x, w, b):
        return self.ops.dense(self._narrow(x), self._narrow(w), self._narrow(b))

    def batch_norm(self, x, scale, shift):
        x = self._wide(x)
        at = 1 if self.layout == "NCHW" else 3
        axes = [a for a in range(4) if a != at]
        place = lambda t: self.ops.reshape(t, [t.shape[0] if a == at else 1 for a in range(4)])
        mean, variance = self.ops.mean(x, axes, True), self.ops.var(x, axes, True, False)
        ops = self.ops
        normal = ops.mul(ops.sub(x, mean), ops.rsqrt(ops.add(variance, ops.full([], 1e-5, "f32"))))
        return self._narrow(ops.add(ops.mul(normal, place(scale)), place(shift)))

    def layer_norm(self, x, scale, shift):
        return self._narrow(self.ops.layer_norm(self._wide(x), scale, shift))

    def add(self, a, b):
        return self.ops.add(a, b)

    def relu(self, x):
        return self.ops.relu(x)

    def gelu(self, x):
        return self.ops.gelu(x)

    def max_pool(self, x, size, stride, padding):
        return self.ops.max_pool(x, [size], [stride], [padding], layout=self.layout)

    def mean_of_image(self, x):
        return self.ops.mean(x, [2, 3] if self.layout == "NCHW" else [1, 2])

    def flatten(self, x):
        if self.layout == "NHWC":
            x = self.ops.transpose(x, [0, 3, 1, 2])
        return self.ops.flatten(x)

    def split_heads(self, x, heads):
        n, rows, width = x.shape
        return self.ops.transpose(self.ops.reshape(x, [n, rows, heads, width // heads]), [0, 2, 1, 3])

    def join_heads(self, x):
        n, heads, rows, width = x.shape
        return self.ops.reshape(self.ops.transpose(x, [0, 2, 1, 3]), [n, rows, heads * width])

    def attention(self, q, k, v):
        return self.ops.scaled_dot_product_attention(q, k, v)

    def embedding(self, table, tokens):
        return self._narrow(self.ops.gather(table, tokens))

    def cross_entropy(self, logits, labels):
        rows = math.prod(logits.shape[:-1])
        logits = self.ops.reshape(self._wide(logits), [rows, logits.shape[-1]])
        return self.ops.softmax_cross_entropy(logits, self.ops.reshape(labels, [rows]))


class Torch:
    """PyTorch's operators on given weights; autocast chooses types."""

    def __init__(self, weights=None):
        import torch
        self.torch, self.F = torch, torch.nn.functional
        self.given, self.shapes = weights, []

    def weight(self, name, shape, role="plain"):
        self.shapes.append((name, tuple(shape), role))
        return self.given[len(self.shapes) - 1] if self.given else self.torch.empty(shape, device="meta")

    def conv(self, x, w, stride, padding):
        return self.F.conv2d(x, w, None, stride, padding)

    def dense(self, x, w, b):
        return self.F.linear(x, w, b)

    def batch_norm(self, x, scale, shift):
        return self.F.batch_norm(x, None, None, scale, shift, training=True)

    def layer_norm(self, x, scale, shift):
        return self.F.layer_norm(x, scale.shape, scale, shift)

    def add(self, a, b):
        return a + b

    def relu(self, x):
        return self.F.relu(x)

    def gelu(self, x):
        return self.F.gelu(x)

    def max_pool(self, x, size, stride, padding):
        return self.F.max_pool2d(x, size, stride, padding)

    def mean_of_image(self, x):
        return x.mean((2, 3))

    def flatten(self, x):
        return x.flatten(1)

    def split_heads(self, x, heads):
        return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2)

    def join_heads(self, x):
        return x.transpose(1, 2).flatten(2)

    def attention(self, q, k, v):
        return self.F.scaled_dot_product_attention(q, k, v)

    def embedding(self, table, tokens):
        return self.F.embedding(tokens, table)

    def cross_entropy(self, logits, labels):
        return self.F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten())


def lenet(b, x):
    for name, into, out in (("conv1", 1, 6), ("conv2", 6, 16)):
        x = b.conv(x, b.weight(name, (out, into, 5, 5), "filter"), 1, 2 if into == 1 else 0)
        x = b.max_pool(b.relu(x), 2, 2, 0)
    x = b.flatten(x)
    for name, into, out in (("fc1", 400, 120), ("fc2", 120, 84), ("fc3", 84, 10)):
        x = b.dense(x, b.weight(name, (out, into)), b.weight(name + ".bias", (out,)))
        x = b.relu(x) if out != 10 else x
    return x


def _conv_norm(b, x, name, into, out, size, stride):
    x = b.conv(x, b.weight(name, (out, into, size, size), "filter"), stride, size // 2)
    return b.batch_norm(x, b.weight(name + ".scale", (out,)), b.weight(name + ".shift", (out,)))


def resnet18(b, x):
    x = b.max_pool(b.relu(_conv_norm(b, x, "stem", 3, 64, 7, 2)), 3, 2, 1)
    into = 64
    for out in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if out > 64 and block == 0 else 1
            name = f"block{out}.{block}"
            y = b.relu(_conv_norm(b, x, name + ".conv1", into, out, 3, stride))
            y = _conv_norm(b, y, name + ".conv2", out, out, 3, 1)
            if into != out:
                x = _conv_norm(b, x, name + ".short", into, out, 1, stride)
            x, into = b.relu(b.add(x, y)), out
    return b.dense(b.mean_of_image(x), b.weight("fc", (1000, 512)), b.weight("fc.bias", (1000,)))


def transformer(b, tokens, layers=4, width=256, heads=4, words=1000):
    x = b.embedding(b.weight("words", (words, width)), tokens)
    linear = lambda x, name, into, out: b.dense(x, b.weight(name, (out, into)), b.weight(name + ".bias", (out,)))
    norm = lambda x, name: b.layer_norm(x, b.weight(name + ".scale", (width,)), b.weight(name + ".shift", (width,)))
    for i in range(layers):
        y = norm(x, f"{i}.norm1")
        q, k, v = (b.split_heads(linear(y, f"{i}.{part}", width, width), heads) for part in "qkv")
        x = b.add(x, linear(b.join_heads(b.attention(q, k, v)), f"{i}.out", width, width))
        y = linear(norm(x, f"{i}.norm2"), f"{i}.up", width, 4 * width)
        x = b.add(x, linear(b.gelu(y), f"{i}.down", 4 * width, width))
    return linear(norm(x, "norm"), "logits", width, words)


def networks(image):
    """By name: the function, the shape and role of its input, the number of its classes, and the optimiser."""
    return {
        "LeNet": (lenet, (64, 1, 28, 28), "image", 10, "sgd"),
        "ResNet-18": (resnet18, (32, 3, image, image), "image", 1000, "sgd"),
        "transformer": (transformer, (8, 128), "index", 1000, "adam"),
    }
