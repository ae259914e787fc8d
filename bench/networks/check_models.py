#!/usr/bin/env python3
"""Compares Heddle's answers with ONNX Runtime's, for every model of a folder.

    check_models.py FOLDER [--heddle build/bin/heddle] [--only resnet50,bert] [--threads 2]

Prints a line a model: the largest difference relative to the largest output, and how long Heddle
took. Exit status 1 where a difference is above 1e-3, or a model fails.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

TOLERANCE = 1e-3


def make_inputs(session, folder):
    """Random numbers, token ids below 1000, masks of ones; each also as a file."""
    rng = np.random.default_rng(1)
    feed = {}
    for i, info in enumerate(session.get_inputs()):
        if "float" in info.type:
            value = rng.standard_normal(info.shape).astype(np.float32)
        elif i > 0:
            value = np.ones(info.shape, np.int64)
        else:
            value = rng.integers(0, 1000, info.shape)
        feed[info.name] = value
        np.save(folder / f"{info.name}.npy", value)
    return feed


def check(path, options):
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.log_severity_level = 3
    session = ort.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        feed = make_inputs(session, folder)
        names = [info.name for info in session.get_outputs()]
        wanted = session.run(names, feed)
        del session
        command = [options.heddle, "run", str(path), "--threads", str(options.threads), "--time",
                   str(options.time)]
        for key in feed:
            command += ["--input", f"{key}={folder / key}.npy"]
        for i, key in enumerate(names):
            command += ["--output", f"{key}={folder}/out{i}.npy"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
        if done.returncode != 0:
            return None, done.stderr.strip()
        worst = 0.0
        for i, want in enumerate(wanted):
            got = np.load(folder / f"out{i}.npy")
            if got.shape != want.shape or got.dtype != want.dtype:
                return None, f"output {i} is {got.dtype} {got.shape}"
            largest = max(np.abs(want).max(), 1e-30)
            worst = max(worst, float(np.abs(got.astype(np.float64) - want).max() / largest))
    times = " ".join(line for line in done.stdout.splitlines()
                     if re.match(r"(import|a call) ", line))
    return worst, times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--only", default="", help="networks, with commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--time", type=float, default=0, help="seconds of timing")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else None
    bad = 0
    for path in sorted(options.folder.glob("*.onnx")):
        if chosen and path.name.split(".")[0] not in chosen:
            continue
        difference, text = check(path, options)
        right = difference is not None and difference <= TOLERANCE
        bad += not right
        figure = "failed  " if difference is None else f"{difference:.1e}"
        print(f"{path.stem:32} {figure} {'' if right else 'WRONG '} {text}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
