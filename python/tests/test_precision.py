"""Types of products by a bound of the error."""

import numpy as np
import pytest

import heddle as hd


def test_outputs_are_within_the_tolerance(digits_path, tmp_path):
    rng = np.random.default_rng(1)
    data = {"images": rng.random((64, 1, 8, 8), np.float32)}
    exact = hd.load(digits_path, dims={"batch": 16})
    net = hd.load(digits_path, dims={"batch": 16}, tolerance=0.05, data=data)
    assert net.precision["tolerance"] == 0.05 and not net.precision["drawn"] and net.precision["calls"] == 4
    assert net.precision["error"] <= 0.05
    assert "on the data" in str(net.precision)
    images = rng.random((16, 1, 8, 8), np.float32)
    want = exact(images)
    assert np.abs(net(images) - want).max() <= 0.06 * np.abs(want).max()
    assert hd.load(digits_path, dims={"batch": 16}).precision is None


def test_what_does_not_fit_is_an_error(digits_path):
    for tolerance in (-1, float("nan")):
        with pytest.raises(hd.Error, match="tolerance"):
            hd.load(digits_path, dims={"batch": 2}, tolerance=tolerance)
    with pytest.raises(hd.Error, match="tolerance"):
        hd.load(digits_path, dims={"batch": 2}, data={"images": np.zeros((4, 1, 8, 8), np.float32)})
    with pytest.raises(hd.Error, match="no input 'x'"):
        hd.load(digits_path, dims={"batch": 2}, tolerance=0.1, data={"x": np.zeros((4, 1, 8, 8), np.float32)})


def test_over_a_range_outputs_are_within_the_tolerance(digits_path):
    rng = np.random.default_rng(2)
    data = {"images": rng.random((8, 1, 8, 8), np.float32)}
    exact = hd.load(digits_path, dims={"batch": (1, 16)})
    net = hd.load(digits_path, dims={"batch": (1, 16)}, tolerance=0.05, data=data)
    assert net.precision["calls"] == 8 and net.precision["error"] <= 0.05
    for batch in (1, 3, 16):
        images = rng.random((batch, 1, 8, 8), np.float32)
        want = exact(images)
        assert np.abs(net(images) - want).max() <= 0.06 * np.abs(want).max()
