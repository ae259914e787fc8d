#!/usr/bin/env python3
"""Times networks by Heddle and by others, in turns in one process on the same arrays.

    side_by_side.py resnet50 mobilenet_v2 bert [--threads 1,2] [--batch 1] [--seconds 10]
                    [--heddle build/bin/heddle] [--peers NAMES] [--json results.json]

The names are those of export_models.py, whose networks have random weights. Each network is
exported to ONNX once for each batch. Heddle's library (`heddle export`, the static choice or
records), ONNX Runtime and OpenVINO run that file; PyTorch runs the module itself, eager and by
torch.compile. cpu_peers.py has all of them and their settings. A round lets each of them run, in
an order that changes from round to round: after a pause one call that is not timed, and one that
is. The figures are medians over rounds, so that a busy machine disturbs all alike. Answers are
compared first: exit status 1 where one differs from eager PyTorch's by more than 1e-3 of the largest output.
The file of results is written after each network. Needs requirements.txt.
"""
import argparse
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import torch

import exported
from cpu_peers import PEERS, Case, make_calls, to_list, usual_peers, versions
from export_models import batched, export, networks, randomize
from race import race
from result_text import show, write_results

TOLERANCE = 1e-3


def contestants(module, inputs, path, threads, options):
    """Name -> a call without arguments, which gives the outputs as arrays."""
    ours = exported.export(options.heddle, path, threads)
    ours.set_threads(threads)
    case = Case(path, module, inputs, threads, [name for name, _, _ in ours.inputs])
    feed = case.feed
    return {"heddle": lambda: ours.run(feed), **make_calls(options.peers, case)}


def worst_difference(calls, wanted):
    """By contestant: the largest difference from `wanted`, relative to the largest."""
    worst = {}
    for name, call in calls.items():
        got = [np.array(x) for x in call()]
        worst[name] = max(float(np.abs(g - w).max() / max(np.abs(w).max(), 1e-30))
                          for g, w in zip(got, wanted))
    return worst


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
        differences = worst_difference(calls, to_list(module(*inputs)))
        times = race(calls, options.seconds)
    return {"network": name, "batch": batch, "threads": threads, "seconds": times,
            "differences": differences, "right": max(differences.values()) <= TOLERANCE}


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
    parser.add_argument("--peers", type=lambda t: t.split(","), default=usual_peers(),
                        help=f"of {', '.join(PEERS)}; default: those installed, without torch.compile")
    parser.add_argument("--json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # one operator that no exporter knows
    for what, names, known in (("networks", options.networks, networks()), ("peers", options.peers, PEERS)):
        if unknown := set(names) - set(known):
            parser.error(f"no {what} {sorted(unknown)}; there are {sorted(known)}")
    results = []
    for name in options.networks:
        for batch in options.batch:
            for threads in options.threads:
                results.append(measure(name, batch, threads, options))
                show(f"{name}, batch {batch}, {threads} threads", results[-1])
                if options.json:
                    write_results(options.json, results, versions(options.peers))
    return int(not all(r["right"] for r in results))


if __name__ == "__main__":
    sys.exit(main())
