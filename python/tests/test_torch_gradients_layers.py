"""The gradients of operators on images, sequences and data against PyTorch's autograd, and that every operator is in one list."""

import numpy as np
import pytest

import heddle as hd
import test_torch_gradients as elements
from test_gradient import expect_torch, on_emulated_gpu
from test_torch_gradients import Draw, ROUNDS, moved, on_images, two

torch = pytest.importorskip("torch")
vision = pytest.importorskip("torchvision").ops
F = torch.nn.functional
ops = hd.ops


def sized(name, reference, array="array"):
    """Results of a given height and width."""
    def case(d):
        size = [d.int(1, 5), d.int(1, 5)]
        return (lambda x: getattr(ops, name)(x, size)), (lambda x: reference(x, size)), [getattr(d, array)((2, 3, d.int(5, 8), d.int(5, 8)))]
    return case


def resize(d):
    size, mode = [d.int(3, 12), d.int(3, 12)], ["linear", "nearest"][d.int(0, 1)]
    places = {} if mode == "linear" else {"coordinates": "asymmetric", "rounding": "floor"}
    return (lambda x: ops.resize(x, size, mode, **places)), \
        (lambda x: F.interpolate(x, size, mode="bilinear" if mode == "linear" else "nearest")), [d.array((1, 2, d.int(3, 7), d.int(3, 7)))]


def grid_sample(d):
    return (lambda x, g: ops.grid_sample(x, g)), lambda x, g: F.grid_sample(x, g, align_corners=False), \
        [d.array((2, 3, d.int(3, 6), d.int(3, 6))), d.array((2, 4, 3, 2), -1.2, 1.2)]


def affine_grid(d):
    size = [d.int(2, 5), d.int(2, 5)]
    return (lambda t: ops.affine_grid(t, size)), lambda t: F.affine_grid(t, [2, 1, *size], align_corners=False), [d.array((2, 2, 3))]


def regions(d, images, size):
    """Left, top, right and bottom within images of `size`, and the image of each."""
    corners = np.sort(d.random.uniform(0.3, size - 1.3, (4, 2, 2)), 1)
    return corners.reshape(4, 4).astype(np.float32), d.random.integers(0, images, 4)


def roi_align(d):
    boxes, image = regions(d, 2, 8)
    all_of = torch.tensor(np.concatenate([image[:, None], boxes], 1), dtype=torch.float32)
    return (lambda x: ops.roi_align(x, hd.constant(boxes), hd.constant(image), 2, 3, samples=2)), \
        lambda x: vision.roi_align(x, all_of, (2, 3), sampling_ratio=2, aligned=True), [d.array((2, 3, 8, 8))]


def roi_max_pool(d):
    boxes, image = regions(d, 2, 8)
    all_of = np.ascontiguousarray(np.concatenate([image[:, None], np.round(boxes)], 1), np.float32)
    return (lambda x: ops.roi_max_pool(x, hd.constant(all_of), 2, 2)), \
        lambda x: vision.roi_pool(x, torch.tensor(all_of), (2, 2)), [d.apart((2, 3, 8, 8))]


def crop_and_resize(d):
    corners = np.sort(d.random.uniform(0, 1, (3, 2, 2)), 1).reshape(3, 4).astype(np.float32)
    image, (top, left, bottom, right) = d.random.integers(0, 2, 3), torch.tensor(corners).T * 2 - 1
    along = lambda lo, hi, n: lo[:, None] + (hi - lo)[:, None] * torch.linspace(0, 1, n)
    y, x = along(top, bottom, 3)[:, :, None].expand(3, 3, 4), along(left, right, 4)[:, None].expand(3, 3, 4)
    return (lambda i: ops.crop_and_resize(i, hd.constant(corners), hd.constant(image), 3, 4)), \
        lambda i: F.grid_sample(i[torch.tensor(image)], torch.stack([x, y], -1), align_corners=True), [d.array((2, 2, 6, 7))]


