#!/usr/bin/env python3
"""TOPI's schedules and operators, declared in Heddle: who schedules each, whether it is right, and its time beside PyTorch's.

    topi.py [--only sort] [--threads 1] [--seconds 1] [--gpu gpu.json] [--write docs/measurements/topi.md]
    topi.py --target cuda [--only sort] [--seconds 0.3] --json gpu.json

Each family of schedule functions of TVM 0.7 to 0.19 (schedules.txt: those for all machines, x86 and GPUs) has a case in
convolutions.py, products.py, rows.py and vision.py: a declaration by operators of heddle.ops or by heddle.compute, which is run as a
network with no schedule, no tuning and no records, and compared with PyTorch or numpy. Weights are constants. Times are the least of many
calls of both in turns: the machine may be shared, and medians tell of the others. With --target cuda (gpu.py) the same is done on a GPU, and
--json keeps the figures, which --gpu shows beside those of a CPU. Without --write the table is printed. Exit status 1 where an answer is wrong or a function of schedules.txt has no
family. Needs the Python package (PYTHONPATH=build/python), PyTorch and torchvision.
"""
import argparse
import json
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
from causes import CAUSES, CAUSES_GPU, LIBRARIES, MISSING  # noqa: E402
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
    return {"family": family, "templates": templates_of(network), "right": right, **times}


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


