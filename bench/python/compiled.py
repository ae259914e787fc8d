#!/usr/bin/env python3
"""Checks and times torch.compile(backend="heddle") on many models, beside eager PyTorch and Inductor.

    compiled.py run FOLDER [--networks torchvision/resnet18,...] [--backends heddle,inductor] [--part 1/4]
    compiled.py run FOLDER --drawn 10 --step --batch 4 --threads 2    training steps of networks that no list has
    compiled.py table FOLDER [--markdown]

`run` makes each network of networks.txt (or of --networks) by the rules of ../corpus/sources.py, with random weights in
inference mode, compiles it by each of the backends, compares with eager PyTorch, and times all of them in turns. A row of JSON for
each goes to FOLDER/rows.jsonl and to the output: what breaks the graph, what stays in PyTorch, seconds of the cold and the warm
first call, seconds of a call. Each network runs in processes of its own, and one that has a row is left out, so that a run that
was stopped goes on (--failed: those run again whose row is a failure). With --step a call is a forward and a backward pass in
training mode without dropout, and what is compared are the loss and the gradients of all weights, with those in f64: four times as
far from them as eager PyTorch is right, too. Caches are new for each network: the first process is
cold, with --warm a second one finds what the first has left. Needs PyTorch, torchvision, timm and transformers.
"""
import argparse
import collections
import contextlib
import fcntl
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time
import traceback
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "corpus"), str(HERE.parent / "networks")]

from corpus import isolated, read_rows  # noqa: E402

TOLERANCE = {"f32": 1e-3, "f16": 3e-2, "bf16": 6e-2}
LEAST = 1e-3  # of the largest gradient: some are 0 but for rounding, as those of biases before norms
BACKENDS = {"heddle": {"backend": "heddle"}, "heddle-graphs": {"backend": "heddle", "mode": "reduce-overhead"},
            "inductor": {"backend": "inductor"}, "inductor-graphs": {"backend": "inductor", "mode": "reduce-overhead"},
            "inductor-autotune": {"backend": "inductor", "mode": "max-autotune"}}


def made(row):
    """The module of a row and its inputs, in its type and on its device."""
    import sources
    import torch
    from export_models import batched
    module, inputs = sources.make(row["network"], row.get("small", False))
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[row["dtype"]]
    inputs = batched(inputs, row["batch"])
    inputs = tuple((x.to(dtype) if x.is_floating_point() else x).to(row["device"]) for x in inputs)
    module = module.to(dtype).to(row["device"])
    return (trained(module) if row.get("step") else module), inputs


def trained(module):
    """The module in training mode, without dropout."""
    for part in module.train().modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, float) and ("drop" in name or name == "p"):
                setattr(part, name, 0.0)
    return module


def step_of(module, run, autocast):
    """A call of `run`, which computes what the module does, with a backward pass: gives the loss and the gradients of the weights."""
    import torch
    weights = [p for p in module.parameters() if p.requires_grad]

    def step(*inputs):
        with torch.autocast("cpu" if weights[0].device.type == "cpu" else "cuda", torch.bfloat16, enabled=autocast):
            outputs = [x for x in run(*inputs) if x.is_floating_point()]
            loss = sum(x.float().square().mean() for x in outputs)
        grads = torch.autograd.grad(loss, weights, allow_unused=True)
        return [loss.detach(), *(g for g in grads if g is not None)]

    return step


def in_f64(module, inputs):
    """The loss and the gradients of a module, computed in f64."""
    import copy
    wide = copy.deepcopy(module).double()
    return step_of(wide, wide, False)(*[x.double() if x.is_floating_point() else x for x in inputs])


def compiled(module, backend, reports):
    """The module compiled by a backend. Heddle's reports of graphs go to a list."""
    import torch
    options = dict(BACKENDS[backend])
    if options["backend"] == "heddle":
        import heddle.torch
        own = {"report": reports.append, "mode": options.pop("mode", None)}
        return torch.compile(module, dynamic=False, options=own, backend="heddle")
    return torch.compile(module, dynamic=False, **options)


def difference(found, wanted, least=0.0):
    """The largest difference, relative to the largest element of each output, or `least` of that of all where it is less; infinite where
    something is not finite."""
    worst, floor = 0.0, max(1e-30, least * max(w.abs().max().item() for w in wanted if w.numel()))
    for f, w in zip(found, wanted, strict=True):
        f, w = f.double(), w.double()
        if f.shape != w.shape:
            return math.inf
        same = (f == w) | (f.isnan() & w.isnan())
        gap = (f - w).abs().masked_fill(same, 0).max().item() if f.numel() else 0.0
        worst = max(worst, gap / max(w[w.isfinite()].abs().max().item() if w.isfinite().any() else 0, floor) if gap == gap else math.inf)
    return worst


