"""Operators against numpy: that each is bound with its arguments in their places. What they compute is tested in C++."""

import numpy as np
import pytest

import heddle as hd

X = np.random.default_rng(8).uniform(-2, 2, (3, 4)).astype(np.float32)
Y = np.random.default_rng(9).uniform(0.5, 2, (3, 4)).astype(np.float32)
IMAGE = np.random.default_rng(10).standard_normal((1, 4, 6, 6)).astype(np.float32)
POSITIONS = np.array([2, 0], np.int64)


def run(declare, *arrays):
    inputs = [hd.placeholder(a.shape, a.dtype) for a in arrays]
    outputs = declare(*inputs)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    return hd.build(hd.create_schedule(outputs), inputs + outputs)(*arrays)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


ELEMENTS = {
    "neg": lambda x, y: -x, "abs": lambda x, y: abs(x), "square": lambda x, y: x * x, "exp": lambda x, y: np.exp(x),
    "tanh": lambda x, y: np.tanh(x), "floor": lambda x, y: np.floor(x), "relu": lambda x, y: np.maximum(x, 0),
    "sigmoid": lambda x, y: 1 / (1 + np.exp(-x)), "sign": lambda x, y: np.sign(x), "isnan": lambda x, y: np.isnan(x),
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2, "less": lambda x, y: x < y, "equal": lambda x, y: x == y,
    "mod": np.mod, "fmod": np.fmod, "floor_divide": np.floor_divide,
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements(name):
    function, expected = getattr(hd.ops, name), ELEMENTS[name](X, Y)
    of_two = ELEMENTS[name] in (np.maximum, np.minimum, np.arctan2, np.mod, np.fmod, np.floor_divide) or \
        name in ("add", "sub", "mul", "div", "less", "equal")
    np.testing.assert_allclose(run(function, *([X, Y] if of_two else [X])), expected, rtol=1e-5, atol=1e-5)


OTHERS = {
    "with a number": (lambda x: hd.ops.sub(hd.ops.pow(x, 2.0), 1.5), lambda: X ** 2 - 1.5),
    "cast": (lambda x: hd.ops.cast(x, "i32"), lambda: X.astype(np.int32)),
    "clip": (lambda x: hd.ops.clip(x, low=-1, high=0.5), lambda: X.clip(-1, 0.5)),
    "leaky_relu": (lambda x: hd.ops.leaky_relu(x, alpha=0.2), lambda: np.where(X >= 0, X, np.float32(0.2) * X)),
    "where": (lambda x: hd.ops.where(hd.ops.less(x, hd.ops.full((3, 4), 0)), x, hd.ops.square(x)), lambda: np.where(X < 0, X, X * X)),
    "elementwise": (lambda x: hd.ops.elementwise("twice", [x], lambda v: v * 2), lambda: 2 * X),
    "sum": (lambda x: hd.ops.sum(x, [1], keepdims=True), lambda: X.sum(1, keepdims=True)),
    "mean": (lambda x: hd.ops.mean(x), lambda: X.mean()),
    "var": (lambda x: hd.ops.var(x, [0], unbiased=False), lambda: X.var(0)),
    "argmax": (lambda x: hd.ops.argmax(x, axis=0), lambda: X.argmax(0)),
    "matmul": (lambda x: hd.ops.matmul(x, x, transpose_b=True), lambda: X @ X.T),
    "einsum": (lambda x: hd.ops.einsum("ij->ji", x), lambda: X.T),
    "softmax": (lambda x: hd.ops.softmax(x, axis=0), lambda: softmax(X, 0)),
    "layer_norm": (lambda x: hd.ops.layer_norm(x, epsilon=0.1), lambda: (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 0.1)),
    "reshape": (lambda x: hd.ops.reshape(x, [2, -1]), lambda: X.reshape(2, -1)),
    "transpose": (lambda x: hd.ops.transpose(x, [1, 0]), lambda: X.T),
    "broadcast_to": (lambda x: hd.ops.broadcast_to(x, [2, 3, 4]), lambda: np.broadcast_to(X, (2, 3, 4))),
    "flip": (lambda x: hd.ops.flip(x, [1]), lambda: X[:, ::-1]),
    "roll": (lambda x: hd.ops.roll(x, 1, axis=0), lambda: np.roll(X, 1, 0)),
    "concat": (lambda x: hd.ops.concat([x, x], axis=1), lambda: np.concatenate([X, X], 1)),
    "stack": (lambda x: hd.ops.stack([x, x], axis=1), lambda: np.stack([X, X], 1)),
    "slice": (lambda x: hd.ops.slice(x, [1], [-1], axes=[1], steps=[2]), lambda: X[:, 1:-1:2]),
    "pad": (lambda x: hd.ops.pad(x, [1, 0], [0, 2], mode="edge"), lambda: np.pad(X, [(1, 0), (0, 2)], mode="edge")),
    "tile": (lambda x: hd.ops.tile(x, [2, 1]), lambda: np.tile(X, (2, 1))),
    "repeat": (lambda x: hd.ops.repeat(x, 2, axis=1), lambda: np.repeat(X, 2, 1)),
    "tril": (lambda x: hd.ops.tril(x, k=-1), lambda: np.tril(X, -1)),
    "cumsum": (lambda x: hd.ops.cumsum(x, axis=1, reverse=True), lambda: X[:, ::-1].cumsum(1)[:, ::-1]),
    "constants": (lambda x: hd.ops.gather(x, hd.constant(POSITIONS), axis=0), lambda: X[POSITIONS]),
    "scatter": (lambda x: hd.ops.scatter_nd(x, hd.constant(POSITIONS[:, None]), hd.ops.full((2, 4), 1), reduction="add"),
                lambda: X + np.array([[1], [0], [1]], np.float32)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(name):
    declare, expected = OTHERS[name]
    np.testing.assert_allclose(run(declare, X), expected(), rtol=1e-5, atol=1e-5)


def test_several_results():
    first, second = run(lambda x: hd.ops.split(x, 2, axis=1), X)
    np.testing.assert_array_equal(np.concatenate([first, second], 1), X)
    first, second = run(lambda x: hd.ops.split(x, [1, 3], axis=1), X)
    assert first.shape == (3, 1) and second.shape == (3, 3)
    values, positions = run(lambda x: hd.ops.top_k(x, 2), X)
    np.testing.assert_array_equal(positions, np.argsort(-X, 1)[:, :2])
    np.testing.assert_array_equal(values, np.take_along_axis(X, positions, 1))


def test_images():
    torch = pytest.importorskip("torch")
    F, x = torch.nn.functional, torch.from_numpy(IMAGE)
    weight = np.random.default_rng(11).standard_normal((2, 2, 3, 3)).astype(np.float32)
    w = torch.from_numpy(weight)
    close = lambda found, expected: np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)
    close(run(lambda a, b: hd.ops.conv2d(a, b, stride=[2], padding=[1], groups=2), IMAGE, weight),
          F.conv2d(x, w, stride=2, padding=1, groups=2))
    close(run(lambda a, b: hd.ops.conv_transpose2d(a, b, stride=[2], output_padding=[1], groups=2), IMAGE, weight[[0, 1, 0, 1]]),
          F.conv_transpose2d(x, w[[0, 1, 0, 1]], stride=2, output_padding=1, groups=2))
    close(run(lambda a: hd.ops.max_pool(a, [3], stride=[2], padding=[1], ceil_mode=True), IMAGE), F.max_pool2d(x, 3, 2, 1, ceil_mode=True))
    close(run(lambda a: hd.ops.avg_pool(a, [2], count_include_pad=True), IMAGE), F.avg_pool2d(x, 2))
    close(run(lambda a: hd.ops.adaptive_avg_pool(a, [4, 5]), IMAGE), F.adaptive_avg_pool2d(x, (4, 5)))
    close(run(lambda a: hd.ops.resize(a, [9, 4]), IMAGE), F.interpolate(x, (9, 4), mode="bilinear"))
    close(run(lambda a: hd.ops.group_norm(a, 2), IMAGE), F.group_norm(x, 2))
    close(run(lambda a: hd.ops.pixel_shuffle(a, 2), IMAGE), F.pixel_shuffle(x, 2))
    nhwc = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
    close(run(lambda a: hd.ops.global_avg_pool(a, layout="NHWC"), nhwc), x.mean((2, 3))[:, None, None])


def test_samples_of_images():
    torch = pytest.importorskip("torch")
    F, x = torch.nn.functional, torch.from_numpy(IMAGE)
    close = lambda found, expected: np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)
    theta = np.array([[[0.9, 0.2, 0.1], [-0.1, 1.2, 0.0]]], np.float32)
    grid = F.affine_grid(torch.from_numpy(theta), (1, 4, 5, 7), align_corners=True)
    close(run(lambda t: hd.ops.affine_grid(t, [5, 7], align_corners=True), theta), grid)
    close(run(lambda a, g: hd.ops.grid_sample(a, g, "nearest", "border"), IMAGE, grid.numpy()),
          F.grid_sample(x, grid, "nearest", "border", align_corners=False))
    weight = np.random.default_rng(12).standard_normal((3, 4, 3, 3)).astype(np.float32)
    still = np.zeros((1, 18, 6, 6), np.float32)
    close(run(lambda a, w, o: hd.ops.deform_conv2d(a, w, o, padding=[1]), IMAGE, weight, still),
          F.conv2d(x, torch.from_numpy(weight), padding=1))
    window = np.zeros((4, 2, 2), np.float32)
    close(run(lambda a, w: hd.ops.dilation2d(a, w, stride=[2]), IMAGE, window), F.max_pool2d(x, 2))
    close(run(lambda a, b: hd.ops.correlation(a, b, displacement=0), IMAGE, IMAGE), (x * x).mean(1, keepdim=True))
    whole, first = np.array([[0, 0, 1, 1]], np.float32), np.zeros(1, np.int64)
    close(run(lambda a, b, i: hd.ops.crop_and_resize(a, b, i, 6, 6), IMAGE, whole, first), x)
    every = np.array([[0, 0, 6, 6]], np.float32)
    close(run(lambda a, b, i: hd.ops.roi_align(a, b, i, 1, 1, samples=6, half_pixel=True), IMAGE, every, first),
          x.mean((2, 3), keepdim=True))
    close(run(lambda a, r: hd.ops.roi_max_pool(a, r, 1, 1), IMAGE, np.array([[0, 0, 0, 5, 5]], np.float32)), x.amax((2, 3), keepdim=True))


def test_lengths_and_places_that_are_data():
    found, count = run(lambda x: hd.ops.nonzero(x), X * (X > 0))
    np.testing.assert_array_equal(found[:, :int(count)], np.nonzero(X > 0))
    kept, count = run(lambda x, c: hd.ops.compress(x, c, axis=1), X, np.array([True, False, False, True]))
    np.testing.assert_array_equal(kept[:, :int(count)], X[:, [0, 3]])
    values, _, inverse, counts, count = run(lambda x: hd.ops.unique(x), np.array([5, 3, 5], np.int64))
    assert values[:int(count)].tolist() == [3, 5] and inverse.tolist() == [1, 0, 1] and counts[:2].tolist() == [1, 2]
    ascending = np.sort(X.ravel())
    np.testing.assert_array_equal(run(lambda s, v: hd.ops.searchsorted(s, v, right=True), ascending, X),
                                  np.searchsorted(ascending, X, "right"))
    boxes, scores = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32), np.array([[[0.5, 0.9, 0.1]]], np.float32)
    kept, count = run(lambda b, s: hd.ops.non_max_suppression(b, s, 3, 0.5), boxes, scores)
    assert kept[:int(count)].tolist() == [[0, 0, 1], [0, 0, 2]]


