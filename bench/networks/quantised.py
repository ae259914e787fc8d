#!/usr/bin/env python3
"""Quantised networks by Heddle and by ONNX Runtime: answers, and times in turns in one process.

    quantised.py FOLDER [--heddle build/bin/heddle] [--only mobilenet] [--threads 2] [--seconds 10]

FOLDER has NAME.onnx and NAME.npz, the samples, of each network, whose first dimensions are fixed. Each is quantised by
`heddle quantize` and by ONNX Runtime's quantize_static (QDQ, u8 with weights of i8 for each channel, minmax), and both
files are run by both. Answers are compared with those of f32 on the samples, and Heddle's with ONNX Runtime's on the
same file: the largest difference relative to the largest answer, and where the answers are dequantised bytes, in
steps of their scale. Times are medians over rounds. Needs requirements.txt and onnxruntime's quantization (onnx).
"""
import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime.quantization as q
from onnxruntime.quantization.shape_inference import quant_pre_process

import exported
from check_models import onnx_runtime
from race import race


class Reader(q.CalibrationDataReader):
    def __init__(self, calls):
        self._calls = iter(calls)

    def get_next(self):
        return next(self._calls, None)


def calls_of(path, samples):
    """The inputs of each call: as many samples as the file's first dimension."""
    inputs = onnx.load(path, load_external_data=False).graph.input
    rows = {i.name: i.type.tensor_type.shape.dim[0].dim_value for i in inputs}
    count = min(len(a) // rows[name] for name, a in samples.items())
    return [{name: a[i * rows[name]:(i + 1) * rows[name]] for name, a in samples.items()} for i in range(count)]


def quantise(path, samples, calls, folder, options):
    """By tool: the file."""
    ours, theirs, plain = folder / "ours.onnx", folder / "theirs.onnx", folder / "plain.onnx"
    subprocess.run([options.heddle, "quantize", path, "--data", samples, "-o", ours], check=True,
                   stdout=subprocess.DEVNULL)
    quant_pre_process(str(path), str(plain), skip_symbolic_shape=True)
    q.quantize_static(str(plain), str(theirs), Reader(calls), quant_format=q.QuantFormat.QDQ, per_channel=True,
                      activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)
    return {"ours": ours, "theirs": theirs}


def step_of_answers(path):
    """The scale of the answers where they are dequantised bytes, else None."""
    graph = onnx.load(path).graph
    arrays = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and graph.output[0].name in node.output:
            return float(arrays[node.input[1]])
    return None


def runners(path, options):
    library = exported.export(options.heddle, path, options.threads)
    library.set_threads(options.threads)
    session = onnx_runtime(path, options.threads)
    return {"heddle": lambda feed: library.run(feed)[0].copy(), "ort": lambda feed: session.run(None, feed)[0]}


def noise_db(answers, reference):
    noise = sum(float(np.square(a.astype(np.float64) - r).sum()) for a, r in zip(answers, reference))
    signal = sum(float(np.square(r.astype(np.float64)).sum()) for r in reference)
    return 10 * np.log10(signal / max(noise, 1e-300))


def show_answers(name, runs, calls, files):
    reference = [runs["f32 ort"](feed) for feed in calls]
    largest = max(np.abs(r).max() for r in reference)
    for tool, path in files.items():
        mine = [runs[f"{tool} heddle"](feed) for feed in calls]
        other = [runs[f"{tool} ort"](feed) for feed in calls]
        apart = max(np.abs(a - b).max() for a, b in zip(mine, other))
        step = step_of_answers(path)
        steps = f" = {apart / step:.2f} steps of the last scale" if step else ""
        print(f"{name}: {tool}: {noise_db(mine, reference):.1f} dB by Heddle, {noise_db(other, reference):.1f} by ONNX "
              f"Runtime; apart {apart / largest:.2e}{steps}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    for samples in sorted(options.folder.glob("*.npz")):
        path = samples.with_suffix(".onnx")
        if options.only not in path.stem:
            continue
        calls = calls_of(path, dict(np.load(samples)))
        with tempfile.TemporaryDirectory() as folder:
            files = quantise(path, samples, calls, pathlib.Path(folder), options)
            runs = {f"{kind} {by}": call for kind, file in {"f32": path, **files}.items()
                    for by, call in runners(file, options).items()}
            show_answers(path.stem, runs, calls, files)
            times = race({run: lambda call=call: call(calls[0]) for run, call in runs.items()}, options.seconds)
        print(f"{path.stem}: " + ", ".join(f"{run} {t * 1e3:.2f} ms" for run, t in times.items()), flush=True)


if __name__ == "__main__":
    main()