def deform_conv2d(d):
    return (lambda x, w, o, m: ops.deform_conv2d(x, w, o, m, padding=[1])), \
        lambda x, w, o, m: vision.deform_conv2d(x, o, w, padding=1, mask=m), \
        [d.array((1, 2, 5, 6)), d.array((3, 2, 3, 3)), d.array((1, 18, 5, 6), 0.1, 0.9), d.array((1, 9, 5, 6))]


def correlation(d):
    def reference(a, b):
        moved_by = F.pad(b, (1, 1, 1, 1))
        at = [moved_by[:, :, 1 + y:1 + y + a.shape[2], 1 + x:1 + x + a.shape[3]] for y in (-1, 0, 1) for x in (-1, 0, 1)]
        return torch.stack([(a * m).mean(1) for m in at], 1)[:, :, 1:-1, 1:-1]
    shape = (2, 3, d.int(4, 6), d.int(4, 6))
    return (lambda a, b: ops.correlation(a, b)), reference, [d.array(shape), d.array(shape)]


def dilation2d(d):
    def reference(x, w):
        windows = x.unfold(2, 2, 1).unfold(3, 2, 1) + w[:, None, None]
        return windows.flatten(-2).max(-1).values
    return (lambda x, w: ops.dilation2d(x, w)), reference, [d.array((2, 3, 5, 6)), d.array((3, 2, 2))]


def norm(name, reference, parameters=2):
    def case(d):
        return getattr(ops, name), reference, [d.array((2, 4, d.int(2, 4), d.int(2, 4))), *[d.array((4,), 0.5) for _ in range(parameters)]]
    return case


def batch_norm(x, scale, shift, mean, variance):
    return (x - mean) * (variance + 1e-5).rsqrt() * scale, shift


def recurrent(name, gates, step):
    """A layer of ONNX's, whose weights are (gates of H, I) and (gates of H, H), beside a loop."""
    def case(d):
        steps, batch, inside, hidden = d.int(1, 4), d.int(1, 3), d.int(1, 4), d.int(1, 4)

        def reference(x, w, r):
            state = cell = torch.zeros(batch, hidden)
            every = []
            for t in range(steps):
                state, cell = step((x[t] @ w.T).chunk(gates, 1), r.chunk(gates, 0), state, cell)
                every.append(state)
            return torch.stack(every)

        return (lambda x, w, r: getattr(ops, name)(x, w, r)[0]), reference, \
            [d.array((steps, batch, inside)), d.array((gates * hidden, inside)), d.array((gates * hidden, hidden))]
    return case


def lstm_step(of_x, r, h, c):
    i, o, f, g = (a + h @ b.T for a, b in zip(of_x, r))
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_step(of_x, r, h, c):
    z, reset = ((a + h @ b.T).sigmoid() for a, b in zip(of_x[:2], r[:2]))
    return (1 - z) * (of_x[2] + (reset * h) @ r[2].T).tanh() + z * h, c


def sparse(d, rows=4, columns=5):
    """Columns and beginnings of rows as constants, the count of elements, and their places for PyTorch."""
    full = d.random.random((rows, columns)) < 0.5
    full[:, 0] = True
    row, column = np.nonzero(full)
    begins = np.concatenate([[0], np.cumsum(full.sum(1))]).astype(np.int64)
    dense = lambda data: torch.zeros(rows, columns).index_put((torch.tensor(row), torch.tensor(column)), data)
    return hd.constant(column.astype(np.int64)), hd.constant(begins), int(full.sum(1).max()), len(row), dense


def sparse_matmul(d):
    columns, begins, longest, count, dense = sparse(d)
    return (lambda v, x: ops.sparse_matmul(v, columns, begins, longest, x)), lambda v, x: dense(v) @ x, [d.array((count,)), d.array((5, 3))]


def sparse_dense(d):
    columns, begins, longest, count, dense = sparse(d)
    return (lambda x, v: ops.sparse_dense(x, v, columns, begins, longest)), lambda x, v: x @ dense(v).T, [d.array((3, 5)), d.array((count,))]


def sparse_transpose(d):
    columns, begins, longest, count, dense = sparse(d)
    return (lambda v: ops.sparse_transpose(v, columns, begins, longest, 5, 4)[0]), \
        lambda v: dense(v).T[dense(torch.ones(count)).T != 0], [d.array((count,))]


