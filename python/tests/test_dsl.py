"""The compute language in Python: declarations, schedules by hand, families, and what errors say."""

import json

import numpy as np
import pytest

import heddle as hd


def product(m, k, n, dtype="f32"):
    A, B = hd.placeholder((m, k), dtype, "A"), hd.placeholder((k, n), dtype, "B")
    r = hd.reduce_axis(k)
    return A, B, hd.compute((m, n), lambda i, j: hd.sum(A[i, r] * B[r, j], r), "C")


def run(outputs, *pairs):
    """The outputs of a declaration for pairs of a placeholder and an array."""
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    kernel = hd.build(hd.create_schedule(outputs), [p for p, _ in pairs] + list(outputs))
    return kernel(*(a for _, a in pairs))


def random(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_product():
    A, B, C = product(33, 17, 20)
    f = hd.build(hd.create_schedule(C), [A, B, C])
    a, b = random(33, 17), random(17, 20)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5, atol=1e-5)
    c = np.zeros((33, 20), np.float32)
    assert f(a, b, c) is None
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


def test_padding_by_select_and_tensor_operators():
    x = hd.placeholder((8,), name="x")
    left = hd.compute((8,), lambda i: hd.select((i >= 1) & (i < 8), x[hd.max(i - 1, 0)], 0.0), "left")
    a = random(8)
    expected = np.concatenate([[0], a[:-1]]).astype(np.float32)
    np.testing.assert_array_equal(run(left, (x, a)), expected)
    np.testing.assert_allclose(run(2.0 * x + x * x - 1, (x, a)), 2 * a + a * a - 1, rtol=1e-6)


def test_several_outputs_by_a_reducer():
    x = hd.placeholder((5, 9), name="x")
    k = hd.reduce_axis(9)
    argmax = hd.reducer("argmax", ["i64", "f32"], [-1, -float("inf")], lambda a, b: [
        hd.select(b[1] > a[1], b[0], a[0]), hd.max(a[1], b[1])])
    where, what = hd.compute_all((5,), lambda i: argmax([k, x[i, k]], k), "top")
    a = random(5, 9)
    positions, values = run([where, what], (x, a))
    np.testing.assert_array_equal(positions, a.argmax(1))
    np.testing.assert_array_equal(values, a.max(1))


def test_constants_are_supplied_by_the_kernel():
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    x, weights = hd.placeholder((4, 2)), hd.constant(w, "w")
    assert np.shares_memory(weights.values.numpy(), w)
    y = hd.ops.matmul(x, weights)
    a = random(4, 2)
    np.testing.assert_allclose(run(y, (x, a)), a @ w, rtol=1e-5)


def test_a_schedule_by_hand_computes_the_same():
    A, B, C = product(64, 32, 48)
    s = hd.Schedule(C)
    stage = s[C]
    i, j = stage.axes
    io, ii = stage.split(i, 8)
    jo, ji = stage.split(j, 16)
    stage.reorder([io, jo, stage.reduce_axis(0), ii, ji]).vectorize(ji).unroll(ii).parallel(io)
    assert "split" in str(s)
    again = hd.Schedule.from_json(s.to_json(), C)
    assert str(again) == str(s)
    a, b = random(64, 32), random(32, 48)
    np.testing.assert_allclose(hd.build(s, [A, B, C])(a, b), a @ b, rtol=1e-5, atol=1e-5)


def test_dimensions_are_sizes_of_calls():
    n = hd.dim("n", 1, 100)
    x, w = hd.placeholder((n, 16), name="x"), hd.placeholder((16, 8), name="w")
    k = hd.reduce_axis(16)
    xw = hd.compute((n, 8), lambda i, j: hd.sum(x[i, k] * w[k, j], k))
    y = hd.compute((n, 8), lambda i, j: hd.max(xw[i, j], 0.0))
    assert x.shape[1] == 16 and str(x.shape[0]) == "n"
    family = hd.generic_family([x, w, y])
    b = random(16, 8)
    for rows in (1, 7, 100):
        a = random(rows, 16)
        np.testing.assert_allclose(family(a, b), np.maximum(a @ b, 0), rtol=1e-5, atol=1e-5)
    with pytest.raises(hd.Error, match="101"):
        family(random(101, 16), b)


@pytest.mark.parametrize("dtype", ["f64", "f16", "i32", "u8", np.float64, np.dtype("int64")])
def test_types(dtype):
    x = hd.placeholder((3, 4), dtype)
    y = hd.ops.add(x, x)
    array = hd.NDArray.random((3, 4), x.dtype, 3).numpy()
    np.testing.assert_array_equal(run(y, (x, array)), array + array)


def test_small_floats_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.arange(8).astype(ml_dtypes.bfloat16)
    x = hd.placeholder((8,), a.dtype)
    y = run(hd.ops.add(x, 1.0), (x, a))
    assert y.dtype == a.dtype and list(y.astype(np.float32)) == list(range(1, 9))


