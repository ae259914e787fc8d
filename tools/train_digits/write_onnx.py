#!/usr/bin/env python3
"""Writes the network of digits_weights.bin as an ONNX file that has the weights as external data.

    write_onnx.py tutorials/data        writes digits.onnx there; needs PyPI's onnx
"""
import json
import pathlib
import sys

from onnx import TensorProto, checker, helper


def initializers(weights):
    """The tensors of a file of the tutorials, where they are in it."""
    content = weights.read_bytes()
    header_end = content.index(b"\n", 6) + 1
    header = json.loads(content[6:header_end])
    data = (header_end + 63) // 64 * 64
    for entry in header["tensors"]:
        tensor = TensorProto(name=entry["name"], dims=entry["shape"], data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", weights.name), ("offset", data + entry["offset"]),
                           ("length", entry["bytes"])):
            tensor.external_data.add(key=key, value=str(value))
        yield tensor


def main():
    folder = pathlib.Path(sys.argv[1])
    node = helper.make_node
    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", ["images", "conv1.weight", "conv1.bias"], ["conv1"], "conv1", **pads),
        node("Relu", ["conv1"], ["relu1"], "relu1"),
        node("Conv", ["relu1", "conv2.weight", "conv2.bias"], ["conv2"], "conv2", **pads),
        node("Relu", ["conv2"], ["relu2"], "relu2"),
        node("MaxPool", ["relu2"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["pool"], ["flat"], "flatten"),
        node("Gemm", ["flat", "fc1.weight", "fc1.bias"], ["fc1"], "fc1", transB=1),
        node("Relu", ["fc1"], ["relu3"], "relu3"),
        node("Gemm", ["relu3", "fc2.weight", "fc2.bias"], ["logits"], "fc2", transB=1),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
              for name, shape in (("images", ["batch", 1, 8, 8]), ("logits", ["batch", 10]))]
    graph = helper.make_graph(nodes, "digits", values[:1], values[1:],
                              list(initializers(folder / "digits_weights.bin")))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "digits.onnx"
    path.write_bytes(model.SerializeToString())
    checker.check_model(str(path))
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
