#!/usr/bin/env python3
"""Checks Heddle against ONNX Runtime on networks of torchvision, timm and transformers.

    corpus.py list                                     writes networks.txt again, by the rules of sources.py
    corpus.py run FOLDER [--part 3/20] [--only timm/]  exports, compares, times; rows go to FOLDER/rows.jsonl
    corpus.py run FOLDER --drawn 60 --plans --no-times  the same for networks that the list does not name, small
    corpus.py table FOLDER [--summary|--json]          the last row of each file; counts of outcomes, causes, times
    corpus.py run FOLDER --audit='--tune 3s'           the same with `heddle audit` of each, with these options of it
    corpus.py run FOLDER --tuned 25s                   tunes each, and follows what was found into other processes
    corpus.py tuned FOLDER [--json]                    that as a table
    corpus.py audit FOLDER [--json]                    lost time by template and cause, over the files that have an audit

A file is a network in one variant: exporter, opset, type, dimensions that are fixed or open, batch.
Of each network two are drawn (--files). Each file runs in a process of its own, and one that has a
row is left out, so that a run that was stopped goes on. With --failed those run again whose last row
is a failure, with --again those of another --revision. A quarter of the networks, by a hash of the
name, is only for the measurement at the end: --held-out runs these.
Needs ../networks/requirements.txt and timm.
"""
import argparse
import datetime
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import traceback
import warnings
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "networks"))

import audit  # noqa: E402
import summary  # noqa: E402
import tuned  # noqa: E402

TOLERANCE = {"f32": 1e-3, "f16": 3e-2}
COMPILE_LIMIT = 60
PLANS = [("f16", "cuda -gpu=h200"), ("f16", "cuda -gpu=h100"), ("bf16", "cuda -gpu=a100"), ("f32", "cuda -gpu=rtx4090"),
         ("bf16", "llvm -mcpu=sapphirerapids"), ("f16", "llvm -mcpu=neoverse-v1")]


def draw(name, count):
    """A number below count that stays with a name."""
    return zlib.crc32(name.encode()) % count


def list_names():
    return (HERE / "networks.txt").read_text().split()


def variants(name, options):
    """The files of a network, drawn of all that were asked for. Each exporter has one opset, so that all come about."""
    found = []
    for exporter, dtype, dims, batch in itertools.product(options.exporters, options.dtypes,
                                                          options.dims, options.batches):
        can = [o for o in options.opsets if (18 <= o if exporter == "dynamo" else o <= 20)]
        if can:
            opset = can[draw(f"{name} {exporter}", len(can))]
            found.append({"network": name, "exporter": exporter, "opset": opset, "dtype": dtype,
                          "dims": dims, "batch": batch})
    return sorted(found, key=lambda row: zlib.crc32(str(key_of(row)).encode()))[:options.files or None]


def key_of(row):
    return tuple(row[k] for k in ("network", "exporter", "opset", "dtype", "dims", "batch"))


def isolated(work, argument, limit):
    """What work(argument, tell) told last, from a process of its own, and how that ended where it did not return."""
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def body():
        os.setpgid(0, 0)
        for stream in (1, 2):  # exporters print graphs
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        work(argument, theirs.send)

    process = multiprocessing.get_context("fork").Process(target=body)
    process.start()
    theirs.close()
    end, last, how = time.monotonic() + limit, {}, None
    try:
        while ours.poll(max(end - time.monotonic(), 0)):
            last = ours.recv()
        how = "took too long"
    except EOFError:
        process.join()
        how = None if process.exitcode == 0 else f"ended with {process.exitcode}"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.join()
    return last, how


def export_file(row, path, small):
    """Writes the file of a row; gives what to feed it."""
    import torch
    from export_models import batched, export
    import sources
    module, inputs = sources.make(row["network"], small)
    if row["dtype"] == "f16":
        module = module.half()
        inputs = tuple(x.half() if x.is_floating_point() else x for x in inputs)
    inputs = batched(inputs, row["batch"])
    with torch.no_grad():
        export(module, inputs, str(path), row["exporter"], row["dims"] == "open", row["opset"])
    return [x.numpy() for x in inputs]