def first_calls(row, options, module, inputs, tell, to):
    """Compiles by calling; fills `to` with the seconds of each. Gives calls and outputs by backend, and Heddle's reports."""
    import torch
    calls, found, reports = {}, {}, []
    for backend in options.backends:
        tell({**row, "status": "failed", "stage": f"compile by {backend}"})
        run = compiled(module, backend, reports)
        if row.get("step"):
            run = step_of(module, run, row.get("autocast", False))
        begin = time.perf_counter()
        try:
            found[backend] = [x.clone() for x in run(*inputs)]
            if row["device"] == "cuda":
                torch.cuda.synchronize()
        except Exception as error:  # one backend that fails hides no other
            row.setdefault("errors", {})[backend] = f"{type(error).__name__}: {error}"[:2000]
            continue
        to[backend] = time.perf_counter() - begin
        calls[backend] = lambda run=run: run(*inputs)
    return calls, found, reports


@contextlib.contextmanager
def alone(path):
    """Holds a lock file, so that of several runs which compile side by side one is timed at a time. Nothing without a path."""
    if not path:
        yield
        return
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measure(row, options, tell):
    """Fills a row from stage to stage; each is told before it begins, so that a crash has a place."""
    import torch
    row = dict(row)
    finish = torch.cuda.synchronize if row["device"] == "cuda" else lambda: None
    if options.threads:
        import heddle
        torch.set_num_threads(options.threads)
        heddle.set_num_threads(options.threads)
    with contextlib.nullcontext() if row.get("step") else torch.no_grad():
        tell({**row, "status": "failed", "stage": "make"})
        module, inputs = made(row)
        eager = step_of(module, module, row.get("autocast", False)) if row.get("step") else module
        wanted = [x.clone() for x in eager(*inputs)]
        own = 0.0
        if row.get("step"):  # norms of few elements have gradients of which little is certain
            wanted, plain = in_f64(module, inputs), wanted
            own = row["eager_difference"] = difference(plain, wanted, LEAST)
        row["cold_s"] = {}
        torch._dynamo.utils.counters.clear()
        calls, found, reports = first_calls(row, options, module, inputs, tell, row["cold_s"])
        row["graph_breaks"] = {str(k).splitlines()[0][:200]: v for k, v in torch._dynamo.utils.counters["graph_break"].items()}
        row["parts"] = [report.parts for report in reports]
        row["in_torch"] = dict(sum((collections.Counter(report.in_torch) for report in reports), collections.Counter()))
        row["differences"] = {name: difference(outputs, wanted, LEAST if row.get("step") else 0.0) for name, outputs in found.items()}
        calls["eager"] = lambda: eager(*inputs)
        tell({**row, "status": "failed", "stage": "time"})
        if options.seconds > 0:
            from race import race, second_call
            pause = 0.0 if row["device"] == "cuda" else 0.05
            with alone(options.lock):
                clock = time.process_time if options.clock == "cpu" else time.perf_counter
                row["seconds"] = race(calls, options.seconds, lambda call: second_call(call, finish, pause, clock))
    tolerance = max(TOLERANCE["bf16" if row.get("autocast") else row["dtype"]], 4 * own)
    wrong = [name for name, d in row["differences"].items() if not d <= tolerance]
    ours = [b for b in options.backends if b.startswith("heddle")]
    row["status"] = "error" if any(b in row.get("errors", {}) for b in ours) else "wrong" if any(b in wrong for b in ours) else "right"
    tell(row)


def warm(row, options, tell):
    """The first calls of a second process."""
    import torch
    times = {}
    with contextlib.nullcontext() if row.get("step") else torch.no_grad():
        first_calls(dict(row), options, *made(row), lambda _: None, times)
    tell(times)


def caught(work, options):
    """A function for isolated(): what goes wrong is told as the row."""
    def body(row, tell):
        warnings.simplefilter("ignore")
        last = {}
        try:
            work(row, options, lambda r: (last.clear(), last.update(r), tell(r)))
        except BaseException as error:
            tell({**last, "error": f"{type(error).__name__}: {error}"[:3000], "at": traceback.format_exc()[-1500:]})
    return body


def run_one(row, options):
    with tempfile.TemporaryDirectory() as caches:
        os.environ.update(TORCHINDUCTOR_CACHE_DIR=f"{caches}/inductor", TRITON_CACHE_DIR=f"{caches}/triton",
                          HEDDLE_CACHE=f"{caches}/heddle", HEDDLE_LOG_FILE="")
        last, how = isolated(caught(measure, options), row, options.limit)
        if how:
            last = {**row, **last, "error": last.get("error", how)}
        if options.warm and last.get("status") in ("right", "wrong"):
            last["warm_s"], _ = isolated(caught(warm, options), row, options.limit)
    return last


