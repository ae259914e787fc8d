"""Memory, threads, processes: what a program that runs for long relies on."""

import concurrent.futures
import gc
import os
import subprocess
import sys

import numpy
import pytest

import heddle as hd


def product(n):
    a, b = hd.placeholder((n, n), name="a"), hd.placeholder((n, n), name="b")
    c = hd.ops.relu(hd.ops.matmul(a, b))
    return hd.build(hd.create_schedule(c), [a, b, c])


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# More of them show smaller leaks:  HEDDLE_LEAK_CALLS=1000000 HEDDLE_LEAK_LOADS=1000 scripts/test_python.sh -k leave_no_memory
CALLS = int(os.environ.get("HEDDLE_LEAK_CALLS", 100_000))  # a leak of one object of 48 bytes is 4.8 MB
LOADS = int(os.environ.get("HEDDLE_LEAK_LOADS", 100))


def grown_by(call, calls):
    """The bytes that memory grows by in the best third of the calls, after some to warm up: what leaks grows in each of them."""
    grown = []
    for count in (max(20, calls // 10), calls // 3, calls // 3, calls // 3):
        gc.collect()
        before = resident_bytes()
        for _ in range(count):
            call()
        gc.collect()
        grown.append(resident_bytes() - before)
    return min(grown[1:])


def test_calls_leave_no_memory_behind():
    kernel, a, c = product(8), numpy.ones((8, 8), numpy.float32), numpy.zeros((8, 8), numpy.float32)
    assert grown_by(lambda: kernel(a, a), CALLS) < 1 << 20
    assert grown_by(lambda: kernel(a, a, c), CALLS) < 1 << 20


def test_loads_leave_no_memory_behind(digits_path):
    x = numpy.ones((1, 1, 8, 8), numpy.float32)
    assert grown_by(lambda: hd.load(digits_path, dims={"batch": 1})(x), LOADS) < 3 << 20


def test_declarations_and_builds_leave_no_memory_behind():
    a = numpy.ones((8, 8), numpy.float32)
    assert grown_by(lambda: product(8)(a, a), LOADS) < 3 << 20


def test_errors_leave_no_memory_behind():
    kernel, wrong = product(8), numpy.ones((8, 9), numpy.float32)

    def call():
        with pytest.raises(hd.Error):
            kernel(wrong, wrong)

    assert grown_by(call, CALLS // 10) < 1 << 20


def test_threads_call_at_once():
    kernel = product(96)
    arrays = [numpy.random.default_rng(i).random((96, 96), numpy.float32) for i in range(8)]
    expected = [a @ a for a in arrays]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            for found, wanted in zip(pool.map(lambda a: kernel(a, a), arrays), expected):
                numpy.testing.assert_allclose(found, wanted, rtol=1e-4)


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


BEGIN = """
import os, sys, threading
import numpy, heddle as hd
a, b = hd.placeholder((256, 256), name="a"), hd.placeholder((256, 256), name="b")
c = hd.ops.matmul(a, b)
kernel = hd.build(hd.create_schedule(c), [a, b, c])
x = numpy.ones((256, 256), numpy.float32)
assert kernel(x, x)[0, 0] == 256
"""


@pytest.mark.parametrize("program", [
    "pid = os.fork()\nassert kernel(x, x)[0, 0] == 256\nif pid == 0: os._exit(0)\nassert os.waitpid(pid, 0)[1] == 0",
    "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool: assert pool.map(kernel_of, [1, 2]) == [256, 256]",
    "threading.Thread(target=lambda: [kernel(x, x) for _ in range(10000)], daemon=True).start()",
    "sys.modules['keeps'] = kernel, kernel(x, x), hd.NDArray(x)",
    "import atexit\natexit.register(lambda: kernel(x, x))",
    "def bad(i): raise ValueError('in a body')\ntry: hd.compute((4,), bad)\nexcept ValueError: pass",
], ids=["fork", "pool", "daemon", "kept", "atexit", "error"])
def test_a_process_ends_cleanly(program):
    done = run(BEGIN + "def kernel_of(_): return int(kernel(x, x)[0, 0])\n" + program)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_next_process_finds_what_was_compiled(tmp_path, digits_path):
    program = f"""
import os
os.environ.update(HEDDLE_CACHE={str(tmp_path)!r}, HEDDLE_TOPHUB="off", HEDDLE_LOG_FILE="")
import heddle as hd
kernel = hd.load({str(digits_path)!r}, dims={{"batch": 1}}).kernel
print(kernel.kernels, kernel.kernels_from_disk)
"""
    (all_first, first), (all_next, found) = (map(int, run(program).stdout.split()) for _ in range(2))
    assert first == 0 and found == all_next == all_first > 0
