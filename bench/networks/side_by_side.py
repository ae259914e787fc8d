#!/usr/bin/env python3
"""Times networks by Heddle, ONNX Runtime and PyTorch, in turns in one process on the same arrays.

    side_by_side.py resnet50 mobilenet_v2 bert [--threads 1,2] [--batch 1] [--seconds 10]
                    [--heddle build/bin/heddle] [--no-compiled] [--json results.json]

The names are those of export_models.py, whose networks have random weights. Each network is
exported to ONNX once for each batch. Heddle's library (`heddle export`, the static choice or
records) and ONNX Runtime run that file; PyTorch runs the module itself, eager and by
torch.compile. A round lets each of them run, in an order that changes from round to round: after a
pause one call that is not timed, and one that is. The figures are medians over rounds, so that a
busy machine disturbs all alike. Answers are compared
first: exit status 1 where one differs from PyTorch's by more than 1e-3 of the largest output.
Needs requirements.txt.
"""
import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile
import time
import warnings

import numpy as np
import torch

import exported
from check_models import onnx_runtime
from export_models import export, networks, randomize
from result_text import show

TOLERANCE = 1e-3


def batched(inputs, batch):
    """Tensors whose first dimension is the batch."""
    return tuple(torch.cat([x] * batch) if x.shape[0] == 1 else x for x in inputs)


def to_list(outputs):
    if hasattr(outputs, "to_tuple"):
        outputs = outputs.to_tuple()
    if torch.is_tensor(outputs):
        outputs = (outputs,)
    return [x.detach().numpy() for x in outputs]


def contestants(module, inputs, path, threads, options):
    """Name -> (a call without arguments, its outputs as arrays)."""
    session = onnx_runtime(path, threads)
    names = [i.name for i in session.get_inputs()]
    feed = dict(zip(names, [x.numpy() for x in inputs]))
    ours = exported.export(options.heddle, path, threads)
    ours.set_threads(threads)
    calls = {
        "heddle": lambda: ours.run(feed),
        "onnxruntime": lambda: session.run(None, feed),
        "torch": lambda: to_list(module(*inputs)),
    }
    if options.compiled:
        compiled = torch.compile(module)
        calls["torch.compile"] = lambda: to_list(compiled(*inputs))
    return calls


def worst_difference(calls):
    """By contestant: the largest difference from PyTorch's answers, relative to the largest."""
    wanted = [x.copy() for x in calls["torch"]()]
    worst = {}
    for name, call in calls.items():
        got = call()
        worst[name] = max(float(np.abs(g - w).max() / max(np.abs(w).max(), 1e-30))
                          for g, w in zip(got, wanted))
    return worst


# Seconds in which the threads of the one that ran before stop waiting actively. On as many cores as
# threads they would take a core from the next one.
PAUSE = 0.1


def race(calls, seconds):
    """Seconds of a call: medians of rounds in which each runs twice, the second time timed."""
    times = {name: [] for name in calls}
    order = list(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[order[0]]) < 5:
        random.shuffle(order)
        for name in order:
            time.sleep(PAUSE)
            calls[name]()
            begin = time.perf_counter()
            calls[name]()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(t) for name, t in times.items()}


def measure(name, batch, threads, options):
    torch.manual_seed(1)
    torch.set_num_threads(threads)
    module, inputs = networks()[name]()
    randomize(module)
    module.eval()
    inputs = batched(inputs, batch)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{name}.onnx"
        export(module, inputs, path, "dynamo", False)
        calls = contestants(module, inputs, path, threads, options)
        differences = worst_difference(calls)
        times = race(calls, options.seconds)
    return {"network": name, "batch": batch, "threads": threads, "seconds": times,
            "differences": differences}


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--batch", type=numbers, default=[1])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--no-compiled", dest="compiled", action="store_false")
    parser.add_argument("--json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # one operator that no exporter knows
    unknown = set(options.networks) - set(networks())
    if unknown:
        parser.error(f"no networks {sorted(unknown)}; there are {sorted(networks())}")
    results = []
    for name in options.networks:
        for batch in options.batch:
            for threads in options.threads:
                results.append(measure(name, batch, threads, options))
                show(f"{name}, batch {batch}, {threads} threads", results[-1])
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    return int(any(d > TOLERANCE for r in results for d in r["differences"].values()))


if __name__ == "__main__":
    sys.exit(main())
