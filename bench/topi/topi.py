#!/usr/bin/env python3
"""TOPI's schedules and operators, declared in Heddle: who schedules each, whether it is right, and its time beside PyTorch's.

    topi.py [--only sort] [--threads 1] [--seconds 1] [--runs 3] [--json cpu.json] [--write docs/measurements/topi.md]
    topi.py --target cuda [--only sort] [--seconds 0.3] [--runs 1] [--json gpu.json]

Each family of schedule functions of TVM 0.7 to 0.19 (schedules.txt: those for all machines, x86 and GPUs) has a case in
convolutions.py, products.py, rows.py and vision.py: a declaration by operators of heddle.ops or by heddle.compute, which is run as a
network with no schedule, no tuning and no records, and compared with PyTorch or numpy. Weights are constants. Times are the least of many
calls of both in turns: the machine may be shared, and medians tell of the others. With --target cuda (gpu.py) the same is done on a GPU.

The file of --json keeps the least times of --runs runs through all families, and how many each has had (kept.py): a command that ended early goes
on there, more runs lower what others of the machine have disturbed, and --anew forgets the families that it is to run. The page of --write
is made of both files, for CPU and GPU. Exit status 1 where an answer is wrong or a function of schedules.txt has no family. Needs the
Python package (PYTHONPATH=build/python), PyTorch and torchvision.
"""
import argparse
import multiprocessing
import os
import pathlib
import queue
import re
import sys
import time
import warnings

os.environ.update(HEDDLE_TOPHUB="off", HEDDLE_LOG_FILE="")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "networks")]
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import heddle as hd  # noqa: E402

import convolutions, products, rows, vision  # noqa: E401, E402, F401
from cases import CASES  # noqa: E402
from kept import Kept  # noqa: E402
from page import page, table, unknown_schedules  # noqa: E402
from race import race  # noqa: E402


def as_list(values):
    return list(values) if isinstance(values, (list, tuple)) else [values]


def network_of(case, **options):
    """The network, and the arrays of its calls."""
    tensors = [hd.constant(a) if i in case.constants else hd.placeholder(a.shape, a.dtype) for i, a in enumerate(case.arrays)]
    passed = [i for i in range(len(tensors)) if i not in case.constants]
    outputs = as_list(case.ours(*tensors))
    used = set(hd.placeholders(outputs))
    passed = [i for i in passed if tensors[i] in used]
    return hd.Network(outputs, [tensors[i] for i in passed], **options), [case.arrays[i] for i in passed]


def templates_of(network):
    """Which templates schedule the nodes, in their order."""
    names = []
    for node in range(network._graph.num_nodes):
        names += re.findall(r"rule of (\w+)", network.explain(node))
    return list(dict.fromkeys(names))


def error_of(case, got, expected):
    """The largest difference relative to the largest element, of all outputs."""
    got = [np.asarray(a) for a in as_list(case.rows(got) if case.rows else got)]
    expected = [np.asarray(a) for a in as_list(expected)][:len(got)]
    errors = [np.inf if a.shape != b.shape else
              np.abs(a.astype(np.float64) - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-30) for a, b in zip(got, expected)]
    return max(errors)


def sample(call):
    """Seconds of a call: the mean of some, behind one that warms up."""
    call()
    begin = time.perf_counter()
    call()
    once = time.perf_counter() - begin
    count = max(1, min(20, int(2e-3 / once)))
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def measured(family, threads, seconds):
    """A row of the table."""
    case = family.make()
    network, arrays = network_of(case, threads=threads)
    tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in case.arrays]
    got = network(*arrays)
    got = [np.asarray(a) for a in as_list(got)]
    got = got[0] if len(got) == 1 else got
    with torch.inference_mode():
        if case.torch:
            expected = [np.asarray(t) for t in as_list(case.torch(*tensors))]
        else:
            expected = case.numpy(*case.arrays)
        right = True if "random" in family.title else error_of(case, got, expected) <= case.tolerance
        if "random" in family.title:
            right = all(bool(v) for v in case.rows(got))
        outputs = [np.empty_like(a) for a in as_list(got)]
        calls = {"ours": lambda: network(*arrays, out=outputs if len(outputs) > 1 else outputs[0])}
        if case.torch:
            calls["torch"] = lambda: case.torch(*tensors)
        times = race(calls, seconds, sample=sample, middle=min)
    return {"family": family.title, "templates": templates_of(network), "right": bool(right), **times}


