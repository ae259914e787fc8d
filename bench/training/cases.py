"""Operators whose backward passes are timed: inputs, the declaration by heddle.ops, and PyTorch's operator.

Images and filters are given as PyTorch orders them (NCHW, OIHW). In the layout NHWC ours are NHWC and HWIO, and PyTorch's have their
channels innermost.
"""
import dataclasses

INNERMOST = {"image": (0, 2, 3, 1), "filter": (2, 3, 1, 0)}  # the order of dimensions of ours in the layout NHWC


@dataclasses.dataclass
class Input:
    shape: tuple
    role: str = "plain"  # or "image", "filter", "index"
    below: int = 0       # indices are below it


@dataclasses.dataclass
class Case:
    title: str
    size: str
    inputs: list
    ours: object    # (heddle.ops, layout, tensors...) -> the result of the forward pass
    theirs: object  # (torch.nn.functional, tensors...) -> the same


def image(*shape):
    return Input(shape, "image")


def weights(*shape):
    return Input(shape, "filter")


def plain(*shape):
    return Input(shape)


def convolution(title, n, c, h, k, r, stride=1, padding=0, dilation=1, groups=1):
    return Case(f"conv2d, {title}", f"{n} x {c} x {h} x {h}, {k} of {r} x {r}", [image(n, c, h, h), weights(k, c // groups, r, r)],
                lambda ops, layout, x, w: ops.conv2d(x, w, None, [stride], [padding], [dilation], groups, layout),
                lambda F, x, w: F.conv2d(x, w, None, stride, padding, dilation, groups))


def transposed(n, c, h, k, r, stride, padding):
    return Case("conv2d, transposed", f"{n} x {c} x {h} x {h}, {k} of {r} x {r}", [image(n, c, h, h), weights(c, k, r, r)],
                lambda ops, layout, x, w: ops.conv_transpose2d(x, w, None, [stride], [padding], layout=layout),
                lambda F, x, w: F.conv_transpose2d(x, w, None, stride, padding))


def dense(rows, depth, columns):
    return Case("dense", f"{rows} x {depth}, {columns}", [plain(rows, depth), plain(columns, depth)],
                lambda ops, _, x, w: ops.dense(x, w), lambda F, x, w: F.linear(x, w))


def batch_matmul(b, m, k, n):
    return Case("batch_matmul", f"{b} x {m} x {k}, {k} x {n}", [plain(b, m, k), plain(b, k, n)],
                lambda ops, _, x, y: ops.matmul(x, y), lambda F, x, y: x @ y)


def softmax(rows, columns):
    return Case("softmax", f"{rows} x {columns}", [plain(rows, columns)],
                lambda ops, _, x: ops.softmax(x), lambda F, x: F.softmax(x, -1))


def layer_norm(rows, columns):
    return Case("layer norm", f"{rows} x {columns}", [plain(rows, columns), plain(columns), plain(columns)],
                lambda ops, _, x, s, b: ops.layer_norm(x, s, b), lambda F, x, s, b: F.layer_norm(x, (columns,), s, b))


def attention(batch, heads, rows, width, title="attention"):
    return Case(title, f"{batch} x {heads} x {rows} x {width}", [plain(batch, heads, rows, width)] * 3,
                lambda ops, _, q, k, v: ops.scaled_dot_product_attention(q, k, v),
                lambda F, q, k, v: F.scaled_dot_product_attention(q, k, v))


def max_pool(n, c, h):
    return Case("max pooling", f"{n} x {c} x {h} x {h}, 3 x 3, stride 2", [image(n, c, h, h)],
                lambda ops, layout, x: ops.max_pool(x, [3], [2], [1], layout=layout), lambda F, x: F.max_pool2d(x, 3, 2, 1))


def avg_pool(n, c, h):
    return Case("average pooling", f"{n} x {c} x {h} x {h}, 2 x 2, stride 2", [image(n, c, h, h)],
                lambda ops, layout, x: ops.avg_pool(x, [2], [2], layout=layout), lambda F, x: F.avg_pool2d(x, 2))


def embedding(rows, columns, count):
    return Case("embedding", f"{rows} x {columns}, {count} rows", [plain(rows, columns), Input((count,), "index", rows)],
                lambda ops, _, table, at: ops.gather(table, at), lambda F, table, at: F.embedding(at, table))


def cases(scale):
    """The cases, with `scale` times as many images or rows."""
    n = 8 * scale
    return [
        convolution("3 x 3", n, 64, 28, 64, 3, padding=1),
        convolution("1 x 1", n, 256, 14, 256, 1),
        convolution("first layer", n, 3, 112, 64, 7, stride=2, padding=3),
        convolution("strided", n, 64, 56, 128, 3, stride=2, padding=1),
        convolution("dilated", n, 64, 28, 64, 3, padding=2, dilation=2),
        convolution("grouped", n, 128, 28, 128, 3, padding=1, groups=8),
        convolution("depthwise", n, 128, 28, 128, 3, padding=1, groups=128),
        transposed(n, 64, 14, 64, 4, 2, 1),
        dense(256 * scale, 1024, 1024),
        batch_matmul(16 * scale, 128, 64, 128),
        softmax(2048 * scale, 1024),
        layer_norm(2048 * scale, 768),
        attention(scale, 8, 512, 64),
        attention(scale, 8, 2048, 64, "attention, long"),
        max_pool(n, 64, 56),
        avg_pool(n, 64, 56),
        embedding(30522, 256, 2048 * scale),
    ]
