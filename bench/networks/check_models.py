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


def onnx_runtime(path, threads, entries=None):
    """A session with its default options, and `entries` of its configuration."""
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    for key, value in (entries or {}).items():
        settings.add_session_config_entry(key, value)
    return ort.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])


def make_inputs(session):
    """Random numbers, token ids below 1000, masks of ones."""
    rng = np.random.default_rng(1)
    feed = {}
    for i, info in enumerate(session.get_inputs()):
        if "float" in info.type:
            feed[info.name] = rng.standard_normal(info.shape).astype(np.float32)
        elif i > 0:
            feed[info.name] = np.ones(info.shape, np.int64)
        else:
            feed[info.name] = rng.integers(0, 1000, info.shape)
    return feed


def runtime_answers(path, feed, threads):
    """Name -> array, by ONNX Runtime."""
    session = onnx_runtime(path, threads)
    names = [info.name for info in session.get_outputs()]
    return dict(zip(names, session.run(names, feed)))


def relative_difference(got, want):
    """The largest difference, relative to the largest finite answer; infinities and NaNs must be at the same places."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    largest = max(np.abs(want[finite]).max(), 1e-30)
    return float(np.nan_to_num(np.abs(got - want)[finite].max(), nan=np.inf) / largest)


def compare(path, feed, wanted, heddle, threads, seconds=0, limit=1200, extra=()):
    """The largest difference of `heddle run` from wanted, or None, and what it printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [heddle, "run", str(path), "--threads", str(threads), "--time", str(seconds), *extra]
        for i, (key, value) in enumerate(feed.items()):
            np.save(folder / f"in{i}.npy", value)
            command += ["--input", f"{key}={folder}/in{i}.npy"]
        for i, key in enumerate(wanted):
            command += ["--output", f"{key}={folder}/out{i}.npy"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        if done.returncode != 0:
            return None, done.stderr.strip() or f"ended by signal {-done.returncode}"
        worst = 0.0
        for i, want in enumerate(wanted.values()):
            got = np.load(folder / f"out{i}.npy")
            if got.shape != want.shape or got.dtype != want.dtype:
                return None, f"output {i} is {got.dtype} {got.shape} and not {want.dtype} {want.shape}"
            if want.size:
                worst = max(worst, relative_difference(got, want))
    return worst, done.stdout


def check(path, options):
    feed = make_inputs(onnx_runtime(path, options.threads))
    wanted = runtime_answers(path, feed, options.threads)
    worst, text = compare(path, feed, wanted, options.heddle, options.threads, options.time)
    if worst is None:
        return None, text
    return worst, " ".join(line for line in text.splitlines() if re.match(r"(import|a call) ", line))


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