def run(options):
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    done = {key_of(r) for r in last_rows(folder) if r.get("status") == "right" or not options.failed}
    listed = (HERE / "networks.txt").read_text().split()
    names = options.networks or (drawn(options.drawn, listed) if options.drawn else listed)
    part, parts = (int(n) for n in options.part.split("/"))
    begin = time.monotonic()
    for name in names[part - 1::parts]:
        row = {"network": name, "device": options.device, "dtype": options.dtype, "batch": options.batch}
        row.update({key: True for key in ("step", "autocast") if getattr(options, key)} | ({"small": True} if options.small or options.drawn else {}))
        if key_of(row) in done:
            continue
        if time.monotonic() - begin > options.budget:
            print(json.dumps({**row, "status": "left out", "error": "no time"}), flush=True)
            continue
        row = run_one(row, options)
        text = json.dumps(row)
        with open(folder / "rows.jsonl", "a", encoding="utf-8") as file:
            file.write(text + "\n")
        print(text, flush=True)


def drawn(count, listed):
    """The first names that no list has."""
    import sources
    known = {*listed, *(HERE.parent / "corpus" / "networks.txt").read_text().split()}
    return list(sources.drawn(count, lambda name: name not in known))


def key_of(row):
    return row["network"], row["device"], row["dtype"], row["batch"], row.get("step", False), row.get("autocast", False)


def last_rows(folder):
    """The last row of each network."""
    return list({key_of(r): r for r in read_rows(folder)}.values())


def summary(rows):
    """A row of Markdown for each library."""
    print("| library | networks | right | in one part | graph breaks | nodes in PyTorch | largest difference |\n|---|---|---|---|---|---|---|")
    for library in sorted({r["network"].split("/")[0] for r in rows}):
        own = [r for r in rows if r["network"].startswith(library + "/")]
        right = [r for r in own if r.get("status") == "right"]
        worst = max(right, key=lambda r: r["differences"]["heddle"], default=None)
        total = lambda key: sum(sum(r.get(key, {}).values()) for r in own)
        print(f"| {library} | {len(own)} | {len(right)} | {sum(sum(map(len, r['parts'])) == 1 for r in right)} | {total('graph_breaks')} | "
              f"{total('in_torch')} | " + (f"{worst['differences']['heddle']:.1e} ({worst['network'].split('/')[1]}) |" if worst else "|"))


def table(options):
    rows = last_rows(pathlib.Path(options.folder))
    if options.markdown:
        return summary(rows)
    print(f"{'network':44}{'':9}{'parts':>6}{'breaks':>7}{'in torch':>9}{'error':>9}{'eager':>9}{'heddle':>9}{'inductor':>9}{'cold':>12}{'warm':>12}  (ms; s)")
    for r in rows:
        ms = lambda name: f"{1e3 * r['seconds'][name]:.2f}" if name in r.get("seconds", {}) else "-"
        pair = lambda key: "/".join(f"{r.get(key, {})[b]:.1f}" if b in r.get(key, {}) else "-" for b in ("heddle", "inductor"))
        print(f"{r['network']:44}{r.get('status', 'failed'):9}{sum(map(len, r.get('parts', []))):6}{sum(r.get('graph_breaks', {}).values()):7}"
              f"{sum(r.get('in_torch', {}).values()):9}{r.get('differences', {}).get('heddle', math.nan):9.1e}{ms('eager'):>9}{ms('heddle'):>9}{ms('inductor'):>9}"
              f"{pair('cold_s'):>12}{pair('warm_s'):>12}")
        if r.get("status") != "right":
            print("    " + str(r.get("error") or r.get("errors") or "")[:300].replace("\n", " "))
    counts = collections.Counter(r.get("status", "failed") for r in rows)
    print(dict(counts))
    for a, b, key in (("eager", "heddle", "seconds"), ("inductor", "heddle", "seconds"), ("inductor", "heddle", "cold_s"), ("inductor", "heddle", "warm_s")):
        both = [r[key][a] / r[key][b] for r in rows if a in r.get(key, {}) and b in r.get(key, {})]
        mean = statistics.geometric_mean(both) if both else math.nan
        print(f"{key}: {a} / {b}: geometric mean {mean:.2f} of {len(both)}")
    left = collections.Counter()
    for r in rows:
        left.update({name: 1 for name in r.get("in_torch", {})})
    print("in PyTorch, by networks:", ", ".join(f"{name} {count}" for name, count in left.most_common(20)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("folder")
    parser.add_argument("--networks", type=lambda t: t.split(","))
    parser.add_argument("--backends", type=lambda t: t.split(","), default=["heddle"], help="of " + ", ".join(BACKENDS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="f32", choices=list(TOLERANCE))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--step", action="store_true", help="calls are forward and backward passes")
    parser.add_argument("--autocast", action="store_true", help="with --step: the forward pass is autocast to bf16")
    parser.add_argument("--drawn", type=int, default=0, help="so many networks that no list has, small")
    parser.add_argument("--small", action="store_true", help="images as small as the network takes")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"], help="cpu: of one thread on a busy machine, seconds of the processor")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3, help="of timing for each network")
    parser.add_argument("--limit", type=float, default=300, help="seconds for each process")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no network begins")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--lock", help="a file: of all runs that name it, one is timed at a time, while the others compile")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--failed", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="table: a summary by library")
    options = parser.parse_args()
    {"run": run, "table": table}[options.command](options)


if __name__ == "__main__":
    main()