def test_sparse_matrices_and_bits():
    data, columns, begins = np.array([1, 2, 3], np.float32), np.array([2, 0, 2], np.int32), np.array([0, 1, 3], np.int32)
    dense = np.array([[0, 0, 1, 0], [2, 0, 3, 0]], np.float32)
    np.testing.assert_allclose(run(lambda d, c, b, x: hd.ops.sparse_matmul(d, c, b, 2, x), data, columns, begins, X.T), dense @ X.T, rtol=1e-5)
    np.testing.assert_allclose(run(lambda x, d, c, b: hd.ops.sparse_dense(x, d, c, b, 2), X, data, columns, begins), X @ dense.T, rtol=1e-5)
    transposed = run(lambda d, c, b: hd.ops.sparse_transpose(d, c, b, 2, 4, 2), data, columns, begins)
    assert [a.tolist() for a in transposed] == [[2, 1, 3], [1, 0, 1], [0, 1, 1, 3, 3]]
    few, weights = np.array([[3, 1, 2]], np.uint8), np.array([[1, 0, 1], [1, 1, 0]], np.uint8)
    assert run(lambda x, w: hd.ops.bitserial_matmul(x, w, bits_x=2), few, weights).tolist() == [[5, 4]]
    assert run(lambda x: hd.ops.popcount(x), few).tolist() == [[2, 1, 1]]
    assert run(lambda x: hd.ops.pack_bits(x, word="u8"), weights).tolist() == [[5], [3]]
    assert run(lambda x, w: hd.ops.binary_matmul(hd.ops.pack_bits(x), hd.ops.pack_bits(w), 3), weights, weights).tolist() == [[3, -1], [-1, 3]]
    picture, ones = np.ones((1, 2, 3, 3), np.uint8), np.ones((1, 2, 3, 3), np.uint8)
    assert run(lambda x, w: hd.ops.bitserial_conv2d(x, w, padding=[1]), picture, ones)[0, 0].tolist() == [[8, 12, 8], [12, 18, 12], [8, 12, 8]]


