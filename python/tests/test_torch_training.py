"""Training under torch.compile(backend="heddle"): forward and backward graphs against eager."""

import copy

import pytest

torch = pytest.importorskip("torch")
import heddle.torch  # noqa: E402, F401

F, nn = torch.nn.functional, torch.nn


class Block(nn.Module):
    """Of ResNet: two convolutions, and one beside them."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
                                   nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.beside = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return (self.convs(x) + self.beside(x)).relu()


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 5))


def resnet():
    return nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Block(8, 8, 1),
                         Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))


def losses(model, compiled, steps=10, **options):
    """The losses of steps of SGD over the same images."""
    model, optimizer = copy.deepcopy(model), None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    random = torch.Generator().manual_seed(5)
    step = lambda x, labels: F.cross_entropy(model(x), labels)
    if compiled:
        torch._dynamo.reset()
        step = torch.compile(step, backend="heddle", dynamic=False, **options)
    found = []
    for _ in range(steps):
        x, labels = torch.randn(4, 3, 16, 16, generator=random), torch.randint(0, 5, (4,), generator=random)
        loss = step(x, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found, model.state_dict()


@pytest.mark.parametrize("make", [mlp, resnet])
def test_ten_steps(make):
    torch.manual_seed(0)
    model, reports = make(), []
    found, state = losses(model, True, options={"report": reports.append})
    expected, wanted = losses(model, False)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert expected[-1] != pytest.approx(expected[0], rel=1e-2)
    for name in wanted:
        torch.testing.assert_close(state[name], wanted[name], rtol=2e-3, atol=2e-3)
    assert [report.in_torch for report in reports] == [{}, {}]


def check_gradients(function, *leaves, tolerance=1e-4):
    """Gradients of sum(function(leaves) * head). Gives the reports of both graphs."""
    torch._dynamo.reset()
    reports = []
    run = torch.compile(function, backend="heddle", options={"report": reports.append})
    expected = function(*leaves)
    head = torch.randn_like(expected)
    trained = [x for x in leaves if x.requires_grad]
    wanted = torch.autograd.grad(expected, trained, head)
    found = run(*leaves)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(torch.autograd.grad(found, trained, head), wanted, rtol=tolerance, atol=tolerance)
    return reports


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"groups": 2, "padding": 1}, {"dilation": 2}])
def test_convolutions(options):
    weight = leaf(6, 4 // options.get("groups", 1), 3, 3)
    reports = check_gradients(lambda x, w, b: F.conv2d(x, w, b, **options).sin(), leaf(2, 4, 9, 8), weight, leaf(6))
    assert all(not report.in_torch for report in reports)


def test_a_transposed_convolution():
    reports = check_gradients(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), leaf(2, 4, 5, 6), leaf(4, 3, 3, 3))
    assert all(not report.in_torch for report in reports)


@pytest.mark.parametrize("function", [
    lambda x: F.max_pool2d(x.relu(), 3, 2, 1),  # many elements are equal
    lambda x: F.max_pool2d(x, 2, dilation=2, padding=1),
    lambda x: F.max_pool2d(x, (2, 3), return_indices=True)[1] * 0.5 + F.max_pool2d(x, (2, 3)),
    lambda x: F.avg_pool2d(x, 3, 2, 1),
    lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    lambda x: x.softmax(-1) * F.layer_norm(x, (8,)) + F.silu(x) + x.sigmoid(),
    lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True) + x[:, 1:2].expand(2, 3, 7, 8) * 2,
])
def test_gradients(function):
    reports = check_gradients(lambda x: function(x * 1.5).sin().tanh().exp() * 2, leaf(2, 3, 7, 8))
    assert all(not report.in_torch for report in reports)


def convolutions(*between, channels=6):
    """A network of convolutions with functions between them, as a function of an image and filters."""

    def run(x, first, *filters):
        x = F.conv2d(x, first, padding=1)
        for function, weight in zip(between, filters):
            x = F.conv2d(function(x), weight, padding=1)
        return x.mean((2, 3))

    return run, [leaf(2, 3, 9, 8), leaf(channels, 3, 3, 3), *(leaf(channels, channels, 3, 3) for _ in between)]


@pytest.mark.parametrize("between", [[F.relu, F.silu], [lambda x: F.max_pool2d(x, 2), F.relu]])
def test_images_that_are_kept_have_their_channels_innermost(between, monkeypatch):
    orders = []
    made = heddle.torch._declare.Like.of
    monkeypatch.setattr(heddle.torch._declare.Like, "of", staticmethod(lambda t: orders.append(made(t)) or orders[-1]))
    run, leaves = convolutions(*between)
    reports = check_gradients(run, *leaves)
    assert all(not report.in_torch for report in reports)
    kept = [like for like in orders if len(like.shape) == 4 and like.shape[1] == 6 and like.shape[2] != 3]
    assert kept and all(like.order == [0, 2, 3, 1] for like in kept)


def test_what_pytorch_runs_reads_images_as_usual():
    """A view of an image whose channels are innermost would fail."""
    def between(x):
        return x * x.view(2, -1).kthvalue(3, 1, True).values.view(2, 1, 1, 1).sin()

    run, leaves = convolutions(between, F.relu)
    reports = check_gradients(run, *leaves)
    assert "aten.kthvalue.default" in reports[0].in_torch


def test_channels_that_are_often_joined_stay_outermost():
    def run(x, *weights):
        parts = [x]
        for weight in weights:
            parts.append(F.conv2d(torch.cat(parts, 1), weight, padding=1))
        return parts[-1].mean((2, 3))

    check_gradients(run, leaf(2, 3, 9, 8), *(leaf(4, 3 + 4 * n, 3, 3) for n in range(5)))


def test_autocast_steps_have_norms_of_narrow_images():
    """Statistics are in f32, and the types are PyTorch's."""
    torch._dynamo.reset()
    torch.manual_seed(3)
    model, reports = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(2), nn.Linear(16, 24),
                                   nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 5)), []
    x = torch.randn(4, 3, 8, 8)
    run = torch.compile(model, backend="heddle", options={"report": reports.append})

    def gradients(of):
        model[1].reset_running_stats()
        with torch.autocast("cpu", torch.bfloat16):
            loss = of(x).float().square().mean()
        return [loss, *torch.autograd.grad(loss, list(model.parameters())), model[1].running_mean.clone(), model[1].running_var.clone()]

    wanted, found = gradients(model), gradients(run)
    for w, f in zip(wanted, found):
        assert f.dtype == w.dtype
        torch.testing.assert_close(f, w, rtol=5e-2, atol=5e-2 * w.abs().max().item())
    assert all(not report.in_torch for report in reports)


