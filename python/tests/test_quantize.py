"""heddle.quantize: a model in, a model of integers out."""
import pathlib

import numpy as np
import pytest

import heddle as hd

DIGITS = pathlib.Path(__file__).parents[2] / "tutorials" / "data" / "digits.onnx"


def images(count):
    return np.random.default_rng(1).random((count, 1, 8, 8), np.float32)


def test_a_quantised_model_answers_alike(tmp_path):
    report = hd.quantize(DIGITS, {"images": images(20)}, tmp_path / "int8.onnx", method="percentile", percentile=99.9)
    assert report["samples"] == 20 and "logits" in str(report)
    x = images(4)
    real, bytes_ = (hd.load(p, dims={"batch": 4})(x) for p in (DIGITS, tmp_path / "int8.onnx"))
    assert 0 < np.abs(real - bytes_).max() < 0.1 * np.abs(real).max()


def test_what_does_not_fit_is_an_error(tmp_path):
    with pytest.raises(hd.Error, match="no samples of input 'images'"):
        hd.quantize(DIGITS, {}, tmp_path / "int8.onnx")
    with pytest.raises(hd.Error, match="minmax, percentile or entropy"):
        hd.quantize(DIGITS, {"images": images(2)}, tmp_path / "int8.onnx", method="best")
    with pytest.raises(hd.Error, match="are f64"):
        hd.quantize(DIGITS, {"images": images(2).astype(np.float64)}, tmp_path / "int8.onnx")
