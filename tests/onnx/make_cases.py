#!/usr/bin/env python3
"""Writes ONNX's own node tests as one file for onnx_cases and onnx_test. Tests of random numbers are left out.

Each case is a model whose initialisers also hold the test's arrays, as "test:input:NAME" and
"test:output:NAME"; the file is a row of such models, each after its length (4 bytes, little-endian).

    make_cases.py all.bin                  every case whose values consist of tensors of numbers
    make_cases.py --small small.bin        a few small ones of each operator
    onnx_cases small.bin --keep data/cases.bin   of these, the ones that pass
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
LARGEST_CASE = 6000  # bytes, of operators that have no small case


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


RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def add_tensor(model, infos, kind, name, value):
    """Adds a test's tensor and its declaration; False where it is no tensor of numbers."""
    tensor = as_tensor(value, f"test:{kind}:{name}")
    if tensor is None:
        return False
    model.graph.initializer.append(tensor)
    # Shapes are those of the arrays: some cases leave dimensions open.
    infos.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))
    return True


def pack(case):
    """The case as a model, or None. Sequences and optionals become tensors: nodes make and take apart
    those that are inputs and outputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.graph.name = case.name
    model.ClearField("doc_string")
    if RANDOM & {node.op_type for node in model.graph.node}:
        return None
    nodes = list(model.graph.node)
    for field in ("input", "output", "node"):
        model.graph.ClearField(field)
    before, after = [], []
    inputs, outputs = case.data_sets[0]
    for info, value in zip(case.model.graph.input, inputs):
        if value is None:
            before.append(onnx.helper.make_node("Optional", [], [info.name]))
        elif isinstance(value, list):
            names = [f"{info.name}:{i}" for i in range(len(value))]
            if not all(add_tensor(model, model.graph.input, "input", n, v) for n, v in zip(names, value)):
                return None
            kind = "SequenceConstruct" if value else "SequenceEmpty"
            before.append(onnx.helper.make_node(kind, names, [info.name]))
        elif not add_tensor(model, model.graph.input, "input", info.name, value):
            return None
    for info, value in zip(case.model.graph.output, outputs):
        if isinstance(value, list):
            for i, element in enumerate(value):
                name, at = f"{info.name}:{i}", f"{info.name}:at:{i}"
                after += [onnx.helper.make_node("Constant", [], [at], value_int=i),
                          onnx.helper.make_node("SequenceAt", [info.name, at], [name])]
                if not add_tensor(model, model.graph.output, "output", name, element):
                    return None
            name = f"{info.name}:length"
            after.append(onnx.helper.make_node("SequenceLength", [info.name], [name]))
            add_tensor(model, model.graph.output, "output", name, np.asarray(len(value), np.int64))
        elif not add_tensor(model, model.graph.output, "output", info.name, value):
            return None
    model.graph.node.extend(before + nodes + after)
    return model.SerializeToString()


def write_case(out, data):
    out.write(struct.pack("<I", len(data)) + data)


def few(packed):
    """Small cases of each operator; of those that have none, the smallest."""
    counts = collections.Counter()
    kept, smallest = [], {}
    for operators, data in packed:
        expanded = len(operators) > 1
        key = "expanded" if expanded else operators[0]
        if len(data) <= SMALL_CASE and counts[key] < (40 if expanded else CASES_PER_OPERATOR):
            counts[key] += 1
            kept.append((operators, data))
        elif not expanded and len(data) < len(smallest.get(key, ([], bytes(LARGEST_CASE)))[1]):
            smallest[key] = (operators, data)
    return kept + [case for key, case in smallest.items() if counts[key] == 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--small", action="store_true", help="a few small cases an operator")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    packed = []  # pairs of the operators of a case and its model
    for case in sorted(collect_testcases(None), key=lambda c: c.name):
        data = pack(case)
        if data is not None:
            packed.append(([node.op_type for node in case.model.graph.node], data))
    if options.small:
        packed = few(packed)
    with open(options.output, "wb") as out:
        for _, data in packed:
            write_case(out, data)
    print(f"{len(packed)} cases in {options.output}")


if __name__ == "__main__":
    main()
