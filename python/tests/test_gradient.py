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


def on_cpu(result, args):
    return hd.build(hd.create_schedule([result]), [t for t, _ in args] + [result])(*[a for _, a in args])


def on_emulated_gpu(result, args):
    """By the kernels for an H200, in the emulator, which finds races too."""
    out = np.empty(result.shape, np.float32)
    schedule = hd.create_schedule([result], target=hd.Target("cuda -gpu=h200"))
    hd.emulate(schedule, [t for t, _ in args] + [result], *[a for _, a in args], out, seed=1)
    return out


def expect_torch(declare, reference, *arrays, run=on_cpu):
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = reference(*leaves)
    head = head_of(y)
    wanted = torch.autograd.grad(y, leaves, torch.tensor(head))
    inputs = [hd.placeholder(a.shape) for a in arrays]
    given = hd.placeholder(head.shape)
    gradients = hd.gradient(declare(*inputs), inputs, given)
    for g, want in zip(gradients, wanted):
        args = [(t, a) for t, a in zip([*inputs, given], [*arrays, head]) if t in hd.placeholders([g])]
        got = run(g, args)
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


def gradient_of_rows(declare, x, **options):
    """The gradient of all outputs of `declare`, each with a head of its own, at `x`; and the heads."""
    given = hd.placeholder(x.shape)
    outputs = list(declare(given))
    heads = [np.random.default_rng(n).uniform(-1, 1, y.shape).astype(np.float32) for n, y in enumerate(outputs)]
    of = [hd.placeholder(h.shape) for h in heads]
    (dx,) = hd.gradient(outputs, [given], of, **options)
    args = [(t, a) for t, a in zip([given, *of], [x, *heads]) if t in hd.placeholders([dx])]
    return hd.build(hd.create_schedule([dx]), [t for t, _ in args] + [dx])(*[a for _, a in args]), heads


def test_components_of_a_tuple_have_gradients():
    x, k = array(6, 17), hd.reduce_axis(17)
    moments = hd.reducer("moments", ["f32", "f32"], [0, 0], lambda a, b: [a[0] + b[0], a[1] + b[1]])
    got, heads = gradient_of_rows(
        lambda t: hd.compute_all((6,), lambda i: moments([t[i, k], t[i, k] * t[i, k]], k), "moments"), x)
    np.testing.assert_allclose(got, heads[0][:, None] + 2 * x * heads[1][:, None], rtol=1e-4, atol=1e-5)