def measured_on_gpu(options):
    """The rows, which are printed and kept in a file as they come."""
    import gpu
    spawned = multiprocessing.get_context("spawn")
    turns, rows, alone = spawned.Queue(), spawned.Queue(), spawned.Lock()
    kept = json.loads(options.json.read_text())["rows"] if options.json.exists() else []  # of a run that ended early
    known = {row["family"] for row in kept}
    numbers = [n for n, family in enumerate(CASES) if options.only in family.title and family.title not in known]
    count = min(options.processes, len(numbers))
    for number in numbers + [None] * count:
        turns.put(number)
    workers = [spawned.Process(target=work_on_gpu, args=(options, turns, alone, rows), daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    failed, running = False, count
    while running:
        try:
            row = rows.get(timeout=5)
        except queue.Empty:
            if all(worker.exitcode in (None, 0) for worker in workers) and any(worker.is_alive() for worker in workers):
                continue
            return 1  # a process died; it may have held the lock
        if row is None:
            running -= 1
            continue
        print(row, file=sys.stderr, flush=True)
        failed |= "failed" in row or not row["right"]
        if "failed" not in row:
            kept.append(row)
            gpu.keep(kept, options.json)
    return 1 if failed else 0


def coverage():
    """(covered, all that are no calls of libraries, those without a family) of schedules.txt."""
    listed = [line.split() for line in (HERE / "schedules.txt").read_text().splitlines()]
    own = [(file, name) for file, name in listed if name not in LIBRARIES]
    have = {name for family in CASES for name in family.schedules}
    missing = sorted({name for _, name in own if name not in have})
    return len([1 for _, name in own if name in have]), len(own), missing


def milliseconds(row, key):
    return f"{row[key] * 1e3:.3g}" if key in row else "–"


def table(results):
    lines = ["| family | size | schedules of TOPI | templates | right | ms | PyTorch, ms | ratio |", "|---|---|---|---|---|---|---|---|"]
    for row in results:
        family = row["family"]
        ratio = f"{row['torch'] / row['ours']:.2f}" if "torch" in row else "–"
        schedules = f"{len(family.schedules)}: `{family.schedules[0]}`" if family.schedules else "operator without one"
        lines.append(f"| {family.title} | {family.size} | {schedules} | {', '.join(row['templates'])} | "
                     f"{'yes' if row['right'] else '**no**'} | {milliseconds(row, 'ours')} | {milliseconds(row, 'torch')} | {ratio} |")
    return "\n".join(lines)


def slow_ones(results):
    lines = []
    for row in results:
        if "torch" in row and row["torch"] < 0.9 * row["ours"]:
            cause = CAUSES.get(row["family"].title, "not known")
            lines.append(f"- {row['family'].title}, {row['torch'] / row['ours']:.2f}: {cause}.")
    return "\n".join(lines) or "None."


def gpu_rows(path):
    """({title: row}, what measured them) of a file that --json wrote."""
    if not path.exists():
        return {}, {}
    kept = json.loads(path.read_text())
    return {row["family"]: row for row in kept["rows"]}, kept


def table_of_gpu(path):
    """The section of a GPU, or nothing."""
    rows, kept = gpu_rows(path)
    if not rows:
        return "There are no figures of one yet."
    ratios = [r["torch"] / r["ours"] for r in rows.values() if "torch" in r]
    lines = [f"{kept['gpu']}, PyTorch {kept['torch']} without tf32: {len(rows)} families ran, {sum(r['right'] for r in rows.values())} give the "
             f"right answers; of {len(ratios)} that PyTorch has, {sum(r >= 0.9 for r in ratios)} are at least 0.9 times as fast; the geometric mean of the "
             f"ratios is {np.exp(np.mean(np.log(ratios))):.2f}. A peer whose host reads results is called as it is (*); all other calls are CUDA graphs.", "",
             "| family | right | µs | PyTorch, µs | ratio |", "|---|---|---|---|---|"]
    for title, row in rows.items():
        peer = f"{row['torch'] * 1e6:.3g}{'' if row['torch_graph'] else '*'}" if "torch" in row else "–"
        ratio = f"{row['torch'] / row['ours']:.2f}" if "torch" in row else "–"
        lines.append(f"| {title} | {'yes' if row['right'] else '**no**'} | {row['ours'] * 1e6:.3g} | {peer} | {ratio} |")
    slow = [f"- {title}, {row['torch'] / row['ours']:.2f}: {CAUSES_GPU.get(title, CAUSES.get(title, 'not known'))}."
            for title, row in rows.items() if "torch" in row and row["torch"] < 0.9 * row["ours"]]
    return "\n".join(lines + ["", "Slower there, and why:", "", *slow])


def page(results, threads, gpu):
    covered, count, missing = coverage()
    ratios = [r["torch"] / r["ours"] for r in results if "torch" in r]
    text = (HERE / "page.md").read_text()
    lacking = ", ".join(f"`{m}` ({MISSING.get(m, 'no case')})" for m in missing) or "none"
    numbers = {"COVERED": covered, "COUNT": count, "SHARE": f"{100 * covered / count:.1f}", "MISSING": lacking,
               "FAMILIES": len(results), "RIGHT": sum(r["right"] for r in results), "THREADS": threads,
               "COMPARED": len(ratios), "MEAN": f"{np.exp(np.mean(np.log(ratios))):.2f}",
               "NEAR": sum(r >= 0.9 for r in ratios), "TORCH": torch.__version__.split("+")[0],
               "MACHINE": str(hd.Target("llvm -mcpu=native")), "TABLE": table(results), "SLOW": slow_ones(results),
               "GPU": table_of_gpu(gpu)}
    return re.sub(r"\{(\w+)\}", lambda m: str(numbers[m[1]]), text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="families whose title has this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1, help="of each race")
    parser.add_argument("--target", default="llvm -mcpu=native", help="a GPU: the figures go to --json")
    parser.add_argument("--processes", type=int, default=4, help="that compile for a GPU")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("topi_gpu.json"), help="figures of a GPU; families that it has are not run again")
    parser.add_argument("--gpu", type=pathlib.Path, default=HERE / "gpu.json", help="such figures, for the page")
    parser.add_argument("--write", type=pathlib.Path, help="write the page here")
    options = parser.parse_args()
    if options.target.startswith("cuda"):
        return measured_on_gpu(options)
    torch.set_num_threads(options.threads)
    hd.set_num_threads(options.threads)
    results, failed = [], False
    for family in CASES:
        if options.only not in family.title:
            continue
        try:
            results.append(measured(family, options.threads, options.seconds))
        except Exception as e:  # noqa: BLE001 - one family must not end the experiment
            print(f"{family.title}: {type(e).__name__}: {str(e)[:500]}", file=sys.stderr)
            failed = True
            continue
        row = results[-1]
        failed |= not row["right"]
        print(f"{family.title}: {'right' if row['right'] else 'WRONG'} {milliseconds(row, 'ours')} {milliseconds(row, 'torch')} "
              f"{', '.join(row['templates'])}", file=sys.stderr, flush=True)
    if options.write:
        options.write.write_text(page(results, options.threads, options.gpu))
    else:
        print(table(results))
    unknown = [m for m in coverage()[2] if m not in MISSING]
    if unknown:
        print("no family: " + " ".join(unknown), file=sys.stderr)
    return 1 if failed or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
