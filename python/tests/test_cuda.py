"""What Python does on a GPU: arrays without copies, streams, networks, declarations, torch.compile. Left out where there is none."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import heddle as hd  # noqa: E402
import heddle.torch  # noqa: E402, F401

F = torch.nn.functional


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def close(found, expected, tolerance=1e-4):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def exact_products():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def doubled():
    x = hd.placeholder((1024,), name="x")
    y = hd.compute((1024,), lambda i: x[i] * 2.0 + 1.0, "y")
    return hd.build(hd.create_schedule(y, target="cuda"), [x, y])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_are_shared(dtype):
    tensor = (random(3, 5) > 0).to(dtype)
    shared = hd.NDArray(tensor)
    assert shared.device == "cuda:0" and shared.shape == (3, 5)
    back = shared.torch()
    assert back.data_ptr() == tensor.data_ptr() and back.dtype == dtype
    tensor.zero_()
    assert not back.any()


def test_what_is_not_dense_is_refused():
    with pytest.raises(hd.Error, match="row-major"):
        hd.NDArray(random(4, 6).t())


def test_a_declaration(doubled):
    x = random(1024)
    y = doubled(x)
    assert y.is_cuda and y.dtype == torch.float32
    close(y, x * 2 + 1)
    out = torch.zeros_like(x)
    assert doubled(x, out) is None
    close(out, x * 2 + 1)


def test_a_product_by_the_rules():
    a, b = hd.placeholder((256, 128), "f16", "a"), hd.placeholder((128, 192), "f16", "b")
    c = hd.ops.relu(hd.ops.matmul(a, b))
    kernel = hd.build(hd.create_schedule(c, target="cuda"), [a, b, c])
    x, y = random(256, 128, dtype=torch.float16), random(128, 192, dtype=torch.float16)
    close(kernel(x, y), (x @ y).relu(), 2e-2)
    assert "cuda" in kernel.source("cuda") or "__global__" in kernel.source("cuda")


def test_the_current_stream(doubled):
    """The kernel runs after what its stream has to do before, and before what follows there."""
    x = torch.zeros(1024, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for step in range(50):
            torch.cuda._sleep(200_000)
            x.fill_(step)
            y = doubled(x)
            total = y.sum()
            assert total.item() == 1024 * (2 * step + 1)


def test_a_captured_call(doubled):
    x, y = torch.ones(1024, device="cuda"), torch.zeros(1024, device="cuda")
    doubled(x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled(x, y)
    x.fill_(5)
    graph.replay()
    close(y, torch.full_like(y, 11.0))


def test_numpy_arrays_are_copied_there_and_back(doubled):
    import numpy

    x = numpy.arange(1024, dtype=numpy.float32)
    numpy.testing.assert_allclose(doubled(x), x * 2 + 1)


def test_a_model(digits_path):
    net, on_cpu = hd.load(digits_path, dims={"batch": (1, 8)}, target="cuda"), hd.load(digits_path, dims={"batch": (1, 8)})
    for n in (1, 3, 8, 3):
        images = random(n, 1, 8, 8)
        close(net(images).cpu(), on_cpu(images.cpu()))
    assert net.profile(images, seconds=0.2).call_s > 0


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 16, 3, padding=1, stride=2), torch.nn.BatchNorm2d(16)
        self.dense = torch.nn.Linear(16, 8)

    def forward(self, x):
        y = F.max_pool2d(F.relu6(self.norm(self.conv(x))), 3, 2, 1)
        return self.dense(F.hardswish(y).mean((2, 3))).softmax(-1)


def compiled(module, *inputs, tolerance=1e-3, **options):
    reports = []
    run = torch.compile(module, backend="heddle", options={"report": reports.append}, **options)
    with torch.no_grad():
        for _ in range(4):  # the later calls are CUDA graphs, of Heddle or of the mode
            found = run(*inputs)
            close(found, module(*inputs), tolerance)
    assert reports and all(report.parts for report in reports)
    return run


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-3), (torch.float16, 2e-2), (torch.bfloat16, 6e-2)])
def test_torch_compile(dtype, tolerance):
    compiled(Block().eval().cuda().to(dtype), random(2, 3, 32, 32, dtype=dtype), tolerance=tolerance)


def test_torch_compile_of_channels_last():
    block = Block().eval().cuda().half().to(memory_format=torch.channels_last)
    compiled(block, random(2, 3, 32, 32, dtype=torch.float16).to(memory_format=torch.channels_last), tolerance=2e-2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-3), (torch.float16, 1e-2)])
def test_torch_compile_of_attention(dtype, tolerance, causal):
    q, k, v = (random(2, 4, 33, 64, dtype=dtype) for _ in range(3))
    compiled(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), q, k, v, tolerance=tolerance)


def test_torch_compile_with_cuda_graphs():
    block = Block().eval().cuda()
    run = torch.compile(block, backend="heddle", mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(5):
            x = random(2, 3, 32, 32)
            torch.compiler.cudagraph_mark_step_begin()
            close(run(x), block(x), 1e-3)


def test_weights_that_change():
    layer = torch.nn.Linear(64, 32).eval().cuda()
    x = random(3, 64)
    run = compiled(layer, x)
    with torch.no_grad():
        layer.weight.mul_(2)
        close(run(x), layer(x), 1e-3)


def test_streams_of_torch_compile():
    block, stream = Block().eval().cuda(), torch.cuda.Stream()
    run = torch.compile(block, backend="heddle")
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(10):
            x = random(2, 3, 32, 32)
            torch.cuda._sleep(100_000)
            close(run(x + 1), block(x + 1), 1e-3)


def test_masks_are_constants():
    from test_torch import masked_windows

    compiled(masked_windows, random(4, 16, 16))


def test_ten_steps_of_training():
    import copy

    def losses(step, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        found = []
        for seed in range(10):
            x = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(seed)).cuda()
            loss = step(model, x, torch.arange(4, device="cuda"))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    from test_torch_training import resnet

    step = lambda model, x, labels: F.cross_entropy(model(x), labels)
    model = resnet().cuda()
    expected = losses(step, copy.deepcopy(model))
    assert losses(torch.compile(step, backend="heddle", dynamic=False), model) == pytest.approx(expected, rel=1e-3, abs=1e-3)
