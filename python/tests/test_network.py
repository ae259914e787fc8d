"""Networks: ONNX models, plans, exports, threads, and libraries of arrays."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import heddle as hd


@pytest.fixture
def image():
    return np.random.default_rng(2).random((1, 1, 8, 8), np.float32)


def test_numpy_in_numpy_out(digits, image):
    logits = digits(image)
    assert isinstance(logits, np.ndarray) and logits.shape == (1, 10) and logits.flags.writeable
    named = digits(**{digits.input_names[0]: image})
    np.testing.assert_array_equal(logits, named)
    given = np.zeros_like(logits)
    assert digits(image, out=given) is None
    np.testing.assert_array_equal(logits, given)
    with pytest.raises(hd.Error, match="none"):
        digits(none=image)


def test_torch_in_torch_out(digits, image):
    torch = pytest.importorskip("torch")
    logits = digits(torch.from_numpy(image))
    assert isinstance(logits, torch.Tensor)
    np.testing.assert_array_equal(logits.numpy(), digits(image))
    weights = torch.nn.Parameter(torch.from_numpy(image))
    np.testing.assert_array_equal(digits(weights).numpy(), digits(image))


def test_arrays_are_not_copied(image):
    array = hd.NDArray(image)
    image[0, 0, 0, 0] = 7
    assert array.numpy()[0, 0, 0, 0] == 7 and np.shares_memory(array.numpy(), image)
    assert np.from_dlpack(array).base is not None


def test_threads_at_once(digits):
    images = np.random.default_rng(3).random((16, 1, 1, 8, 8), np.float32)
    expected = [digits(i) for i in images]
    found = [None] * len(images)

    def call(n):
        for _ in range(20):
            found[n] = digits(images[n])

    threads = [threading.Thread(target=call, args=(n,)) for n in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(found, expected)


def test_a_range_of_sizes(digits, digits_path):
    net = hd.load(digits_path, dims={"batch": (1, 16)})
    images = np.random.default_rng(4).random((16, 1, 8, 8), np.float32)
    expected = np.concatenate([digits(i[None]) for i in images])
    for n in (1, 3, 16):
        np.testing.assert_allclose(net(images[:n]), expected[:n], rtol=1e-4, atol=1e-5)
    with pytest.raises(hd.Error):
        net(np.zeros((17, 1, 8, 8), np.float32))


def test_export_and_open(digits, image, tmp_path):
    files = digits.export(tmp_path, "digits")
    with hd.open(files.library) as library:
        np.testing.assert_allclose(library(image), digits(image), rtol=1e-5)
        assert library.inputs[0].shape == (1, 1, 8, 8)
        with pytest.raises(hd.Error, match="expected"):
            library(image.astype(np.float64))
    with pytest.raises(hd.Error, match="closed"):
        library(image)


def test_export_of_a_range(digits_path, tmp_path):
    net = hd.load(digits_path, dims={"batch": (1, 4)})
    library = hd.open(net.export(tmp_path).library)
    assert library.sizes == {"batch": (1, 4, 1)}
    images, logits = np.random.default_rng(5).random((3, 1, 8, 8), np.float32), np.empty((3, 10), np.float32)
    library(images, out=logits, batch=3)
    np.testing.assert_allclose(logits, net(images), rtol=1e-4, atol=1e-5)


def test_profile_and_explain(digits, image):
    profile = digits.profile(image, seconds=0.05)
    assert profile.rows and "<table>" in profile._repr_html_() and "share" in str(profile)
    assert "nodes" in repr(digits)
    assert "schedule:" in digits.explain(0) and "define" in digits.explain(0, show="llvm")
    with pytest.raises(hd.Error, match="no node"):
        digits.explain(99)


def test_a_network_of_the_language():
    x = hd.placeholder((2, 8), name="x")
    w = np.random.default_rng(6).standard_normal((8, 4)).astype(np.float32)
    hidden = hd.ops.relu(hd.ops.matmul(x, hd.constant(w)))
    net = hd.Network([hd.ops.softmax(hidden), hidden], [x])
    a = np.random.default_rng(7).standard_normal((2, 8)).astype(np.float32)
    soft, kept = net(a)
    np.testing.assert_allclose(kept, np.maximum(a @ w, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(soft.sum(1), [1, 1], rtol=1e-5)
    w *= 2
    net.refresh()
    np.testing.assert_allclose(net(a)[1], np.maximum(a @ w, 0), rtol=1e-5, atol=1e-6)


def test_missing_files_and_dimensions(digits_path, tmp_path):
    with pytest.raises(hd.Error) as caught:
        hd.load(tmp_path / "none.onnx")
    assert "none.onnx" in str(caught.value)
    with pytest.raises(hd.Error):
        hd.load(digits_path, dims={"bach": 1})
    with pytest.raises(hd.Error):
        hd.open(tmp_path / "libnone.so")


def test_the_command_line():
    asked = subprocess.run([sys.executable, "-m", "heddle", "--version"], capture_output=True, text=True)
    assert asked.returncode == 0 and asked.stdout.strip() == f"heddle {hd.__version__}"


def test_memory_stays_flat(digits, digits_path, image):
    resource = pytest.importorskip("resource")
    used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def calls_and_loads():
        for _ in range(5000):
            digits(image)
        for _ in range(5):
            hd.load(digits_path, dims={"batch": 1})(image)

    calls_and_loads()
    before = used()
    for _ in range(3):
        calls_and_loads()
    assert used() - before < 16 * 1024  # KiB


def test_a_fork_can_call(digits_path):
    code = f"""
import os, numpy as np, heddle as hd
net = hd.load({str(digits_path)!r}, dims={{"batch": 1}})
x = np.ones((1, 1, 8, 8), np.float32)
y = net(x)
pid = os.fork()
if pid == 0:
    os._exit(0 if np.array_equal(net(x), y) else 1)
assert os.waitpid(pid, 0)[1] == 0
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
