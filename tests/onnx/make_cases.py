#!/usr/bin/env python3
"""Writes ONNX's own node tests as one file for onnx_cases and onnx_test.

Each case is a model whose initialisers also hold the test's arrays, as "test:input:NAME" and
"test:output:NAME"; the file is a row of such models, each after its length (4 bytes, little-endian).

    make_cases.py all.bin                  every case whose values are tensors of numbers
    make_cases.py --small data/cases.bin   a few small ones of each supported operator
"""
import argparse
import collections
import struct
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

SMALL_CASE = 1400  # bytes
CASES_PER_OPERATOR = 4


def as_tensor(value, name):
    """A TensorProto, or None for sequences, optionals and types without a number."""
    if isinstance(value, onnx.TensorProto):
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value)
        tensor.name = name
        return tensor
    if isinstance(value, (int, float, bool)):
        value = np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "fiubV":
        return None
    try:
        return numpy_helper.from_array(np.asarray(value), name)
    except (ValueError, TypeError, KeyError):
        return None


def pack(case):
    """The case as a model, or None."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.graph.name = case.name
    model.ClearField("doc_string")
    inputs, outputs = case.data_sets[0]
    for kind, values, infos in (("input", inputs, model.graph.input),
                                ("output", outputs, model.graph.output)):
        for info, value in zip(infos, values):
            tensor = as_tensor(value, f"test:{kind}:{info.name}")
            if tensor is None or not info.type.HasField("tensor_type"):
                return None
            # Shapes are those of the arrays: some cases leave dimensions open.
            shape = info.type.tensor_type.shape
            shape.ClearField("dim")
            for extent in tensor.dims:
                shape.dim.add().dim_value = extent
            model.graph.initializer.append(tensor)
    return model.SerializeToString()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--small", action="store_true", help="a few small cases an operator")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts = collections.Counter()
    written = 0
    with open(options.output, "wb") as out:
        for case in sorted(collect_testcases(None), key=lambda c: c.name):
            data = pack(case)
            if data is None:
                continue
            operators = {node.op_type for node in case.model.graph.node}
            if options.small:
                expanded = len(case.model.graph.node) > 1
                key = "expanded" if expanded else min(operators)
                limit = 40 if expanded else CASES_PER_OPERATOR
                if len(data) > SMALL_CASE or counts[key] >= limit:
                    continue
                counts[key] += 1
            out.write(struct.pack("<I", len(data)) + data)
            written += 1
    print(f"{written} cases in {options.output}")


if __name__ == "__main__":
    main()