def dropout(d):
    x, seed = d.array((d.int(2, 9), 8)), hd.constant(np.array([d.int(0, 99)], np.int64))
    given = hd.placeholder(x.shape)
    kept = ops.dropout(given, 0.5, seed)
    factors = hd.build(hd.create_schedule([kept]), [given, kept])(np.ones_like(x))
    return (lambda x: ops.dropout(x, 0.5, seed)), lambda x: x * torch.tensor(np.asarray(factors)), [x]


def compress(d):
    keep = d.random.random(7) < 0.5
    return (lambda x: ops.compress(x, hd.constant(keep), 0)[0]), \
        lambda x: torch.cat([x[torch.tensor(keep)], torch.zeros(int((~keep).sum()), 3)]), [d.array((7, 3))]


def take(d):
    at = d.indices((d.int(1, 9),), 12)
    kept = torch.tensor(d.kept)
    return (lambda x: ops.take(x, at)), lambda x: x.flatten()[kept], [d.array((4, 3))]


def stepped(name):
    """What is 0 in between is a factor, so that the gradient is not 0."""
    return moved(lambda x: ops.mul(getattr(ops, name)(x), x), lambda x: getattr(torch, name)(x).detach() * x)


def remainder(name, reference):
    return lambda d: (getattr(ops, name), reference, [d.array((4, 5), 1.1, 1.9), d.array((4, 5), 0.6, 0.9)])