def open_extents(path, feed):
    """The options of the command line that close the dimensions that a file leaves open."""
    from check_models import onnx_runtime
    extents = {}
    for info in onnx_runtime(path, 1).get_inputs():
        for name, extent in zip(info.shape, feed[info.name].shape):
            if isinstance(name, str):
                extents[name] = extent
    return ["--dims", ",".join(f"{k}={v}" for k, v in extents.items())] if extents else []


def ranged(extra):
    """The options that leave those dimensions open that open_extents() closes: from 1 to twice as much. Nothing where none is."""
    return extra and ["--dims", ",".join(f"{dim.split('=')[0]}=1..{2 * int(dim.split('=')[1])}" for dim in extra[1].split(","))]


def legal_plans(options, path, extra):
    """'TYPE TARGET' -> what `heddle explain` had to say against it, also over ranges of dimensions that the file leaves open."""
    wrong = {}
    for dims, note in [(extra, "")] + ([(ranged(extra), ", ranges")] if extra else []):
        for dtype, target in PLANS[:options.plans]:
            done = subprocess.run([options.heddle, "explain", str(path), "--dtype", dtype, "--target", target,
                                   *dims], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                wrong[f"{dtype} {target}{note}"] = done.stderr.strip() or f"ended by signal {-done.returncode}"
    return wrong


def times(options, path, feed, extra):
    """Threads, one and as many as were asked for -> contestant -> seconds, in turns."""
    import exported
    from check_models import onnx_runtime
    from race import race
    found = {}
    for threads in sorted({1, options.threads}):
        session = onnx_runtime(path, threads)
        ours = exported.export(options.heddle, path, threads, extra)
        ours.set_threads(threads)
        found[threads] = race({"heddle": lambda: ours.run(feed), "onnxruntime": lambda: session.run(None, feed)},
                              options.seconds)
    return found


def measure(row, options, path, tell):
    """Fills a row from stage to stage; each is told before it begins, so that a crash has a place."""
    import onnx
    from check_models import compare, runtime_answers

    def stage(name):
        tell({**row, "status": "failed", "stage": name})

    stage("export")
    arrays = export_file(row, path, bool(options.drawn))
    graph = onnx.load(path, load_external_data=False).graph
    kept = {i.name for i in graph.input}  # an exporter drops inputs that nothing reads
    feed = {f"input{i}": x for i, x in enumerate(arrays) if f"input{i}" in kept}
    stage("onnxruntime")
    wanted = runtime_answers(path, feed, options.threads)
    extra = open_extents(path, feed)
    stage("heddle")
    begin = time.monotonic()
    row["difference"], text = compare(path, feed, wanted, options.heddle, options.threads, 0,
                                      COMPILE_LIMIT * 3, extra)
    row["seconds"] = round(time.monotonic() - begin, 2)
    if row["difference"] is None:
        row.update(status="failed", stage="heddle", cause=text)
    else:
        compiled = re.search(r"compile ([0-9.]+) (\w+)", text)
        row["compile"] = float(compiled[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}.get(compiled[2], 1)
        row["status"] = "agrees" if row["difference"] <= TOLERANCE[row["dtype"]] else "differs"
        if row["compile"] > COMPILE_LIMIT:
            row.update(status="failed", stage="heddle", cause="compiles for more than a minute")
    if options.plans and row["status"] != "failed":
        tell({**row, "status": "failed", "stage": "plans"})
        row["plans"] = legal_plans(options, path, extra)
    tell(row)
    if options.audit is not None and row["status"] == "agrees":
        row["audit"] = audit.audit(options.heddle, path, options.threads, options.audit.split() + extra)
        tell(row)
    if options.tuned and row["status"] == "agrees":
        from check_models import relative_difference
        tell({**row, "status": "failed", "stage": "tuned"})
        row["tuned"] = tuned.follow(options.heddle, path, options.tuned, extra, feed, wanted.values(),
                                    relative_difference, options.seconds)
        tell(row)
    if options.times and row["status"] == "agrees":
        row["times"] = times(options, path, feed, extra)
        tell(row)


def is_of_part(name, options):
    part, parts = options.part
    return draw(name + "part", parts) == part - 1 and (not options.only or any(name.startswith(o) for o in options.only))


def names_of_this_run(options):
    known = list_names()
    if options.drawn:
        import sources
        kept = set(known)
        return sources.drawn(options.drawn, lambda name: name not in kept and is_of_part(name, options))
    ordered = sorted(known, key=lambda n: zlib.crc32(n[::-1].encode()))  # stopped early: some of each library
    return [n for n in ordered if (draw(n, 4) == 0) == options.held_out and is_of_part(n, options)]


def of_this_run(options):
    """The rows that are to be made, as far as they say what is made."""
    last = {key_of(r): r for r in read_rows(options.folder)}
    for name in names_of_this_run(options):
        for row in variants(name, options):
            before = last.get(key_of(row))
            if options.failed:
                wanted = before and (before["status"] != "agrees" or before.get("plans"))
                wanted = wanted and before.get("stage") != "export" and before["revision"] != options.revision
            else:
                wanted = not before or (options.again and before["revision"] != options.revision)
                wanted = wanted or (options.audit is not None and before["status"] == "agrees" and "audit" not in before)
            if wanted:
                yield row


def run(options):
    import onnxruntime  # noqa: F401  what is imported here, no process imports again
    import timm  # noqa: F401
    import torch
    import torchvision  # noqa: F401
    import transformers
    import side_by_side  # noqa: F401
    import sources  # noqa: F401
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # a process that forks may have no threads
    options.folder.mkdir(parents=True, exist_ok=True)
    bad = 0
    for row in of_this_run(options):
        path = options.folder / ("-".join(str(k).replace("/", "-") for k in key_of(row)) + ".onnx")

        def work(row, tell):
            reached = {}
            try:
                measure(row, options, path, lambda told: (reached.update(told), tell(told)))
            except Exception as error:
                tell({**reached, "status": "failed", "cause": f"{type(error).__name__}: {error}"[:2000]})

        row, how = isolated(work, row, options.limit)
        if how:
            row.update(status="failed", cause=how)
        row.update(revision=options.revision, date=datetime.datetime.now().isoformat(timespec="seconds"))
        with open(options.folder / "rows.jsonl", "a", encoding="utf-8") as rows:
            rows.write(json.dumps(row) + "\n")
        bad += row["status"] != "agrees" and row.get("stage") == "heddle"
        if row["status"] == "agrees" or row.get("stage") != "heddle" or not options.keep:
            for written in options.folder.glob(path.stem + ".*"):
                written.unlink()
        print(text_of(row), flush=True)
    return 1 if bad else 0


def read_rows(folder):
    path = folder / "rows.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def text_of(row):
    speeds = [f"{t}: {s['heddle'] * 1e3:.2f} ms, {s['onnxruntime'] / s['heddle']:.2f}x"
              for t, s in row.get("times", {}).items()]
    what = (" ".join(speeds) if row["status"] == "agrees"
            else f"{row.get('stage', '')}: {row.get('cause', '').splitlines()[0] if row.get('cause') else ''}"[:160])
    plans = f" no plan for {', '.join(row['plans'])}" if row.get("plans") else ""
    difference = row.get("difference")
    return (f"{row['network']:42} {row['exporter']:11} {row['opset']:2} {row['dtype']} {row['dims']:5} "
            f"{row['batch']:2}  {row['status']:7} {'' if difference is None else f'{difference:.1e}':8}"
            f"{row.get('compile', 0):6.1f} s  {what}{plans}")


def last_rows(folder):
    return sorted({key_of(r): r for r in read_rows(folder)}.values(), key=key_of)


def tunings(options):
    rows = last_rows(options.folder)
    print(json.dumps([r for r in rows if "tuned" in r], indent=1) if options.json else tuned.table(rows))
    return 0


def audits(options):
    rows = last_rows(options.folder)
    if options.json:
        print(json.dumps([{"template": template, "cause": cause, **of_class, "networks": sorted(of_class["networks"])}
                          for (template, cause), of_class in audit.classes(rows)], indent=1))
    else:
        print(audit.table(rows))
    return 0


def table(options):
    rows = last_rows(options.folder)
    if options.json:
        causes = {cause: len(networks) for cause, networks in summary.causes_of(rows).items()}
        print(json.dumps({"rows": rows, "causes": causes}, indent=1))
        return 0
    for row in [] if options.summary else rows:
        print(text_of(row))
    print(summary.markdown(rows))
    return 0


def make_list(_):
    """Names of which a module can be made and called."""
    import timm  # noqa: F401
    import torch
    import torchvision  # noqa: F401
    import transformers
    import sources
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    found = []

    def work(name, tell):
        try:
            module, inputs = sources.make(name)
            with torch.no_grad():
                tell({"is": len(module(*inputs)) > 0})
        except Exception:
            tell({"error": traceback.format_exc(limit=-1)})

    for library, source in sources.LIBRARIES.items():
        for own in source.names():
            told, how = isolated(work, f"{library}/{own}", 60)
            if told.get("is"):
                found.append(f"{library}/{own}")
            else:
                print(f"{library}/{own}: {how or told.get('error', '').splitlines()[-1]}", flush=True)
    (HERE / "networks.txt").write_text("".join(name + "\n" for name in found))
    return 0


def words(text):
    return text.split(",")


def numbers(text):
    """11,13 or 11-21."""
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(n) for n in text.split(",")]


def part(text):
    first, _, count = text.partition("/")
    return int(first), int(count)


def add_run(commands):
    command = commands.add_parser("run")
    command.set_defaults(work=run)
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("--heddle", default="build/bin/heddle")
    command.add_argument("--revision", default=subprocess.run(
        ["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True,
        check=False).stdout.strip(), help="of Heddle, for the history (git describe)")
    command.add_argument("--part", type=part, default=(1, 1), help="3/20: the third of 20 parts")
    command.add_argument("--only", type=words, default=[], help="beginnings of names, with commas")
    command.add_argument("--exporters", type=words, default=["dynamo", "torchscript"])
    command.add_argument("--opsets", type=numbers, default=list(range(11, 22)))
    command.add_argument("--dtypes", type=words, default=["f32", "f16"])
    command.add_argument("--dims", type=words, default=["fixed", "open"])
    command.add_argument("--batches", type=numbers, default=[1, 32])
    command.add_argument("--files", type=int, default=2, help="of each network, drawn by its name; 0: all variants")
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--limit", type=float, default=600, help="seconds for a file")
    command.add_argument("--seconds", type=float, default=5, help="of timing at each number of threads")
    command.add_argument("--no-times", dest="times", action="store_false")
    command.add_argument("--audit", nargs="?", const="", help="audit each; options of `heddle audit` in one word")
    command.add_argument("--tuned", help="tune each for this long, such as 25s, and follow what was found")
    command.add_argument("--plans", type=int, nargs="?", const=len(PLANS), default=0,
                         help="plans for GPUs and CPUs that are not here too: for the first so many of them")
    command.add_argument("--keep", action="store_true", help="leave files that fail in the folder")
    command.add_argument("--held-out", action="store_true")
    command.add_argument("--drawn", type=int, default=0, help="so many networks of this part that the list does not name, with small inputs")
    command.add_argument("--again", action="store_true", help="also what has a row of another revision")
    command.add_argument("--failed", action="store_true", help="only what failed in another revision")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("list").set_defaults(work=make_list)
    add_run(commands)
    for name, work in (("table", table), ("audit", audits), ("tuned", tunings)):
        command = commands.add_parser(name)
        command.set_defaults(work=work)
        command.add_argument("folder", type=pathlib.Path)
        command.add_argument("--json", action="store_true")
        if work is table:
            command.add_argument("--summary", action="store_true", help="only counts, as Markdown")
    options = parser.parse_args()
    return options.work(options)


if __name__ == "__main__":
    sys.exit(main())
