#!/usr/bin/env python3
"""Backward passes of operators beside PyTorch's own, and training steps beside torch.compile's (Inductor).

    training.py declare FOLDER [--what backward,steps] [--target "llvm -mcpu=native -threads=1"] [--dtype f32] [--layout NCHW]
    training.py run FOLDER [--device cpu|cuda] [--threads 1] [--seconds 2] [--json FILE]
    training.py table FILE

`declare` writes a library for each case into FOLDER (`heddle export`: the static choice, no records), which needs Heddle's Python
package and no GPU. `run` calls them in turns with PyTorch on the same numbers, and needs PyTorch alone, so that the folder can be
carried to the machine of the GPU. The figures are medians over rounds, the ratios PyTorch's time over Heddle's.

A backward pass takes the inputs of the forward pass and the gradient of its result. PyTorch keeps more of its forward pass (a
softmax its result, an attention its sums), which ours computes again; "both" times the forward and the backward pass in one.
A step is forward pass, loss, backward pass and optimiser (SGD with momentum, AdamW), compiled by torch.compile on the other side.
"half" is our step with half of the memory for its buffers. Results are compared: gradients, and the losses and weights after three
steps; the exit status is 1 where one is wrong. Weights may be twice as far apart as those of eager PyTorch and torch.compile are. On a GPU f32 is computed without tf32, PyTorch's calls are CUDA graphs, and narrower
types are autocast in steps.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "networks"), str(HERE.parent / "corpus")]


def run(options):
    import contest
    folder = pathlib.Path(options.folder)
    rows, right = [], True
    for row in json.loads((folder / "rows.json").read_text()):
        if options.only not in row["title"] or row["mode"] not in options.modes:
            continue
        try:
            row = {**row, "right": False} if "error" in row else contest.measured(row, folder, options)
        except RuntimeError as error:  # one case that fails hides no other
            row = {**row, "right": False, "error": str(error)[:500]}
        right &= row["right"]
        rows.append(row)
        print(line_of(row), flush=True)
        if options.json:  # after each case, so that a run that is cut off keeps what it has
            pathlib.Path(options.json).write_text(json.dumps({"machine": contest.machine(options), "rows": rows}, indent=1))
    show(rows)
    return 0 if right else 1


def ratio(row):
    """PyTorch's time over ours; the fastest peer counts."""
    seconds = row.get("seconds", {})
    peers = [seconds[name] for name in ("eager", "inductor") if name in seconds]
    return min(peers) / seconds["heddle"] if peers else math.nan


def line_of(row):
    if "error" in row:
        return f"{row['title']:24} {row['mode']:9} {row['error']}"
    times = "  ".join(f"{name} {1e3 * s:.3f}" for name, s in row["seconds"].items())
    memory = "  ".join(f"{name} {b / 1e6:.1f} MB" for name, b in row.get("memory", {}).items())
    return (f"{row['title']:24} {row['mode']:9} {row['dtype']:5} {'right' if row['right'] else 'WRONG'} {row['difference']:.1e}  "
            f"{ratio(row):5.2f}   ms: {times}   {memory}")


def show(rows):
    for mode in ("backward", "both", "step"):
        for dtype in sorted({r["dtype"] for r in rows}):
            ratios = [ratio(r) for r in rows if (r["mode"], r["dtype"]) == (mode, dtype) and "seconds" in r]
            if ratios:
                print(f"{mode} {dtype}: geometric mean {statistics.geometric_mean(ratios):.2f} of {len(ratios)}, least {min(ratios):.2f}")


def table(options):
    """The rows of a file of results as Markdown."""
    found = json.loads(pathlib.Path(options.folder).read_text())
    rows = [r for r in found["rows"] if "seconds" in r]
    print(found["machine"] + "\n")
    by = {(r["title"], r["mode"], r["dtype"]): r for r in rows}
    print("| operator | size | type | backward, ms | PyTorch, ms | ratio | with the forward pass, ratio |\n|---|---|---|---|---|---|---|")
    for r in (r for r in rows if r["mode"] == "backward"):
        both = by.get((r["title"], "both", r["dtype"]))
        print(f"| {r['title']} | {r['size']} | {r['dtype']} | {1e3 * r['seconds']['heddle']:.3g} | {1e3 * r['seconds']['eager']:.3g} | "
              f"{ratio(r):.2f} | {ratio(both) if both else math.nan:.2f} |")
    print("\n| step | type | ours, ms | torch.compile, ms | eager, ms | ratio | memory of ours, MB | torch.compile's, MB | time with half |"
          "\n|---|---|---|---|---|---|---|---|---|")
    for r in (r for r in rows if r["mode"] == "step"):
        s, m = r["seconds"], r["memory"]
        print(f"| {r['title']} | {r['dtype']} | {1e3 * s['heddle']:.3g} | {1e3 * s['inductor']:.3g} | {1e3 * s['eager']:.3g} | {ratio(r):.2f} | "
              f"{m['heddle'] / 1e6:.1f} | {m['inductor'] / 1e6:.1f} | " + (f"{s['half'] / s['heddle']:.2f} |" if "half" in s else "does not fit |"))
    print()
    show(rows)


def main():
    listed = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["declare", "run", "table"])
    parser.add_argument("folder", help="the folder of libraries; of `table` the file of results")
    parser.add_argument("--what", type=listed, default=["backward", "steps"])
    parser.add_argument("--only", default="", help="cases whose title has this")
    parser.add_argument("--modes", type=listed, default=["backward", "both", "step"])
    parser.add_argument("--target", help="declare: the machine of the libraries (this one)")
    parser.add_argument("--dtype", default="f32", choices=["f32", "f16", "bf16"])
    parser.add_argument("--layout", default="NCHW", choices=["NCHW", "NHWC"])
    parser.add_argument("--scale", type=int, default=1, help="declare: so many times the images and rows of backward passes")
    parser.add_argument("--image", type=int, default=96, help="declare: the side of ResNet-18's images")
    parser.add_argument("--through-torch", action="store_true",
                        help="run: steps by torch.compile(backend=\"heddle\") too, by AOTAutograd's graphs (needs Heddle's Python package)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"],
                        help="run on a CPU: seconds of the clock, or, of one thread on a busy machine, of the processor")
    parser.add_argument("--seconds", type=float, default=2, help="run: of the turns of each case")
    parser.add_argument("--json", help="run: write the results to this file too")
    options = parser.parse_args()
    if options.command == "declare":
        import declare
        return declare.declare(options)
    return {"run": run, "table": table}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