CASES = {
    "adaptive_avg_pool": sized("adaptive_avg_pool", F.adaptive_avg_pool2d),
    "adaptive_max_pool": sized("adaptive_max_pool", F.adaptive_max_pool2d, "apart"),
    "resize": resize, "grid_sample": grid_sample, "affine_grid": affine_grid, "roi_align": roi_align, "roi_max_pool": roi_max_pool,
    "crop_and_resize": crop_and_resize, "deform_conv2d": deform_conv2d, "correlation": correlation, "dilation2d": dilation2d,
    "unfold": on_images(lambda x: ops.unfold(x, [2, 2], [2, 1], [1, 0]), lambda x: F.unfold(x, 2, stride=(2, 1), padding=(1, 0))),
    "fold": lambda d: (lambda x: ops.fold(x, [5, 6], [3, 2], [2, 1], [1, 0]), lambda x: F.fold(x, (5, 6), (3, 2), 1, (1, 0), (2, 1)), [d.array((2, 12, 15))]),
    "depth_to_space": on_images(lambda x: ops.depth_to_space(x, 2, True), lambda x: F.pixel_shuffle(x, 2), channels=8),
    "space_to_depth": lambda d: (lambda x: ops.space_to_depth(x, 2),
                                 lambda x: x.reshape(1, 2, 3, 2, 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 8, 3, 2), [d.array((1, 2, 6, 4))]),
    "nchw_to_nhwc": on_images(ops.nchw_to_nhwc, lambda x: x.permute(0, 2, 3, 1)),
    "nhwc_to_nchw": on_images(ops.nhwc_to_nchw, lambda x: x.permute(0, 3, 1, 2)),
    "batch_norm": lambda d: (ops.batch_norm, lambda x, *of: torch.add(*batch_norm(x, *(c[:, None] for c in of))),
                             [d.array((2, 3, 4)), *[d.array((3,), 0.5) for _ in range(4)]]),
    "group_norm": lambda d: (lambda x, s, b: ops.group_norm(x, 2, s, b), lambda x, s, b: F.group_norm(x, 2, s, b),
                             [d.array((2, 4, 3)), d.array((4,)), d.array((4,))]), "instance_norm": norm("instance_norm", lambda x, s, b: F.instance_norm(x, weight=s, bias=b)),
    "lrn": lambda d: (lambda x: ops.lrn(x, 3, 0.5), lambda x: F.local_response_norm(x, 3, 0.5), [d.array((2, 5, 3, 2))]),
    "lstm": recurrent("lstm", 4, lstm_step), "gru": recurrent("gru", 3, gru_step),
    "rnn": recurrent("rnn", 1, lambda of_x, r, h, c: ((of_x[0] + h @ r[0].T).tanh(), c)),
    "sparse_matmul": sparse_matmul, "sparse_dense": sparse_dense, "sparse_transpose": sparse_transpose,
    "dropout": dropout, "compress": compress, "take": take,
    "sort": lambda d: (lambda x: ops.sort(x, 1)[0], lambda x: x.sort(1).values, [d.apart((3, d.int(1, 9)))]),
    "top_k": lambda d: (lambda x: ops.top_k(x, 2, 1)[0], lambda x: x.topk(2, 1).values, [d.apart((3, d.int(2, 9)))]),
    "split": lambda d: (lambda x: ops.split(x, 3, 1)[1], lambda x: x.chunk(3, 1)[1], [d.array((4, 9))]),
    "repeat": moved(lambda x: ops.repeat(x, 3, 1), lambda x: x.repeat_interleave(3, 1)),
    "cast": moved(lambda x: ops.cast(ops.cast(x, "f64"), "f32"), lambda x: x.double().float()),
    "einsum": lambda d: (lambda a, b: ops.einsum("bij,bkj->ikb", a, b), lambda a, b: torch.einsum("bij,bkj->ikb", a, b),
                         [d.array((2, 3, 4)), d.array((2, 5, 4))]),
    "elementwise": two(lambda a, b: ops.elementwise("f", [a, b], lambda x, y: x * hd.exp(y)), lambda a, b: a * b.exp()),
    "dft": lambda d: (lambda x: ops.dft(x, 1), lambda x: torch.view_as_real(torch.fft.fft(x[..., 0], dim=1)), [d.array((2, d.int(2, 9), 1))]),
    "stft": lambda d: (lambda x: ops.stft(x, 2, length=4), lambda x: torch.view_as_real(torch.fft.rfft(x[..., 0].unfold(1, 4, 2))),
                       [d.array((2, d.int(4, 9), 1))]),
    "scan": lambda d: (lambda x: ops.scan(x, 1, hd.reducer("highest", ["f32"], [-np.inf], lambda a, b: [hd.max(a[0], b[0])])),
                       lambda x: x.cummax(1).values, [d.apart((3, 6))]),
    "scaled_loss": lambda d: (lambda x, s: ops.scaled_loss(ops.sum(x, [0, 1]), s), lambda x, s: (x.sum() * s).sum(), [d.array((3, 4)), d.array((1,), 0.5)]),
    "unscaled": lambda d: (ops.unscaled, torch.div, [d.array((3, 4)), d.array((1,), 0.5)]),
    "fmod": remainder("fmod", torch.fmod), "mod": remainder("mod", torch.remainder),
} | {name: stepped(name) for name in ("floor", "ceil", "round", "trunc", "sign")}

# Operators without a derivative: of integers and bools, of comparisons, of places; those that draw numbers; and optimisers.
NONE = """all any argmax argmin binary_matmul bitserial_conv2d bitserial_matmul bitwise_and bitwise_not bitwise_or bitwise_xor equal
floor_divide full greater greater_equal isinf isnan less less_equal logical_and logical_not logical_or logical_xor non_max_suppression
nonzero not_equal one_hot pack_bits popcount random_normal random_uniform searchsorted shift_left shift_right unique
adam loss_scale sgd updates_if""".split()


@pytest.mark.parametrize("name", CASES)
def test_is_that_of_torch(name):
    for seed in range(ROUNDS):
        ours, theirs, arrays = CASES[name](Draw(seed))
        expect_torch(ours, theirs, *arrays)


@pytest.mark.parametrize("name", [*CASES, *elements.CASES])
def test_is_that_of_torch_on_a_gpu(name):
    ours, theirs, arrays = (CASES | elements.CASES)[name](Draw(1 + len(name)))
    expect_torch(ours, theirs, *arrays, run=on_emulated_gpu)


def test_every_operator_is_compared_or_has_no_derivative():
    every = {name for name in dir(ops) if not name.startswith("_") and callable(getattr(ops, name))}
    assert every == {*CASES, *elements.CASES, *NONE}