def test_a_reducer_has_the_derivative_that_is_declared():
    x, k = array(6, 17), hd.reduce_axis(17)
    add = hd.reducer("log_add_exp", ["f32"], [-1e30], lambda a, b: [
        hd.max(a[0], b[0]) + hd.log1p(hd.exp(hd.min(a[0], b[0]) - hd.max(a[0], b[0])))])
    declare = lambda t: hd.compute_all((6,), lambda i: add([t[i, k]], k), "lse")
    with pytest.raises(hd.Error, match="log_add_exp"):
        gradient_of_rows(declare, x)
    got, heads = gradient_of_rows(declare, x, reducers=[(add, lambda x, y, dy: [dy[0] * hd.exp(x[0] - y[0])])])
    leaf = torch.tensor(x, requires_grad=True)
    torch.logsumexp(leaf, 1).backward(torch.tensor(heads[0]))
    np.testing.assert_allclose(got, leaf.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_gradient_of_ones_own():
    x = array(6, 17)
    given = hd.placeholder(x.shape)
    rounded = hd.compute(x.shape, lambda i, j: hd.round(given[i, j]), "rounded")
    y, head = rounded * rounded, hd.placeholder(x.shape)
    (dx,) = hd.gradient([y], [given], [head], custom=[(rounded, [given], lambda d: [d])])
    h = array(6, 17)
    got = hd.build(hd.create_schedule([dx]), [given, head, dx])(x, h)
    np.testing.assert_allclose(got, 2 * np.round(x) * h, rtol=1e-5)
    (none,) = hd.gradient([y], [given], [head], custom=[(rounded, [given], lambda d: [None])], allow_unused=True)
    assert none.shape == dx.shape


def test_mistakes():
    x, other = hd.placeholder((3,), name="x"), hd.placeholder((3,), name="other")
    y = hd.ops.sum(x)
    with pytest.raises(hd.Error, match="no output of the gradient depends on 'other'"):
        hd.gradient(y, other)
    assert len(hd.gradient(y, [x, other], allow_unused=True)) == 2


class Step:
    """A step of training of two layers, as one network that updates its weights."""

    def __init__(self, optimiser, **options):
        self.x, self.labels = hd.placeholder((16, 5)), hd.placeholder((16,), "i64")
        self.weights = [hd.placeholder(s) for s in [(8, 5), (8,), (3, 8), (3,)]]
        hidden = hd.ops.tanh(hd.ops.dense(self.x, self.weights[0], self.weights[1]))
        loss = hd.ops.softmax_cross_entropy(hd.ops.dense(hidden, self.weights[2], self.weights[3]), self.labels)
        self.more, updates = optimiser(self.weights, loss)
        self.states = [state for state, _ in updates]
        self.net = hd.Network([loss], [self.x, self.labels, *self.more, *self.states], updates=updates, **options)

    def run(self, weights, steps, *more):
        """The losses, and the weights after the steps."""
        random = np.random.default_rng(5)
        arrays = [w.copy() for w in weights] + [np.zeros(s.shape, np.float32) for s in self.states[len(weights):]]
        x, labels = random.normal(size=(16, 5)).astype(np.float32), random.integers(0, 3, 16)
        losses = [float(self.net(x, labels, *[m(n) for m in more], *arrays)) for n in range(1, steps + 1)]
        return losses, arrays[: len(weights)], (x, labels)


def zero_like(ws):
    return [hd.placeholder(w.shape) for w in ws]


def sgd_step(weights, loss):
    updates, velocities = [], zero_like(weights)
    for w, d, v in zip(weights, hd.gradient(loss, weights), velocities):
        updates.append((w, hd.ops.sgd(w, d, v, rate=0.1, momentum=0.9, decay=0.01)))
    pairs = [(w, new[0]) for w, new in updates] + [(v, new[1]) for v, (_, new) in zip(velocities, updates)]
    return [], pairs


def adam_step(weights, loss):
    step, rate = hd.placeholder((1,)), hd.placeholder((1,))
    means, squares = zero_like(weights), zero_like(weights)
    new = [hd.ops.adam(w, d, m, s, step, rate, decay=0.1)
           for w, d, m, s in zip(weights, hd.gradient(loss, weights), means, squares)]
    return [step, rate], [pair for i, states in enumerate([weights, means, squares]) for pair in zip(states, [n[i] for n in new])]


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_optimisers_are_those_of_torch(name):
    weights = [array(*s) for s in [(8, 5), (8,), (3, 8), (3,)]]
    leaves = [torch.tensor(w, requires_grad=True) for w in weights]
    if name == "adam":
        step = Step(adam_step)
        more = (lambda n: np.array([n], np.float32), lambda n: np.array([0.01], np.float32))
        optimiser = torch.optim.AdamW(leaves, lr=0.01, weight_decay=0.1)
    else:
        step, more = Step(sgd_step), ()
        optimiser = torch.optim.SGD(leaves, lr=0.1, momentum=0.9, weight_decay=0.01)
    losses, after, (x, labels) = step.run(weights, 6, *more)
    for n, loss in enumerate(losses):
        optimiser.zero_grad()
        want = F.cross_entropy(F.linear(torch.tanh(F.linear(torch.tensor(x), leaves[0], leaves[1])), leaves[2], leaves[3]), torch.tensor(labels))
        want.backward()
        optimiser.step()
        assert loss == pytest.approx(want.item(), rel=1e-4), n
    for got, want in zip(after, leaves):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=2e-4, atol=2e-5)


def test_a_limit_of_memory_is_kept_or_named():
    Step(sgd_step, passes="memory=1M")
    with pytest.raises(hd.Error, match="do not fit into"):
        Step(sgd_step, passes="memory=64")


def test_an_overflow_changes_nothing_but_the_scale():
    def scaled(weights, loss):
        scale, good = hd.placeholder((1,)), hd.placeholder((1,))
        d = hd.gradient(hd.ops.scaled_loss(loss, scale), weights)
        new_scale, new_good, finite = hd.ops.loss_scale(d, scale, good)
        velocities = zero_like(weights)
        new = [hd.ops.sgd(w, hd.ops.unscaled(g, scale), v) for w, g, v in zip(weights, d, velocities)]
        pairs = [(w, n[0]) for w, n in zip(weights, new)] + [(v, n[1]) for v, n in zip(velocities, new)]
        return [], hd.ops.updates_if(finite, pairs) + [(scale, new_scale), (good, new_good)]

    step, weights = Step(scaled), [array(*s) for s in [(8, 5), (8,), (3, 8), (3,)]]
    arrays = [w.copy() for w in weights] + [np.zeros(s.shape, np.float32) for s in step.states[4:]]
    x, labels = array(16, 5), np.zeros(16, np.int64)
    x[0, 0] = np.inf
    arrays[-2][:] = 1024
    step.net(x, labels, *arrays)
    assert arrays[-2][0] == 512
    for got, want in zip(arrays, weights):
        np.testing.assert_array_equal(got, want)
    x[0, 0] = 0
    step.net(x, labels, *arrays)
    assert arrays[-2][0] == 512 and arrays[-1][0] == 1
    assert any((got != want).any() for got, want in zip(arrays, weights))


def test_dropout_draws_by_its_seed():
    x, seed = hd.placeholder((64, 64)), hd.placeholder((1,), "i32")
    y = hd.ops.dropout(x, 0.25, seed, layer=2)
    run = hd.build(hd.create_schedule([y]), [x, seed, y])
    ones = np.ones((64, 64), np.float32)
    first, again, other = (run(ones, np.array([s], np.int32)) for s in (1, 1, 2))
    assert (first == again).all() and (first != other).any()
    assert 0.7 < (first != 0).mean() < 0.8
    assert np.allclose(first[first != 0], 1 / 0.75)
