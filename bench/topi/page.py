"""The page of the experiment, made of what was kept (kept.py)."""
import math
import pathlib
import re

from cases import CASES
from causes import CAUSES, CAUSES_GPU, LIBRARIES, MISSING

HERE = pathlib.Path(__file__).resolve().parent
NEAR = 0.9  # of the peer's speed
FAMILIES = {family.title: family for family in CASES}


def coverage():
    """(covered, all that are no calls of libraries, those without a family) of schedules.txt."""
    listed = [line.split() for line in (HERE / "schedules.txt").read_text().splitlines()]
    own = [(file, name) for file, name in listed if name not in LIBRARIES]
    have = {name for family in CASES for name in family.schedules}
    missing = sorted({name for _, name in own if name not in have})
    return len([1 for _, name in own if name in have]), len(own), missing


def unknown_schedules():
    return [m for m in coverage()[2] if m not in MISSING]


def milliseconds(row, key):
    return f"{row[key] * 1e3:.3g}" if key in row else "–"


def ratio_of(row):
    return row["torch"] / row["ours"] if "torch" in row else None


def ratio_text(row):
    return f"{ratio_of(row):.2f}" if "torch" in row else "–"


def mean(ratios):
    return f"{math.exp(sum(math.log(r) for r in ratios) / len(ratios)):.2f}" if ratios else "–"


def right_text(row):
    return "yes" if row["right"] else "**no**"


def table(rows):
    lines = ["| family | size | schedules of TOPI | templates | right | ms | PyTorch, ms | ratio |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        family = FAMILIES[row["family"]]
        schedules = f"{len(family.schedules)}: `{family.schedules[0]}`" if family.schedules else "operator without one"
        lines.append(f"| {family.title} | {family.size} | {schedules} | {', '.join(row.get('templates', []))} | {right_text(row)} | "
                     f"{milliseconds(row, 'ours')} | {milliseconds(row, 'torch')} | {ratio_text(row)} |")
    return "\n".join(lines)


def slow_ones(rows, causes):
    lines = [f"- {row['family']}, {ratio_text(row)}: {causes.get(row['family'], 'not known')}."
             for row in rows if "torch" in row and ratio_of(row) < NEAR]
    return "\n".join(lines) or "None."


def table_of_gpu(kept):
    """The section of a GPU, or that there is nothing."""
    rows = kept.rows()
    if not rows:
        return "There are no figures of one yet."
    ratios = [ratio_of(r) for r in rows if "torch" in r]
    lines = [f"{kept.names['machine']}, PyTorch {kept.names['torch']} without tf32: {len(rows)} families ran, {sum(r['right'] for r in rows)} give the "
             f"right answers; of {len(ratios)} that PyTorch has, {sum(r >= NEAR for r in ratios)} are at least {NEAR} times as fast; the geometric mean of the "
             f"ratios is {mean(ratios)}. A peer whose host reads results is called as it is (*); all other calls are CUDA graphs.", "",
             "| family | right | µs | PyTorch, µs | ratio |", "|---|---|---|---|---|"]
    for row in rows:
        peer = f"{row['torch'] * 1e6:.3g}{'' if row['torch_graph'] else '*'}" if "torch" in row else "–"
        lines.append(f"| {row['family']} | {right_text(row)} | {row['ours'] * 1e6:.3g} | {peer} | {ratio_text(row)} |")
    return "\n".join(lines + ["", "Slower there, and why:", "", slow_ones(rows, CAUSES | CAUSES_GPU)])


def page(cpu, gpu):
    rows = cpu.rows()
    covered, count, missing = coverage()
    ratios = [ratio_of(r) for r in rows if "torch" in r]
    lacking = ", ".join(f"`{m}` ({MISSING.get(m, 'no case')})" for m in missing) or "none"
    runs = [cpu.runs(row["family"]) for row in rows] or [0]
    numbers = {"COVERED": covered, "COUNT": count, "SHARE": f"{100 * covered / count:.1f}", "MISSING": lacking,
               "FAMILIES": len(rows), "RIGHT": sum(r["right"] for r in rows), "THREADS": cpu.names["threads"], "RUNS": min(runs),
               "COMPARED": len(ratios), "MEAN": mean(ratios), "NEAR": sum(r >= NEAR for r in ratios), "TORCH": cpu.names["torch"],
               "MACHINE": cpu.names["machine"], "TABLE": table(rows), "SLOW": slow_ones(rows, CAUSES), "GPU": table_of_gpu(gpu)}
    return re.sub(r"\{(\w+)\}", lambda m: str(numbers[m[1]]), (HERE / "page.md").read_text())
