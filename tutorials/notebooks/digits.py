"""The data of the lessons about digits: tutorials/data/README.md has the layout of its files."""

import json
import pathlib

import numpy as np

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


def read_tensors(name):
    """The tensors of a file of tutorials/data, by name."""
    data = (DATA / name).read_bytes()
    magic, head = data.split(b"\n", 2)[:2]
    if magic != b"HDDL1":
        raise ValueError(f"'{name}' is no file of tensors")
    begin = -(-(len(magic) + len(head) + 2) // 64) * 64
    tensors = {}
    for t in json.loads(head)["tensors"]:
        part = data[begin + t["offset"]:begin + t["offset"] + t["bytes"]]
        tensors[t["name"]] = np.frombuffer(part, {"f32": "<f4", "i32": "<i4", "u8": "u1"}[t["dtype"]]).reshape(t["shape"])
    return tensors
