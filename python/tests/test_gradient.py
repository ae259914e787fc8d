"""Gradients against PyTorch's."""

import numpy as np
import pytest

import heddle as hd

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(3)


def array(*shape):
    return RANDOM.uniform(-1.5, 1.5, shape).astype(np.float32)


def head_of(y):
    return np.random.default_rng(4).uniform(-1, 1, y.shape).astype(np.float32)


def expect_torch(declare, reference, *arrays):
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = reference(*leaves)
    head = head_of(y)
    wanted = torch.autograd.grad(y, leaves, torch.tensor(head))
    inputs = [hd.placeholder(a.shape) for a in arrays]
    given = hd.placeholder(head.shape)
    gradients = hd.gradient(declare(*inputs), inputs, given)
    for g, want in zip(gradients, wanted):
        args = [(t, a) for t, a in zip([*inputs, given], [*arrays, head]) if t in hd.placeholders([g])]
        got = hd.build(hd.create_schedule([g]), [t for t, _ in args] + [g])(*[a for _, a in args])
        np.testing.assert_allclose(got, want.numpy(), rtol=2e-4, atol=2e-4)


F = torch.nn.functional
CASES = {
    "dense": (lambda x, w, b: hd.ops.dense(x, w, b), F.linear, [(17, 33), (20, 33), (20,)]),
    "matmul": (hd.ops.matmul, torch.matmul, [(2, 5, 7), (2, 7, 9)]),
    "softmax": (hd.ops.softmax, lambda x: F.softmax(x, -1), [(6, 33)]),
    "log_softmax": (hd.ops.log_softmax, lambda x: F.log_softmax(x, -1), [(6, 33)]),
    "layer_norm": (lambda x, w, b: hd.ops.layer_norm(x, w, b), lambda x, w, b: F.layer_norm(x, (33,), w, b), [(6, 33), (33,), (33,)]),
    "gelu": (hd.ops.gelu, F.gelu, [(6, 33)]),
    "silu": (hd.ops.silu, F.silu, [(6, 33)]),
    "max": (lambda x: hd.ops.max(x, [1]), lambda x: x.max(1).values, [(6, 33)]),
    "prod": (lambda x: hd.ops.prod(x, [1]), lambda x: x.prod(1), [(6, 5)]),
    "attention": (lambda q, k, v: hd.ops.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention, [(2, 5, 8), (2, 7, 8), (2, 7, 8)]),
}
for stride, padding, dilation, groups in [(1, 1, 1, 1), (2, 1, 1, 1), (2, 0, 2, 1), (1, 2, 2, 2), (3, 1, 1, 4)]:
    CASES[f"conv2d {stride} {padding} {dilation} {groups}"] = (
        lambda x, w, s=stride, p=padding, d=dilation, g=groups: hd.ops.conv2d(x, w, stride=[s], padding=[p], dilation=[d], groups=g),
        lambda x, w, s=stride, p=padding, d=dilation, g=groups: F.conv2d(x, w, stride=s, padding=p, dilation=d, groups=g),
        [(2, 4, 9, 10), (8, 4 // groups, 3, 3)])


@pytest.mark.parametrize("name", CASES)
def test_is_that_of_torch(name):
    declare, reference, shapes = CASES[name]
    expect_torch(declare, reference, *[array(*s) for s in shapes])


def test_max_pool():
    expect_torch(lambda x: hd.ops.max_pool(x, kernel=[3], stride=[2], padding=[1]), lambda x: F.max_pool2d(x, 3, 2, 1), array(2, 3, 9, 8))


def test_cross_entropy_of_large_logits():
    x, labels = array(5, 7) * 1000, np.array([0, 6, 2, 2, 1])
    leaf = torch.tensor(x, requires_grad=True)
    F.cross_entropy(leaf, torch.tensor(labels), label_smoothing=0.1).backward()
    logits, at = hd.placeholder(x.shape), hd.placeholder(labels.shape, "i64")
    g = hd.gradient(hd.ops.softmax_cross_entropy(logits, at, smoothing=0.1), logits)[0]
    got = hd.build(hd.create_schedule([g]), [logits, at, g])(x, labels)
    np.testing.assert_allclose(got, leaf.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_mistakes():
    x, other = hd.placeholder((3,), name="x"), hd.placeholder((3,), name="other")
    y = hd.ops.sum(x)
    with pytest.raises(hd.Error, match="no output of the gradient depends on 'other'"):
        hd.gradient(y, other)
    assert len(hd.gradient(y, [x, other], allow_unused=True)) == 2