def test_numbers_and_transforms():
    numbers = run(lambda x: x + hd.ops.random_uniform([1000], 3, 2.0, 4.0), np.zeros(1000, np.float32))
    assert 2 <= numbers.min() < 2.1 and 3.9 < numbers.max() < 4
    normal = run(lambda x: x + hd.ops.random_normal([1000], 3, 2.0, 4.0), np.zeros(1000, np.float32))
    assert abs(normal.mean() - 2) < 1 and abs(normal.std() - 4) < 1
    signal = np.random.default_rng(13).standard_normal((1, 16, 1)).astype(np.float32)
    as_complex = lambda a: a[..., 0] + 1j * a[..., 1]
    np.testing.assert_allclose(as_complex(run(lambda x: hd.ops.dft(x, 1), signal)), np.fft.fft(signal[..., 0]), atol=1e-4)
    np.testing.assert_allclose(as_complex(run(lambda x: hd.ops.stft(x, 8, length=8), signal))[0, 1], np.fft.rfft(signal[0, 8:, 0]), atol=1e-4)


def test_a_recurrent_layer():
    torch = pytest.importorskip("torch")
    layer = torch.nn.RNN(4, 5)
    x = torch.randn(3, 2, 4)
    parts = [p.detach().numpy() for p in (layer.weight_ih_l0, layer.weight_hh_l0)]
    bias = torch.cat([layer.bias_ih_l0, layer.bias_hh_l0]).detach().numpy()
    found, last = run(lambda a: hd.ops.rnn(a, hd.constant(parts[0]), hd.constant(parts[1]), hd.constant(bias))[:2], x.numpy())
    expected = layer(x)[0].detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, expected[-1], rtol=1e-4, atol=1e-5)
