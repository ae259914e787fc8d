"""The gradient of each operator against PyTorch's autograd, on random shapes. HEDDLE_GRADIENT_ROUNDS says how many of each (1)."""

import os

import numpy as np
import pytest

import heddle as hd
from test_gradient import expect_torch

torch = pytest.importorskip("torch")
F = torch.nn.functional
ops = hd.ops
ROUNDS = int(os.environ.get("HEDDLE_GRADIENT_ROUNDS", "1"))


class Draw:
    """Random shapes, and inputs of them."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def int(self, low, high):
        return int(self.random.integers(low, high + 1))

    def shape(self, rank=None):
        return tuple(self.int(1, 9) for _ in range(rank or self.int(1, 3)))

    def array(self, shape, low=-1.5, high=1.5):
        return self.random.uniform(low, high, shape).astype(np.float32)

    def apart(self, shape):
        """Elements that differ by far more than what rounding moves, so that it is known which is the largest."""
        n = int(np.prod(shape))
        return (self.random.permutation(n) / max(n, 2) * 3 - 1.5).reshape(shape).astype(np.float32)

    def indices(self, shape, extent):
        return hd.constant(self.keep(self.random.integers(0, extent, shape)))

    def keep(self, array):
        self.kept = np.ascontiguousarray(array, np.int64)
        return self.kept


def unary(name, low=-1.5, high=1.5, reference=None):
    def case(d):
        x = d.array(d.shape(), low, high)
        x[np.abs(x) < 0.05] = 0.2  # kinks are at 0
        return getattr(ops, name), reference or getattr(torch, name), [x]
    return case


def binary(name, reference, low=-1.5, high=1.5):
    def case(d):
        shape = d.shape(2)
        return getattr(ops, name), reference, [d.array(shape, low, high), d.array(shape[1:] if d.int(0, 1) else shape, low, high)]
    return case


def reduction(name, reference, array="array"):
    def case(d):
        shape = d.shape(3)
        axis = d.int(0, 2)
        return (lambda x: getattr(ops, name)(x, [axis])), (lambda x: reference(x, axis)), [getattr(d, array)(shape)]
    return case


def along(name, reference):
    def case(d):
        axis = d.int(0, 1)
        return (lambda x: getattr(ops, name)(x, axis)), (lambda x: reference(x, axis)), [d.array(d.shape(2), 0.3, 1.5)]
    return case


def convolution(rank, transposed=False):
    def case(d):
        groups, stride, padding = d.int(1, 2), d.int(1, 2), d.int(0, 1)
        dilation = 1 if transposed else d.int(1, 2)
        c, k, size = 2 * groups, 3 * groups, [d.int(5, 7) for _ in range(rank)]
        name = f"conv{'_transpose' if transposed else ''}{rank}d"
        x = d.array((d.int(1, 2), c, *size))
        w = d.array((c, k // groups, *[3] * rank) if transposed else (k, c // groups, *[3] * rank))
        more = {} if transposed else {"dilation": dilation}
        lists = {key: [value] for key, value in {"stride": stride, "padding": padding, **more}.items()}
        return (lambda x, w: getattr(ops, name)(x, w, groups=groups, **lists)), \
            (lambda x, w: getattr(F, name)(x, w, groups=groups, stride=stride, padding=padding, **more)), [x, w]
    return case


def depthwise(d):
    c = d.int(2, 5)
    return (lambda x, w: ops.depthwise_conv2d(x, w, padding=[1])), (lambda x, w: F.conv2d(x, w, padding=1, groups=c)), \
        [d.array((2, c, 6, 7)), d.array((c, 1, 3, 3))]


def pool(name, reference, array):
    def case(d):
        stride, size = d.int(1, 2), d.int(2, 3)
        return (lambda x: getattr(ops, name)(x, [size], [stride])), (lambda x: reference(x, size, stride)), [getattr(d, array)((2, 3, 7, 8))]
    return case


def on_images(ours, theirs, array="array", channels=3):
    return lambda d: (ours, theirs, [getattr(d, array)((d.int(1, 3), channels, d.int(4, 8), d.int(4, 8)))])


def normalised(name, reference, parameters):
    def case(d):
        n = d.int(3, 9)
        return getattr(ops, name), reference, [d.array((d.int(2, 5), n)), *[d.array((n,)) for _ in range(parameters)]]
    return case


def gather(d):
    rows, axis = d.int(2, 9), d.int(0, 1)
    shape = (rows, d.int(2, 5)) if axis == 0 else (d.int(2, 5), rows)
    at = d.indices((d.int(1, 12),), rows)
    kept = torch.tensor(d.kept)
    return (lambda x: ops.gather(x, at, axis)), (lambda x: x.index_select(axis, kept)), [d.array(shape)]


def gather_elements(d):
    rows, columns = d.int(2, 9), d.int(2, 5)
    at = d.indices((d.int(1, 12), columns), rows)
    kept = torch.tensor(d.kept)
    return (lambda x: ops.gather_elements(x, at, 0)), (lambda x: x.gather(0, kept)), [d.array((rows, columns))]


def gather_nd(d):
    shape = (d.int(2, 6), d.int(2, 6), 3)
    at = hd.constant(d.keep(np.stack([d.random.integers(0, n, 7) for n in shape[:2]], -1)))
    kept = torch.tensor(d.kept)
    return (lambda x: ops.gather_nd(x, at)), (lambda x: x[kept[:, 0], kept[:, 1]]), [d.array(shape)]


def scatter_nd(d):
    rows, count = d.int(4, 9), d.int(1, 4)
    at = hd.constant(d.keep(d.random.permutation(rows)[:count, None]))
    kept = torch.tensor(d.kept[:, 0])
    return (lambda x, u: ops.scatter_nd(x, at, u)), (lambda x, u: x.index_copy(0, kept, u)), [d.array((rows, 3)), d.array((count, 3))]


def scatter_elements(d):
    rows, columns = d.int(4, 9), d.int(1, 4)
    at = hd.constant(d.keep(np.stack([d.random.permutation(rows)[:3] for _ in range(columns)], -1)))
    kept = torch.tensor(d.kept)
    return (lambda x, u: ops.scatter_elements(x, at, u, 0)), (lambda x, u: x.scatter(0, kept, u)), \
        [d.array((rows, columns)), d.array((3, columns))]


def moved(ours, theirs, rank=2):
    return lambda d: (ours, theirs, [d.array(d.shape(rank))])


def two(ours, theirs, rank=2):
    def case(d):
        shape = d.shape(rank)
        return ours, theirs, [d.array(shape), d.array(shape)]
    return case


def product(name, reference, shapes):
    def case(d):
        sizes = {letter: d.int(1, 9) for letter in "bmkn"}
        return getattr(ops, name), reference, [d.array(tuple(sizes[letter] for letter in s)) for s in shapes.split(",")]
    return case


def attention(d):
    q, k, width = d.int(1, 6), d.int(1, 6), d.int(1, 8)
    return (lambda q, k, v: ops.scaled_dot_product_attention(q, k, v)), F.scaled_dot_product_attention, \
        [d.array((2, q, width)), d.array((2, k, width)), d.array((2, k, width))]


def cross_entropy(d):
    rows, classes = d.int(1, 6), d.int(2, 9)
    at = d.indices((rows,), classes)
    kept = torch.tensor(d.kept)
    return (lambda x: ops.softmax_cross_entropy(x, at)), (lambda x: F.cross_entropy(x, kept)), [d.array((rows, classes))]


UNARY = ["abs", "atan", "cos", "cosh", "erf", "exp", "exp2", "expm1", "neg", "relu", "sigmoid", "sin", "sinh", "square", "tan", "tanh"]
CASES = {name: unary(name, high=1.2, low=-1.2) for name in UNARY} | {
    name: unary(name, 0.3, 2) for name in ("log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sqrt")} | {
    "acosh": unary("acosh", 1.2, 3)} | {
    name: unary(name, -0.8, 0.8) for name in ("acos", "asin", "asinh", "atanh")} | {
    "elu": unary("elu", reference=F.elu), "gelu": unary("gelu", reference=F.gelu),
    "gelu_tanh": unary("gelu_tanh", reference=lambda x: F.gelu(x, approximate="tanh")),
    "hardsigmoid": unary("hardsigmoid", reference=F.hardsigmoid), "hardswish": unary("hardswish", reference=F.hardswish),
    "leaky_relu": unary("leaky_relu", reference=F.leaky_relu), "mish": unary("mish", reference=F.mish),
    "relu6": unary("relu6", reference=F.relu6), "selu": unary("selu", reference=F.selu), "silu": unary("silu", reference=F.silu),
    "softplus": unary("softplus", reference=F.softplus), "softsign": unary("softsign", reference=F.softsign),
    "clip": lambda d: (lambda x: ops.clip(x, -1.0, 1.0), lambda x: x.clip(-1, 1), [d.apart(d.shape())]),
    "add": binary("add", torch.add), "sub": binary("sub", torch.sub), "mul": binary("mul", torch.mul),
    "div": binary("div", torch.div, 0.4), "pow": binary("pow", torch.pow, 0.4), "atan2": binary("atan2", torch.atan2, 0.3),
    "maximum": two(ops.maximum, torch.maximum), "minimum": two(ops.minimum, torch.minimum),
    "sum": reduction("sum", torch.sum), "mean": reduction("mean", torch.mean), "prod": reduction("prod", torch.prod),
    "max": reduction("max", lambda x, a: x.max(a).values, "apart"), "min": reduction("min", lambda x, a: x.min(a).values, "apart"),
    "logsumexp": reduction("logsumexp", torch.logsumexp), "norm_l1": reduction("norm_l1", lambda x, a: x.abs().sum(a)),
    "norm_l2": reduction("norm_l2", lambda x, a: x.square().sum(a).sqrt()),
    "var": lambda d: (lambda x: ops.var(x, [1]), lambda x: x.var(1), [d.array((d.int(1, 5), d.int(2, 9)))]),
    "cumsum": along("cumsum", torch.cumsum), "cumprod": along("cumprod", torch.cumprod),
    "softmax": along("softmax", torch.softmax), "log_softmax": along("log_softmax", torch.log_softmax),
    "layer_norm": normalised("layer_norm", lambda x, w, b: F.layer_norm(x, w.shape, w, b), 2),
    "rms_norm": normalised("rms_norm", lambda x, w: x * (x.square().mean(-1, True) + 1e-5).rsqrt() * w, 1),
    "softmax_cross_entropy": cross_entropy, "scaled_dot_product_attention": attention,
    "matmul": product("matmul", torch.matmul, "bmk,bkn"), "dense": product("dense", F.linear, "mk,nk"),
    "matvec": product("matvec", torch.mv, "mk,k"), "dot": product("dot", torch.dot, "k,k"), "outer": product("outer", torch.outer, "m,n"),
    "conv1d": convolution(1), "conv2d": convolution(2), "conv3d": convolution(3), "conv_transpose1d": convolution(1, True),
    "conv_transpose2d": convolution(2, True), "conv_transpose3d": convolution(3, True), "depthwise_conv2d": depthwise,
    "max_pool": pool("max_pool", F.max_pool2d, "apart"), "avg_pool": pool("avg_pool", F.avg_pool2d, "array"),
    "global_avg_pool": on_images(ops.global_avg_pool, lambda x: x.mean((2, 3), True)),
    "global_max_pool": on_images(ops.global_max_pool, lambda x: x.amax((2, 3), True), "apart"),
    "pixel_shuffle": on_images(lambda x: ops.pixel_shuffle(x, 2), lambda x: F.pixel_shuffle(x, 2), channels=8),
    "gather": gather, "gather_elements": gather_elements, "gather_nd": gather_nd,
    "scatter_nd": scatter_nd, "scatter_elements": scatter_elements,
    "transpose": moved(ops.transpose, lambda x: x.T), "flip": moved(lambda x: ops.flip(x, [1]), lambda x: x.flip(1)),
    "flatten": moved(ops.flatten, lambda x: x.flatten(1), 3), "expand_dims": moved(lambda x: ops.expand_dims(x, [1]), lambda x: x.unsqueeze(1)),
    "identity": moved(ops.identity, lambda x: x.clone()), "tril": moved(ops.tril, torch.tril), "triu": moved(ops.triu, torch.triu),
    "pad": moved(lambda x: ops.pad(x, [1, 0], [0, 2]), lambda x: F.pad(x, (0, 2, 1, 0))),
    "tile": moved(lambda x: ops.tile(x, [2, 3]), lambda x: x.tile(2, 3)),
    "broadcast_to": lambda d: (lambda x: ops.broadcast_to(x, [4, *x.shape]), lambda x: x.expand(4, *x.shape).clone(), [d.array(d.shape(2))]),
    "roll": moved(lambda x: ops.roll(x, 2, 1), lambda x: x.roll(2, 1)), "slice": moved(lambda x: ops.slice(x, [0, 0], [1, 1]), lambda x: x[:1, :1]),
    "prelu": lambda d: (ops.prelu, lambda x, w: F.prelu(x, w), [d.array((d.int(1, 4), 3), 0.1) * d.random.choice([-1, 1], 3).astype(np.float32), d.array((3,))]),
    "where": lambda d: (lambda x, y: ops.where(ops.greater(x, y), x, y), torch.maximum, [d.apart((4, 5)), d.array((4, 5)) + 0.001]),
    "squeeze": lambda d: (lambda x: ops.squeeze(x, [1]), lambda x: x.squeeze(1), [d.array((d.int(1, 5), 1, d.int(1, 5)))]),
    "reshape": lambda d: (lambda x: ops.reshape(x, [6, 4]), lambda x: x.reshape(6, 4), [d.array((4, 6))]),
    "concat": two(lambda a, b: ops.concat([a, b], 1), lambda a, b: torch.cat([a, b], 1)),
    "stack": two(lambda a, b: ops.stack([a, b], 0), lambda a, b: torch.stack([a, b], 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_is_that_of_torch(name):
    for seed in range(ROUNDS):
        ours, theirs, arrays = CASES[name](Draw(seed))
        expect_torch(ours, theirs, *arrays)
