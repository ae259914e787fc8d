"""torch.compile(dynamic=True) and torch.export: one compile for a range of sizes."""

import pytest

torch = pytest.importorskip("torch")
import heddle.torch  # noqa: E402
from heddle.torch import _part  # noqa: E402

F = torch.nn.functional


class Transformer(torch.nn.Module):
    """Two layers over words: lengths of batch and sequence are those of the call."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(50, 32)
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(32, 7)

    def forward(self, words):
        return self.head(self.layers(self.words(words))).log_softmax(-1)


class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2), torch.nn.BatchNorm2d(8)
        self.dense = torch.nn.Linear(8, 5)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.norm(self.conv(x))), 3, 2, 1)
        return self.dense(y.mean((2, 3))).softmax(-1)


@pytest.fixture
def compiled_parts(monkeypatch):
    """The parts that were compiled, each with the number of its dimensions."""
    made, make = [], _part._Compiled.__init__

    def init(self, part, args, declared, dims):
        made.append(len(dims))
        make(self, part, args, declared, dims)

    monkeypatch.setattr(_part._Compiled, "__init__", init)
    torch._dynamo.reset()
    return made


def check(module, run, *inputs):
    with torch.no_grad():
        torch.testing.assert_close(run(*inputs), module(*inputs), rtol=1e-4, atol=1e-4)


def test_batches_of_images(compiled_parts):
    module = Images().eval()
    run = torch.compile(module, backend="heddle", dynamic=True)
    for n in (2, 3, 8, 5, 4):
        check(module, run, torch.randn(n, 3, 16, 16))
    assert compiled_parts == [1]
    check(module, run, torch.randn(1, 3, 16, 16))  # PyTorch takes one image for a graph of its own
    assert len(compiled_parts) == 2


def test_lengths_of_a_transformer(compiled_parts):
    module = Transformer().eval()
    run = torch.compile(module, backend="heddle", dynamic=True)
    for length in (7, 16, 9, 31, 2):
        words = torch.randint(0, 50, (2, length))
        torch._dynamo.mark_static(words, 0)
        check(module, run, words)
    assert compiled_parts == [1]


def test_batches_and_lengths_of_a_transformer(compiled_parts):
    module = Transformer().eval()
    run = torch.compile(module, backend="heddle", dynamic=True)
    for batch, length in ((2, 7), (3, 16), (8, 5), (4, 33)):
        check(module, run, torch.randint(0, 50, (batch, length)))
    assert compiled_parts == [2]


def test_a_size_beyond_the_range(compiled_parts):
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 4)).eval()
    run = torch.compile(module, backend="heddle", dynamic=True)
    for n in (3, 60, 1000, 3, 900):
        check(module, run, torch.randn(n, 8))
    assert compiled_parts == [1, 1]


def test_sizes_that_are_no_dimensions(compiled_parts):
    """Half of a length is no sum of dimensions: the part is compiled for each size."""
    function = lambda x: F.avg_pool1d(x, 2).flatten(1).relu().exp().sum(1).sqrt()
    run = torch.compile(function, backend="heddle", dynamic=True)
    for n in (8, 11, 14):
        check(function, run, torch.rand(2, 3, n))


def test_a_program_of_torch_export(tmp_path):
    module, batch = Images().eval(), torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(module, (torch.randn(3, 3, 16, 16),), dynamic_shapes={"x": {0: batch}})
    net = heddle.from_torch(program)
    for n in range(1, 9):
        check(module, net, torch.randn(n, 3, 16, 16))
    library = heddle.open(net.export(tmp_path, name="images").library)
    assert list(library.sizes.values()) == [(1, 8, 1)]


def test_a_program_with_two_dimensions():
    module = Transformer().eval()
    dims = {"words": {0: torch.export.Dim("batch", min=1, max=4), 1: torch.export.Dim("length", min=2, max=20)}}
    net = heddle.from_torch(torch.export.export(module, (torch.randint(0, 50, (3, 7)),), dynamic_shapes=dims))
    for shape in ((1, 5), (4, 20), (2, 2)):
        check(module, net, torch.randint(0, 50, shape))


def test_a_program_that_cannot_be_declared():
    class Inverse(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.inv(x)

    with pytest.raises(heddle.Error, match="linalg_inv"):
        heddle.from_torch(torch.export.export(Inverse(), (torch.eye(3),)))