def test_errors_name_the_line_of_the_user():
    x = hd.placeholder((4,), name="x")
    with pytest.raises(hd.Error) as caught:
        hd.compute((5,), lambda i: x[i])
    assert caught.value.file == __file__ and caught.value.line > 0
    assert caught.value.kind == "user" and "x" in caught.value.message
    with pytest.raises(hd.Error, match="select"):
        hd.compute((4,), lambda i: x[i] if i < 2 else 0.0)
    with pytest.raises(hd.Error, match="returns"):
        hd.compute((4,), lambda i: "text")
    with pytest.raises(ZeroDivisionError):
        hd.compute((4,), lambda i: 1 // 0)
    with pytest.raises(hd.Error, match="NCHW"):
        hd.ops.conv2d(hd.placeholder((1, 3, 8, 8)), hd.placeholder((4, 3, 3, 3)), layout="CHWN")


def test_errors_of_calls():
    A, B, C = product(4, 4, 4)
    f = hd.build(hd.create_schedule(C), [A, B, C])
    a = random(4, 4)
    with pytest.raises(hd.Error, match="1 arrays") as caught:
        f(a)
    assert "A: f32[4, 4]" in caught.value.help
    with pytest.raises(hd.Error) as caught:
        f(a, random(3, 4))
    assert caught.value.kind == "runtime" and "B" in caught.value.message
    with pytest.raises(hd.Error, match="str"):
        f(a, "b")
    with pytest.raises(hd.Error, match="row-major"):
        f(a, a.copy(), np.zeros((4, 8), np.float32)[:, ::2])
    read_only = np.zeros((4, 4), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(hd.Error, match="written"):
        f(a, a.copy(), read_only)
    np.testing.assert_allclose(f(a.T, read_only), 0)  # inputs may be of any strides, and read-only


def test_options_and_targets():
    A, B, C = product(64, 64, 64)
    assert hd.create_schedule(C, target="llvm -mcpu=skylake-avx512 -threads=2").target.cores == 2
    with pytest.raises(hd.Error, match="treads"):
        hd.create_schedule(C, treads=2)
    with pytest.raises(hd.Error):
        hd.Target("llvm -mcpu=none-such")
    kernel = hd.build(hd.create_schedule(C, threads=1), [A, B, C])
    assert "define" in kernel.source("llvm")


def test_families_and_variants():
    n = hd.dim("n", 1, 64)
    x, k = hd.placeholder((n, 8), name="x"), hd.reduce_axis(8)
    y = hd.compute((n,), lambda i: hd.sum(x[i, k], k), "y")
    chosen = hd.choose_family([n], [x, y], max_kernels=2, race_seconds=0.1)
    a = random(5, 8)
    np.testing.assert_allclose(chosen.kernel(a), a.sum(1), rtol=1e-5, atol=1e-5)
    assert len(chosen.kernel.variants) <= 2 and "n" in str(chosen)
    A, B, C = product(16, 16, 16)
    both = hd.build_multi([("static", hd.create_schedule(C)), ("naive", hd.naive_schedule(C))], [A, B, C])
    a, b = random(16, 16), random(16, 16)
    for name in both.variants:
        both.force(name)
        np.testing.assert_allclose(both(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_debug_modes_and_profiles():
    x = hd.placeholder((64,), name="x")
    y = hd.ops.sqrt(x)
    kernel = hd.build(hd.create_schedule(y), [x, y], check_finite=True)
    with pytest.raises(hd.Error, match="NaN"):
        kernel(-np.ones(64, np.float32))
    assert hd.profile(kernel, np.ones(64, np.float32), seconds=0.02).call_s > 0


def test_a_layout_leaves_the_result():
    A, B = hd.placeholder((8, 32), name="A"), hd.placeholder((32, 48), name="B")
    k = hd.reduce_axis(32, "k")
    C = hd.compute((8, 48), lambda i, j: hd.sum(A[i, k] * B[k, j], k), "C")
    s = hd.Schedule(C)
    s[B].cache_read([s[C]]).layout([(1, 16), (0,), (1, 1, 16)])
    a, b = np.random.rand(8, 32).astype("f4"), np.random.rand(32, 48).astype("f4")
    np.testing.assert_allclose(hd.build(s, [A, B, C])(a, b), a @ b, rtol=1e-5)
    with pytest.raises(hd.Error, match="a dimension of a layout is"):
        s[C].layout([(0, 1, 2, 3)])


def test_knobs_have_values_and_reasons():
    A, B = hd.placeholder((64, 64), name="A"), hd.placeholder((64, 64), name="B")
    k = hd.reduce_axis(64, "k")
    C = hd.compute((64, 64), lambda i, j: hd.sum(A[i, k] * B[k, j], k), "C")
    template = hd.make_template(C, "llvm -mcpu=skylake-avx512 -threads=2")
    assert template.space_size > 1 and template.knobs
    for knob in template.knobs:
        assert knob.value in knob.values and knob.reason
        assert f"{knob.name} = {knob.value}" in str(template)


def test_a_family_says_what_it_runs():
    n = hd.dim("n", 1, 64)
    A = hd.placeholder((n, 16), name="A")
    D = hd.compute((n, 16), lambda i, j: hd.exp(A[i, j]), "D")
    family = hd.choose_family([n], [A, D], max_kernels=2, race_seconds=0.1)
    assert family.kernel.picked(np.zeros((5, 16), "f4")) in family.kernel.variants


@pytest.mark.parametrize("target", ["llvm -mcpu=skylake-avx512 -threads=2", "cuda -gpu=h200"])
def test_the_loops_of_a_schedule_are_data(target):
    A = hd.placeholder((300, 64), name="A")
    D = hd.ops.softmax(A)

    def loops(nodes):
        return [n for node in nodes for n in [node, *loops(node.get("inside", []))]]

    found = loops(json.loads(hd._heddle._nest_of(hd.create_schedule(D, target))))
    kinds = {node["loop"] for node in found if "loop" in node}
    assert ("blockIdx.x" if "cuda" in target else "vectorized") in kinds
    assert any(node.get("store") == D.name for node in found)
