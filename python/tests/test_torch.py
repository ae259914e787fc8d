"""torch.compile(backend="heddle") against eager: small graphs, weights that change, shapes that change, partitions."""

import concurrent.futures
import logging
import threading

import pytest

torch = pytest.importorskip("torch")
import heddle.torch  # noqa: E402
from heddle.torch import _part  # noqa: E402

F = torch.nn.functional


def check(module, *inputs, tolerance=1e-4):
    torch._dynamo.reset()
    module = module.eval() if isinstance(module, torch.nn.Module) else module
    with torch.no_grad():
        expected = module(*inputs)
        found = torch.compile(module, backend="heddle")(*inputs)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2), torch.nn.BatchNorm2d(8)
        self.dense = torch.nn.Linear(8, 5)

    def forward(self, x):
        y = F.max_pool2d(F.relu6(self.norm(self.conv(x))), 3, 2, 1)
        return self.dense(F.hardswish(y).mean((2, 3))).softmax(-1)


def test_a_convolutional_block():
    check(Block(), torch.randn(2, 3, 16, 16))
    check(Block().to(memory_format=torch.channels_last), torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last))


def test_attention():
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
    check(layer, torch.randn(2, 7, 32))
    check(lambda q: F.scaled_dot_product_attention(q, q, q), torch.randn(1, 2, 5, 16))


class Heads(torch.nn.Module):
    def forward(self, q, k, v, bias):
        return ((q * 0.25) @ k.transpose(-2, -1) + bias).softmax(-1) @ v


def test_attention_by_products_is_one_node():
    q, k, v = (torch.randn(2, 3, 9, 16) for _ in range(3))
    bias = torch.randn(3, 9, 9)
    check(Heads(), q, k, v, bias)
    wide = [torch.randn(2, 3, 64, 32).half() for _ in range(3)]
    program = torch.export.export(Heads(), (*wide, torch.randn(3, 64, 64).half()))
    assert heddle.torch.from_torch(program, target="cuda -gpu=h100")._graph.num_nodes == 1
    # Products of which the batch is used as such keep it.
    check(lambda a, b: torch.bmm(a.reshape(6, 9, 16), b.reshape(6, 16, 9)).sum(0), q, k.transpose(-2, -1))
    check(lambda a, b: torch.bmm(a.reshape(6, 9, 16), b.reshape(6, 16, 9)).reshape(3, 2, 9, 9) * 2, q, k.transpose(-2, -1))


def test_numbers_among_attributes_are_no_arguments():
    from heddle.torch._rewrite import write_numbers_out

    class Shifted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.by, self.table = torch.tensor(3), torch.arange(4.0)

        def forward(self, x):
            return x * (self.by + 1) + self.table

    module, x = Shifted(), torch.randn(2, 4)
    graph_module = torch.fx.symbolic_trace(module)
    for node in graph_module.graph.nodes:  # as AOTAutograd leaves them
        node.meta["val"] = {"get_attr": getattr(module, str(node.target), None), "placeholder": x}.get(node.op, x)
    write_numbers_out(graph_module)
    assert [n.target for n in graph_module.graph.nodes if n.op == "get_attr"] == ["table"]
    torch.testing.assert_close(graph_module(x), module(x))


@pytest.mark.parametrize("function", [
    lambda x: (x * 2 + 1).abs().sqrt() - x.mean(1, keepdim=True),
    lambda x: torch.cat([x[:, 1:3], x[:, -1:]], 1).transpose(0, 1).reshape(-1) * 3,
    lambda x: torch.where(x > 0, x, x.exp() - 1).clamp(-0.5, 2) + (x < 0),
    lambda x: F.pad(x, (1, 2, 0, 1), value=3).flip(1).roll(1, 0) * x.var(),
    lambda x: F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x) + F.mish(x) + F.elu(x) + F.leaky_relu(x),
    lambda x: F.layer_norm(x, (6,)) + x.log_softmax(0).amax(1, True) + x.argmax(1, keepdim=True),
    lambda x: [part * 2 for part in x.split([2, 4], 1)] + [x.cumsum(1) @ x.t()],
    lambda x: torch.embedding(x, torch.tensor([[1, 0], [3, 2]])) * 2 + 1 - x.sum(),
    lambda x: x.half().float() * x.double() + torch.arange(6) + torch.full((4, 1), 2.0),
    lambda x: x[torch.arange(3)[:, None], torch.tensor([[0, 5]])] + x[:, torch.tensor([1, 0])].sum(),
])
def test_functions(function):
    check(function, torch.randn(4, 6), tolerance=1e-3)


