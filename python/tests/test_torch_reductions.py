"""Reductions, scatters, and layers of volumes, by torch.compile(backend="heddle") against eager: whole graphs, nothing stays in PyTorch."""

import pytest

torch = pytest.importorskip("torch")
import heddle.torch  # noqa: E402,F401

INF = float("inf")


def whole(function, *inputs):
    """What a compiled function gives, which is one part."""
    torch._dynamo.reset()
    reports = []
    with torch.no_grad():
        found = torch.compile(function, backend="heddle", options={"report": reports.append})(*inputs)
    assert [(len(report.parts), report.in_torch) for report in reports] == [(1, {})]
    return found


def check(function, *inputs, tolerance=1e-5):
    torch.testing.assert_close(whole(function, *inputs), function(*inputs), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("function", [
    lambda x: (x * 2 + 1).prod(1, keepdim=True) * x.tanh() + 1,
    lambda x: (x.long() + 3).prod() + x.sin() * 2 - 1,
    lambda x: torch.where((x.exp() > 9).any(), x * 2, x - 1),
    lambda x: (x.sin() > 0.9).any((0, 1), keepdim=True) | (x.sin() < -0.99).any(0) & (x > 0),
    lambda x: (x > 0).max(0).values | (x > 1).amin(0, keepdim=True) | ((x > 0).max(0).indices == (x > 1).int().argmin(0)),
    lambda x: (x.sin() * 3).max(1).values + (x + 1).min(1, keepdim=True).values,
    lambda x: (x.cos() * 3).max(1).indices + (x * 2 + 1).min(0).indices.sum() + (x * 3).argmin(1),
    lambda x: torch.atan2(x.sin(), x * 2) + x,
    lambda x: (x * 2).clamp(min=x.mean(), max=x.amax(1, keepdim=True)) + 1,
    lambda x: (x * 9).long().clamp(min=torch.tensor(-2), max=(x.long() + 1)) + 1,
])
def test_reductions(function):
    check(function, torch.randn(5, 6))


@pytest.mark.parametrize("order", [1, 2, INF, -INF])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_norms_of_vectors(order, dtype):
    """Squares of f16 would overflow: 300 * 300 is more than 65504."""
    x = (torch.randn(4, 64) * 300).to(dtype)
    check(lambda x: torch.linalg.vector_norm(x, order, dim=1, keepdim=True) + x.abs() * 2 - 1, x, tolerance=2e-3)
    check(lambda x: torch.linalg.vector_norm(x * 2, order, dim=1, dtype=torch.float32).exp2().log1p() + 1, x / 300, tolerance=2e-3)


def test_another_norm_is_a_sum_of_powers():
    check(lambda x: torch.linalg.vector_norm((x * 2 + 1).sin() * x, 3, dim=1) * 2, torch.randn(4, 6))


def test_infinite_activations_are_clamped_in_one_part():
    """As T5 does in f16, where a block adds to a sum that overflows."""
    def block(x, weight):
        y = x + x @ weight
        most = torch.finfo(y.dtype).max
        bound = torch.where(torch.isinf(y).any(), most - 1000, most)
        return torch.clamp(y, min=-bound, max=bound) * 0.5

    x = torch.randn(3, 4, dtype=torch.float16)
    check(block, x, torch.eye(4, dtype=torch.float16))
    x[1, 2] = 60000
    found = whole(block, x, torch.eye(4, dtype=torch.float16))
    assert found[1, 2] == torch.tensor(64504 / 2, dtype=torch.float16) and found.isfinite().all()


def test_vectors_of_unit_length():
    check(lambda x: torch.nn.functional.normalize(x, dim=-1) @ torch.nn.functional.normalize(x, dim=-1).t(), torch.randn(6, 32))


PLACES = torch.tensor([[0, 3, 3, 5, 1], [2, 2, 0, 4, 4]])
GRID = torch.linspace(-1.3, 1.3, 2 * 5 * 4 * 2).view(2, 5, 4, 2)


@pytest.mark.parametrize("shape, function", [
    ((2, 6), lambda x: x.scatter(1, torch.tensor([[5, 0], [1, 3]]), x[:, 2:4])),
    ((2, 6), lambda x: x.scatter_add(1, PLACES, x[:, :5])),
    ((2, 6), lambda x: x.scatter_reduce(1, PLACES, x[:, :5], "amax") + x.scatter_reduce(1, PLACES, x[:, :5], "prod")),
    ((2, 6), lambda x: sum(x.scatter_reduce(1, PLACES, x[:, :5], how, include_self=False) for how in ("sum", "prod", "amax", "amin"))),
    ((2, 6), lambda x: x.scatter_reduce(1, PLACES, x[:, :5], "mean") - x.scatter_reduce(1, PLACES, x[:, :5], "mean", include_self=False)),
    ((6, 5), lambda x: x.scatter_reduce(0, PLACES[1][:, None].expand(5, 5), x[:5].abs(), "amin", include_self=False)),
    ((7, 6), lambda x: x.index_add(0, PLACES[0], x[:5]) + x.index_put((torch.tensor([1, -1]),), x[:2] * 3)),
    ((7, 6), lambda x: x.index_put((PLACES, PLACES.flip(0)), x[0, 0], accumulate=True)),
    ((7, 6), lambda x: torch.diagonal(x, 1) + torch.diagonal(x[:6]).sum()),
    ((2, 7, 6), lambda x: torch.diagonal(x, -2, 1, 2)),
    ((4, 6), lambda x: x.cumprod(1)),
    ((2, 3, 8, 9), lambda x: torch.nn.functional.instance_norm(x, weight=torch.arange(3.0), bias=torch.ones(3))),
    ((2, 3, 8, 9), lambda x: torch.nn.functional.adaptive_max_pool2d(x, (3, 4))),
    ((3, 8, 9), lambda x: torch.nn.functional.adaptive_max_pool2d(x, 3)),
    ((2, 3, 4, 6, 5), lambda x: torch.nn.functional.max_pool3d(x, (2, 3, 2), 2, (1, 1, 0), ceil_mode=True)),
    ((2, 3, 4, 6, 5), lambda x: torch.nn.functional.avg_pool3d(x, 2, 1, 1)),
    ((3, 4, 6, 5), lambda x: torch.nn.functional.avg_pool3d(x, 2)),
    ((2, 3, 8, 9), lambda x: torch.nn.functional.grid_sample(x, GRID, "bicubic", "border", True)),
    ((2, 3, 8, 9), lambda x: torch.nn.functional.grid_sample(x, GRID, "nearest", "reflection", False)),
    ((2, 3, 8, 9), lambda x: torch.nn.functional.pad(x, (1, 2, 3, 1), mode="circular")),
    ((2, 27, 16), lambda x: torch.nn.functional.fold(x, (6, 6), 3)),
    ((2, 12, 15), lambda x: torch.nn.functional.fold(x, (5, 6), (3, 2), (1, 1), (1, 0), (2, 1))),
    ((2, 3, 8, 9), lambda x: torch.nn.functional.unfold(x, (3, 2), (1, 2), (2, 1), (2, 1))),
    ((3, 8, 9), lambda x: torch.nn.functional.unfold(x, 2, stride=2)),
    ((3, 7, 6), lambda x: x.index_add(1, PLACES[0], x[:, :5]) + x.index_add(-1, PLACES[1], x[..., :5]) + x.index_add(0, PLACES[0][:1], x[:1], alpha=2)),
])
def test_scatters_and_layers(shape, function):
    check(lambda x: (function(x.sin() * 2 + 1) * 2 + 1).tanh() * 3, torch.randn(shape), tolerance=1e-4)


def test_an_instance_norm_of_f16_has_its_sums_in_f32():
    """The squares of 300 overflow in f16."""
    x = torch.randn(2, 3, 8, 9).half() * 300
    check(lambda x: (torch.nn.functional.instance_norm(x * 2 + 1) * 2 + 1).tanh() * 3, x, tolerance=5e-3)


@pytest.mark.parametrize("function", [
    lambda x: x.sin().topk(3).values + (x * 2).topk(3, 1, largest=False).indices,
    lambda x: (x + 1).sort(descending=True).values * 2 + x.argsort(0) + torch.sort((x * 3).round(), dim=0, stable=True).indices,
    lambda x: torch.cdist(x * 2, x[:3] + 1) + torch.cdist(x, x[:3], p=1) + torch.cdist(x[None], x[:3], p=INF)[0],
    lambda x: (x * 9).asinh() + x.asinh() + (x.abs() + 1).acosh() + (x.sin() * 0.9).atanh(),
])
def test_sorts_and_distances(function):
    check(function, torch.randn(7, 12))


def every_third(x, y):
    out = x * 2
    out[:, 1:10:3] = y.sin()[:, :3]
    out[..., -3::2] = 0.5
    return (out + 1).exp() * x - 1


def merged(x, y):
    return (x * 2).masked_scatter(x > 0, y.exp()) + (x + 1).masked_scatter((x > 0)[:, :1], y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_inverse_hyperbolic_functions_of_large_numbers(dtype):
    x = torch.tensor([0., -0., 1., 300., -300., 6e4, INF, -INF, float("nan")] + ([1e20, -3e38] if dtype == torch.float32 else [])).to(dtype)
    found = whole(lambda x: (x.asinh() * 1, x.acosh() * 1, (x.sign() * 0.9).atanh() * 1), x)
    for have, want in zip(found, (x.asinh(), x.acosh(), (x.sign() * 0.9).atanh())):
        torch.testing.assert_close(have, want, rtol=2e-3 if dtype == torch.float16 else 1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_that_small_floats_do_not_hold_meet_them_in_f32(dtype):
    x = torch.tensor([0.0, 1.0, -3.5, 300.0, 6e4, -6e4, INF, float("nan")]).to(dtype)

    def function(x):
        return x / 7e4, x * 7e4, 1e-5 * x, 3e-9 / (x + 1), x * 0.1, x + 1e-9, 7e3 - x
    for have, want in zip(whole(function, x), function(x)):
        torch.testing.assert_close(have, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_operators_of_integers_have_the_types_of_pytorch(dtype):
    x, y = (torch.arange(24).view(4, 6) * 7 % 11 + k for k in (0, 2))

    def function(x, y):
        return x ** 5 + x ** 1 + x ** 0, x ** 2.0, x @ y.t(), x.isnan() | y.isfinite() | x.isinf(), (x % 5).square() - y
    for have, want in zip(whole(function, x.to(dtype), y.to(dtype)), function(x.to(dtype), y.to(dtype))):
        assert have.dtype == want.dtype and torch.equal(have, want)


@pytest.mark.parametrize("function", [
    lambda x, y: torch.maximum(x, y) ^ torch.minimum(x, ~y),
    lambda x, y: x.sort(1).values | y.sort(0, descending=True).values ^ ~x & (y | x),
    lambda x, y: (x ** 3) | (y ** 2) ^ (x ** 1) | y.pow(0),
    lambda x, y: (x < y) | (x >= y) & (x != y) ^ (y > x) | (x <= True),
    lambda x, y: (x + y).roll(1, 0) | (x * y) ^ ~x | (x.logical_not() & y),
    lambda x, y: x.max(1, keepdim=True).values | y.amin(0, keepdim=True) | (x.min(0).indices == y.amax(0)),
])
def test_operators_of_truth_values(function):
    x, y = torch.arange(24).view(4, 6) % 3 > 0, torch.arange(24).view(4, 6) % 5 > 2
    have, want = whole(function, x, y), function(x, y)
    assert have.dtype == want.dtype and torch.equal(have, want)


def test_a_part_that_heddle_refuses_is_left_to_pytorch():
    def function(x):
        return (x + 3).clamp(-2, 5) * 2 + x  # -2 is no unsigned byte

    x = torch.arange(12, dtype=torch.uint8)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="heddle")
    with pytest.warns(heddle.torch.LeftToTorch, match="-2.000000 is no value of type u8"):
        have = compiled(x)
    assert torch.equal(have, function(x)) and torch.equal(compiled(x + 1), function(x + 1))
    with pytest.raises(Exception, match="'soon' is no time"):
        torch.compile(function, backend="heddle", options={"budget": "soon"})(x)


def test_only_what_heddle_refuses_is_left_to_pytorch(monkeypatch):
    def broken(*_):
        raise TypeError("a mistake in a rule")

    torch._dynamo.reset()
    monkeypatch.setitem(heddle.torch._part.declare.__globals__["RULES"], torch.ops.aten.sin.default, broken)
    with pytest.raises(TypeError, match="a mistake in a rule"):
        torch.compile(lambda x: x.sin() * 2 + x.cos() - 1, backend="heddle")(torch.zeros(4))


def test_too_few_elements_for_a_mask_are_an_error():
    def scatter(x, y):
        return (x * 2 + 1).exp().masked_scatter(x < 10, y) * 2

    with pytest.raises(RuntimeError):
        torch.compile(scatter, backend="heddle")(torch.zeros(6), torch.zeros(3))


@pytest.mark.parametrize("function", [every_third, merged])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_elements_that_are_replaced(function, dtype):
    check(function, torch.randn(5, 12).to(dtype), torch.randn(5, 12).to(dtype), tolerance=4e-3 if dtype == torch.float16 else 1e-5)


def test_pooling_of_volumes_to_a_size():
    check(lambda x: torch.nn.functional.adaptive_avg_pool3d(x.exp() * 2 - x, (2, 3, 1)).sqrt() + 1, torch.randn(1, 2, 4, 6, 5))