def test_a_place_of_a_nan_is_that_of_the_largest():
    x = torch.randn(1, 2, 6, 6)
    x[0, 0, 1, 1], x[0, 1, 3:5] = float("nan"), float("-inf")
    function = lambda x: torch.stack([part.double() for part in F.max_pool2d(x, 3, 2, 1, return_indices=True)]).exp2().log2()
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(function, backend="heddle")(x), function(x), equal_nan=True)


def test_gradients_of_embeddings():
    """They add rows at places that are data."""
    words, table, weight = torch.randint(0, 20, (4, 7)), leaf(20, 8), leaf(5, 8)
    reports = check_gradients(lambda words, table, weight: F.linear(F.embedding(words, table), weight).sin(), words, table, weight)
    assert [list(report.in_torch) for report in reports] == [[], []]


def test_what_has_no_rule_stays_in_pytorch():
    x, weight = leaf(4, 8), leaf(5, 8)
    reports = check_gradients(lambda x, weight: F.linear(x.kthvalue(3, 1, True).values * x, weight).sin(), x, weight)
    assert "aten.kthvalue.default" in reports[0].in_torch


def test_weights_are_read_at_each_step():
    torch._dynamo.reset()
    layer, x = nn.Linear(8, 4), torch.randn(3, 8)
    run = torch.compile(layer, backend="heddle")
    for _ in range(3):
        torch.testing.assert_close(run(x), layer(x), rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            layer.weight.data.mul_(2)  # PyTorch does not count it