def work_on_gpu(options, turns, alone, rows):
    """Measures families by their numbers, until there is none left. Networks are compiled beside those of other processes, and timed alone."""
    import gpu
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    with torch.inference_mode():
        while (number := turns.get()) is not None:
            family, begin = CASES[number], time.perf_counter()
            try:
                case = family.make()
                network, arrays = network_of(case, target=hd.Target(options.target))
                network(*gpu.arrays_of(case, arrays))
                compiled = time.perf_counter() - begin
                with alone:
                    row = gpu.measured(family, case, network, arrays, options.seconds, race, error_of)
                rows.put(row | {"compile_s": round(compiled, 1)})
            except Exception as e:  # noqa: BLE001 - one family must not end the experiment
                rows.put({"family": family.title, "failed": f"{type(e).__name__}: {str(e)[:500]}"})
    rows.put(None)


def chosen(options, kept, turn):
    """The numbers of the families that have had fewer runs."""
    return [n for n, family in enumerate(CASES) if options.only in family.title and kept.runs(family.title) < turn]


def measured_on_gpu(options, kept):
    """Measures, prints and keeps a row after the other. Whether all are right."""
    spawned = multiprocessing.get_context("spawn")
    turns, rows, alone = spawned.Queue(), spawned.Queue(), spawned.Lock()
    numbers = [n for turn in range(1, options.runs + 1) for n in chosen(options, kept, turn)]
    count = min(options.processes, len(numbers))
    for number in numbers + [None] * count:
        turns.put(number)
    workers = [spawned.Process(target=work_on_gpu, args=(options, turns, alone, rows), daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    right, running = True, count
    while running:
        try:
            row = rows.get(timeout=5)
        except queue.Empty:
            if all(worker.exitcode in (None, 0) for worker in workers) and any(worker.is_alive() for worker in workers):
                continue
            return False  # a process died; it may have held the lock
        if row is None:
            running -= 1
            continue
        print(row, file=sys.stderr, flush=True)
        right &= "failed" not in row and row["right"]
        if "failed" not in row:
            kept.add(row)
    return right


def measured_on_cpu(options, kept):
    """The same, one family at a time."""
    torch.set_num_threads(options.threads)
    hd.set_num_threads(options.threads)
    right = True
    for turn in range(1, options.runs + 1):
        for number in chosen(options, kept, turn):
            family = CASES[number]
            try:
                row = measured(family, options.threads, options.seconds)
            except Exception as e:  # noqa: BLE001 - one family must not end the experiment
                print(f"{family.title}: {type(e).__name__}: {str(e)[:500]}", file=sys.stderr)
                right = False
                continue
            print(row, file=sys.stderr, flush=True)
            right &= row["right"]
            kept.add(row)
    return right


def names_of(options):
    """What the figures of a file are of."""
    names = {"torch": torch.__version__.split("+")[0]}
    if options.target.startswith("cuda"):
        return names | {"machine": torch.cuda.get_device_name()}
    return names | {"machine": str(hd.Target(options.target)), "threads": options.threads}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="families whose title has this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1, help="of each race")
    parser.add_argument("--runs", type=int, default=1, help="of each family, one run through all of them after the other")
    parser.add_argument("--anew", action="store_true", help="forget what is kept of the families that are run")
    parser.add_argument("--target", default="llvm -mcpu=native", help="or a GPU")
    parser.add_argument("--processes", type=int, default=4, help="that compile for a GPU")
    parser.add_argument("--json", type=pathlib.Path, help="where figures are kept (cpu.json or gpu.json beside this file)")
    parser.add_argument("--write", type=pathlib.Path, help="write the page here")
    options = parser.parse_args()
    on_gpu = options.target.startswith("cuda")
    path = options.json or HERE / ("gpu.json" if on_gpu else "cpu.json")
    kept = Kept(path, names_of(options))
    if options.anew:
        kept.forget(options.only)
    right = measured_on_gpu(options, kept) if on_gpu else measured_on_cpu(options, kept)
    if options.write:
        cpu, gpu = (path if on_gpu == of_gpu else HERE / name for name, of_gpu in (("cpu.json", False), ("gpu.json", True)))
        options.write.write_text(page(Kept(cpu), Kept(gpu)))
    else:
        print(table([row for row in kept.rows() if options.only in row["family"]]))
    unknown = unknown_schedules()
    if unknown:
        print("no family: " + " ".join(unknown), file=sys.stderr)
    return 0 if right and not unknown else 1


if __name__ == "__main__":
    sys.exit(main())
