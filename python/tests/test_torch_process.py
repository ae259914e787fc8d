"""Memory, threads and processes under torch.compile(backend="heddle")."""

import concurrent.futures

import pytest

torch = pytest.importorskip("torch")
import heddle.torch  # noqa: E402, F401
from heddle.torch._part import Part  # noqa: E402
from test_process import CALLS, LOADS, grown_by, run  # noqa: E402

LAYERS = "torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).eval()"


@pytest.fixture
def module():
    torch._dynamo.reset()
    return eval(LAYERS)


def graph_of(module, x):
    from torch.fx.experimental.proxy_tensor import make_fx

    from heddle.torch._decompositions import decompositions

    return make_fx(module, decompositions())(x)


def test_calls_leave_no_memory_behind(module):
    run_it, x = torch.compile(module, backend="heddle"), torch.randn(3, 64)
    with torch.no_grad():
        assert grown_by(lambda: run_it(x), CALLS // 2) < 1 << 19


def test_parts_leave_no_memory_behind():
    function, x = lambda x: ((x * 2 + 1).exp().sqrt() - x).softmax(1), torch.randn(3, 64)
    graph = graph_of(function, x)
    torch.testing.assert_close(Part(graph, set(), {})(x), function(x))
    assert grown_by(lambda: Part(graph, set(), {})(x), LOADS) < 3 << 20


def test_threads_call_at_once(module):
    run_it, inputs = torch.compile(module, backend="heddle"), [torch.randn(3, 64) for _ in range(8)]

    def call(x):
        with torch.no_grad():
            return run_it(x)

    with torch.no_grad():
        expected = [module(x) for x in inputs]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            for found, wanted in zip(pool.map(call, inputs), expected):
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("end", [
    "pid = os.fork()\ncheck()\nif pid == 0: os._exit(0)\nassert os.waitpid(pid, 0)[1] == 0",
    "import atexit\natexit.register(check)",
], ids=["fork", "atexit"])
def test_a_process_ends_cleanly(end):
    """Daemon threads are left out: calls of PyTorch alone in one of them crash where the interpreter ends (2.11, CPython 3.11)."""
    done = run(f"""
import os, torch, heddle.torch
module, x = {LAYERS}, torch.randn(3, 64)
run = torch.compile(module, backend="heddle")
with torch.no_grad(): expected = module(x)
def check():
    with torch.no_grad(): assert (run(x) - expected).abs().max() < 1e-4
check()
{end}
""")
    assert (done.returncode, done.stderr) == (0, "")
