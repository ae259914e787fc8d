"""Quantising ONNX models."""
import json
import os

from . import _heddle
from ._report import Report


class QuantizeReport(Report):
    """What was quantised and what it costs, as `heddle quantize --json` has it; print() shows the tables."""


def quantize(path, samples, output, method="minmax", percentile=99.99, per_channel=True, dtype="u8", keep=(), batch=16):
    """Writes a model of 8-bit integers to `output`, and returns a report.

        report = heddle.quantize("net.onnx", {"images": images}, "net_int8.onnx", keep=["fc"])

    samples      an array for each input of the model, by its name, whose first dimension is the number of samples
    method       how the range of a tensor follows from its values: "minmax", "percentile" or "entropy"
    percentile   per cent of the values within the range, for that method
    per_channel  a scale for each output channel of weights, in place of one for all
    dtype        of tensors between nodes: "u8", or "i8" with zero points of 0
    keep         nodes that stay in f32, by their names in the file
    batch        samples of one call, where the model leaves the first dimension of its inputs open
    """
    text, data = _heddle._quantize(os.fspath(path), dict(samples), os.fspath(output), method, percentile, per_channel, dtype,
                                   list(keep), batch)
    return QuantizeReport(text, json.loads(data))