def test_weights_that_change():
    torch._dynamo.reset()
    layer = torch.nn.Linear(8, 4).eval()
    compiled, x = torch.compile(layer, backend="heddle"), torch.randn(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), layer(x))
        layer.weight.mul_(2)
        torch.testing.assert_close(compiled(x), layer(x))
        layer.weight = torch.nn.Parameter(torch.randn(4, 8))
        torch.testing.assert_close(compiled(x), layer(x))


@pytest.fixture
def compiled_parts(monkeypatch):
    """The parts that were compiled."""
    made, make = [], _part._Compiled.__init__

    def init(self, *args):
        made.append(self)
        make(self, *args)

    monkeypatch.setattr(_part._Compiled, "__init__", init)
    torch._dynamo.reset()
    return made


def layers():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 4)).eval()


@pytest.mark.parametrize("sizes", [(3, 3, 3), (3, 100, 5)])
def test_modules_that_share_their_code(compiled_parts, sizes):
    """PyTorch compiles such modules once. Each of them is compiled once here, and not at each call in turn."""
    modules = [layers() for _ in range(3)]
    run = torch.compile(lambda module, x: module(x), backend="heddle", dynamic=len(set(sizes)) > 1)
    with torch.no_grad():
        for _ in range(3):
            for size in sizes:
                x = torch.randn(size, 8)
                for module in modules:
                    torch.testing.assert_close(run(module, x), module(x), rtol=1e-4, atol=1e-4)
    assert len(compiled_parts) == len(modules) * (1 if len(set(sizes)) == 1 else 2)


def test_weights_that_are_replaced_are_let_go(compiled_parts):
    module, x = layers(), torch.randn(3, 8)
    run = torch.compile(module, backend="heddle")
    with torch.no_grad():
        for _ in range(4):
            module[0].weight = torch.nn.Parameter(torch.randn(8, 8))
            torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-4)
    assert [entry.is_alive() for entry in compiled_parts] == [False, False, False, True]


def test_threads_wait_for_weights_that_are_read_anew(monkeypatch):
    torch._dynamo.reset()
    module, x = layers(), torch.randn(3, 8)
    run = torch.compile(module, backend="heddle")
    reads, may_read, refresh = threading.Event(), threading.Event(), heddle.Network.refresh

    def waits(self):
        reads.set()
        assert may_read.wait(60)
        refresh(self)

    def call():
        with torch.no_grad():
            return run(x)

    call()
    with torch.no_grad():
        module[0].weight.mul_(3)
        expected = module(x)
    monkeypatch.setattr(heddle.Network, "refresh", waits)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(call)
        assert reads.wait(60)
        second = pool.submit(call)
        concurrent.futures.wait([second], 0.5)
        may_read.set()
        for found in (first, second):
            torch.testing.assert_close(found.result(), expected, rtol=1e-4, atol=1e-4)


def test_shapes_that_change():
    torch._dynamo.reset()
    block = Block().eval()
    compiled = torch.compile(block, backend="heddle")
    with torch.no_grad():
        for n in (1, 2, 5, 3):
            x = torch.randn(n, 3, 16, 16)
            torch.testing.assert_close(compiled(x), block(x), rtol=1e-4, atol=1e-4)


def test_what_is_not_supported_stays_in_pytorch(caplog):
    with caplog.at_level(logging.INFO, "heddle.torch"):
        check(lambda x: (torch.linalg.inv(x @ x.t() + torch.eye(4)) @ x).relu(), torch.randn(4, 4), tolerance=1e-3)
    assert "stay in PyTorch" in caplog.text and "linalg_inv" in caplog.text


def test_a_backward_pass():
    torch._dynamo.reset()
    layer, x = torch.nn.Linear(8, 4), torch.randn(3, 8, requires_grad=True)
    torch.compile(layer, backend="heddle")(x).square().sum().backward()
    found, x.grad = x.grad, None
    layer(x).square().sum().backward()
    torch.testing.assert_close(found, x.grad, rtol=1e-4, atol=1e-4)


def test_small_floats():
    check(Block().to(torch.bfloat16), torch.randn(2, 3, 16, 16, dtype=torch.bfloat16), tolerance=3e-2)


def test_a_part_without_inputs():
    def function(x):
        steps = torch.arange(4).float()
        return torch.linalg.inv(x).sum(), (steps * 2 + 1).exp().sqrt() - steps

    check(function, torch.eye(3))


def test_layers_that_pytorch_fuses():
    """Without gradients PyTorch's layers call operators of their own, which are taken apart again."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    x, padding = torch.randn(2, 7, 32), torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 5:] = True
    reports, layer = [], layer.eval()
    run = torch.compile(layer, backend="heddle", options={"report": reports.append})
    for mask in (None, padding):
        with torch.no_grad():
            found, expected = run(x, src_key_padding_mask=mask), layer(x, src_key_padding_mask=mask)
        torch.testing.assert_close(found[:, :5], expected[:, :5], rtol=1e-4, atol=1e-4)
    attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    check(lambda x: attention.eval()(x, x, x, need_weights=False)[0], x)
    assert reports and not any(report.in_torch for report in reports)


def test_results_have_the_strides_that_pytorch_expects():
    def function(x):
        y = F.conv2d(x, weight).relu()
        return y, y.permute(0, 2, 3, 1).view(-1, 4), x.transpose(2, 3) * 2

    weight = torch.randn(4, 3, 3, 3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 9).to(memory_format=torch.channels_last)
    check(function, x)
    with torch.no_grad():
        for found, expected in zip(torch.compile(function, backend="heddle")(x), function(x)):
            assert found.stride() == expected.stride()


@pytest.mark.parametrize("function", [
    lambda x: torch.slice_scatter(x, x[:, :2] * 3, 1, -3, -1) + torch.select_scatter(x, x[0] + 1, 0, 2).fmod(0.5),
    lambda x: x.remainder(0.75) + torch.as_strided(x * 2, (2, 3), (6, 2), 1).sum(),
    lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], is_causal=True),
    lambda x: x.view(2, 2, 6)[:, torch.tensor([[1], [0]]), torch.tensor([5, 0, -1])] * 2 + x.view(2, 3, 2, 2)[:, torch.tensor([0, 2, 1]), torch.tensor([1, 0, 0]), :1].mean(),
    lambda x: torch.div(x, 0.1, rounding_mode="floor") + torch.div(x, -0.3, rounding_mode="trunc") + 2.0**x,
    lambda x: torch.div((x * 9).long(), torch.tensor([2, -3, 4, -5, 6, 7]), rounding_mode="floor") + (x > 0).cumsum(1, dtype=torch.int32) + (x > 0).cumsum(0),
    lambda x: x * torch.arange(1, 2.5, 0.25) + torch.arange(6, dtype=torch.float16) + torch.arange(9, 3, -1, dtype=torch.int32),
    lambda x: F.interpolate(x[None, None], scale_factor=2) + F.interpolate(x[None, None], (8, 12), mode="bilinear"),
])
def test_more_functions(function):
    check(function, torch.randn(4, 6), tolerance=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    """The types that autocast chooses are those of the graph."""
    torch._dynamo.reset()
    block, x, reports = Block().eval(), torch.randn(2, 3, 16, 16), []
    run = torch.compile(block, backend="heddle", options={"report": reports.append})
    with torch.no_grad(), torch.autocast("cpu", dtype):
        found, expected = run(x), block(x)
    assert found.dtype == expected.dtype and reports and reports[0].parts
    torch.testing.assert_close(found.float(), expected.float(), rtol=3e-2, atol=3e-2)


def test_weights_that_are_loaded():
    torch._dynamo.reset()
    block, other, x = Block().eval(), Block().eval(), torch.randn(2, 3, 16, 16)
    run = torch.compile(block, backend="heddle")
    with torch.no_grad():
        run(x)
        block.load_state_dict(other.state_dict())
        torch.testing.assert_close(run(x), other(x), rtol=1e-4, atol=1e-4)


def test_weights_of_products_are_read_as_they_lie():
    from torch.fx.experimental.proxy_tensor import make_fx

    from heddle.torch._decompositions import decompositions
    from heddle.torch._layers import product_of_rows
    from heddle.torch._rewrite import rewrite

    weight, bias, x = torch.randn(5, 8), torch.randn(5), torch.randn(2, 3, 8)
    function = lambda x, weight, bias: F.linear(x, weight, bias) + F.linear(x, weight)
    graph = make_fx(function, decompositions())(x, weight, bias)
    rewrite(graph)
    targets = [node.target for node in graph.graph.nodes]
    assert targets.count(product_of_rows) == 2 and torch.ops.aten.permute.default not in targets and torch.ops.aten.t.default not in targets
    torch.testing.assert_close(graph(x, weight, bias), function(x, weight, bias))
    check(function, x, weight, bias)


def strided_parts(x):
    """Views of a tensor that is computed: offsets count in its storage."""
    y = x * 2
    left, right = y.split(3, 1)
    views = [(y[1:], 1), (y[1:], None), (left, 3), (right, 1), (right, None)]
    return sum((torch.as_strided(view, (2, 3), (6, 2), offset).exp() + 1).sqrt() for view, offset in views)


def strided_argument(x):
    return sum((torch.as_strided(view, (2, 3), (6, 2), offset) * 2 + 1).exp().sqrt() for view, offset in [(x, 1), (x, None), (x[1:], None)])


@pytest.mark.parametrize("function", [strided_parts, strided_argument])
def test_offsets_of_as_strided_count_in_the_storage(function):
    torch._dynamo.reset()
    run, storage = torch.compile(function, backend="heddle"), torch.randn(10, 6)
    for begin in (2, 0, 5):
        x = storage[begin:begin + 4]
        torch.testing.assert_close(run(x), function(x), rtol=1e-4, atol=1e-4)


def masked_windows(x):
    """As shifted windows of attention are masked in Swin: a mask is written piece by piece."""
    mask = x.new_zeros((8, 8))
    pieces = (slice(0, -4), slice(-4, -2), slice(-2, None))
    for i, rows in enumerate(pieces):
        for j, columns in enumerate(pieces):
            mask[rows, columns] = 3 * i + j
    mask = mask.view(2, 4, 2, 4).permute(0, 2, 1, 3).reshape(4, 16)
    mask = mask.unsqueeze(1) - mask.unsqueeze(2)
    mask = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
    return (torch.roll(x, (2, -3), (1, 2)) @ x + mask).softmax(-1)


def test_masks_are_constants(compiled_parts):
    check(masked_windows, torch.randn(4, 16, 16))
    assert len(compiled_parts) == 1
    assert "concat" not in str(compiled_parts[0].network.explain())


def graph_on_a_gpu(function, *shapes):
    """The graph of a function of tensors on a GPU, which need not be there."""
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    from heddle.torch._decompositions import decompositions

    with FakeTensorMode() as mode, torch.no_grad():
        inputs = [torch.empty(shape, device="cuda") for shape in shapes]
        functional = torch.func.functionalize(function, remove="mutations")
        with mode:
            return make_fx(functional, decompositions())(*inputs)


def test_all_of_a_masked_window_is_supported_on_a_gpu():
    from heddle.torch._declare import supports

    graph = graph_on_a_gpu(masked_windows, (4, 16, 16)).graph
    assert any(node.kwargs.get("device") == torch.device("cuda", 0) for node in graph.nodes)
    assert [node.target for node in graph.nodes if node.op == "call_function" and not supports(node)] == []


def test_what_a_graph_on_a_gpu_computes_on_the_cpu_from_nothing_is_made_there():
    from heddle.torch._declare import supports
    from heddle.torch._rewrite import rewrite

    def shifted(x):
        position = torch.arange(8, device="cpu")
        near = (position[:, None] - position[None, :]).abs().clamp(max=3).float().log1p()
        return x + near.to(x.device) + torch.zeros(8, device="cpu").to(x.device), torch.arange(3, device="cpu")

    graph_module = graph_on_a_gpu(shifted, (8, 8))
    rewrite(graph_module)
    of_cpu = [n for n in graph_module.graph.nodes if n.op == "call_function" and n.meta["val"].device.type == "cpu"]
    assert [n.args for n in of_cpu] == [(0, 3)] or [n.args for n in of_cpu] == [(3,)]  # a result stays where it was asked for
    assert [n.target for n in graph_module.graph.nodes if n.op == "call_function" and n not in of_cpu and not supports(n)] == []


def test_what_a_graph_on_a_gpu_draws_on_the_cpu_is_drawn_there():
    from heddle.torch._rewrite import rewrite

    graph_module = graph_on_a_gpu(lambda x: x + (torch.rand(8, device="cpu") * 2).to(x.device), (8, 8))
    rewrite(graph_module)
    drawn = [n for n in graph_module.graph.nodes if n.target == torch.ops.aten.rand.default]
    assert [n.kwargs["device"].type for n in drawn] == ["cpu"]


@pytest.mark.parametrize("source", [(), (6,), (4, 1)])
def test_a_tensor_that_is_copied_over_another(source):
    """Some releases of PyTorch write numbers into tensors on a GPU by `copy` of a tensor without dimensions."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from heddle.torch._part import Part

    def function(x, y):
        mine = torch.ops.aten.copy(torch.ops.aten.slice(x, 0, 1, 3), y[1:3] if source == (4, 1) else y)
        return torch.ops.aten.slice_scatter(x, mine, 0, 1, 3) * 2

    x, y = torch.randn(4, 6), torch.randint(0, 9, source)
    torch.testing.assert_close(Part(make_fx(function)(x, y), set(), {})(x, y), function(x, y))


def test_images_that_grow_are_one_part():
    torch._dynamo.reset()
    weight, x, reports = torch.randn(4, 3, 3, 3), torch.randn(1, 3, 8, 8), []

    def function(x):
        y = F.interpolate(F.conv2d(x, weight, padding=1), scale_factor=2.0)
        return F.conv2d(y, weight.transpose(0, 1), padding=1) + F.interpolate(x, scale_factor=2.0)

    run = torch.compile(function, backend="heddle", options={"report": reports.append})
    with torch.no_grad():
        torch.testing.assert_close(run(x), function(x), rtol=1e-3, atol=1e-3)
    assert [(len(report.parts), report.in_torch) for report in reports] == [(1, {})]
