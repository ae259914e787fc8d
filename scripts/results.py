#!/usr/bin/env python3
"""Tables and the picture of results, made of the measurements in bench/results.

    scripts/results.py                     writes docs/results.svg and the tables between the marks of the pages
    scripts/results.py --check             status 1 where one of them differs from the measurements
    scripts/results.py cpu             measures this machine (kernels and networks, at most 40 minutes), and writes
    scripts/results.py gpu             bench/results/cpu-*.json or gpu-*.json (at most 8 minutes); measure_set.py says what

A measurement needs a build with benchmarks (HEDDLE_BUILD_BENCH), and for networks bench/networks/requirements.txt in
the Python that runs this; or --build names a bundle. --lists matmul,networks and --networks resnet50,bert make it shorter, --minutes gives another
limit. A file has the machine, date, commit, choice ("not tuned"), the peers with their versions and settings, the commands,
and groups of subjects. A group has the time of ours and of the best peer for each subject, in one unit; or, where these
were not kept, the geometric mean of the peer's time over ours ("ratio") and that of the worst subject ("least").
"""
import argparse
import html
import json
import math
import pathlib
import sys

import measure_set

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/results.svg"
PAGES = [ROOT / "docs/measurements/benchmarks.md"]
BEGIN, END = "<!-- results: scripts/results.py writes these tables -->\n", "<!-- results: end -->\n"
ROW, TOP, LEFT, WIDTH, RIGHT = 22, 88, 270, 360, 290
LOW, HIGH = 0.3, 5.0
TICKS = (0.3, 0.5, 1, 2, 3, 5)
# Light and dark: the chart has a background of its own, so it is readable on any page.
STYLE = """
  .page { fill: #ffffff; } text { fill: #1f2328; } .soft { fill: #59636e; } .grid { stroke: #d8dee4; }
  .one { stroke: #1f2328; } .ahead { fill: #1f6fbf; } .behind { fill: #c4560a; }
  .least { fill: #ffffff; } .least.ahead { stroke: #1f6fbf; } .least.behind { stroke: #c4560a; }
  .span { stroke: #aab4be; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .soft { fill: #9198a1; } .grid { stroke: #30363d; }
    .one { stroke: #e6edf3; } .ahead { fill: #58a6ff; } .behind { fill: #f0883e; }
    .least { fill: #0d1117; } .least.ahead { stroke: #58a6ff; } .least.behind { stroke: #f0883e; }
    .span { stroke: #59636e; }
  }
"""


def x_of(ratio):
    clamped = min(max(ratio, LOW), HIGH)
    return LEFT + math.log(clamped / LOW) / math.log(HIGH / LOW) * WIDTH


def side(ratio):
    return "ahead" if ratio >= 1 else "behind"


def text(x, y, words, extra=""):
    return f'<text x="{x}" y="{y}" {extra}>{html.escape(words)}</text>'


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def figures_of(group):
    """(geometric mean, least, most) of the ratios; the last is None where the subjects were not kept."""
    if "results" not in group:
        return group["ratio"], group["least"], None
    ratios = [r["peer"] / r["ours"] for r in group["results"]]
    return geometric_mean(ratios), min(ratios), max(ratios)


def row_of(group, y):
    ratio, least, _ = figures_of(group)
    middle = y + ROW / 2
    return [
        text(LEFT - 12, middle + 4, group["name"], 'text-anchor="end"'),
        f'<line class="span" x1="{x_of(least):.1f}" x2="{x_of(ratio):.1f}" y1="{middle}" '
        f'y2="{middle}" stroke-width="2"/>',
        f'<circle class="least {side(least)}" cx="{x_of(least):.1f}" cy="{middle}" r="3.5" '
        'stroke-width="1.5" style="fill-opacity:1"/>',
        f'<circle class="{side(ratio)}" cx="{x_of(ratio):.1f}" cy="{middle}" r="5"/>',
        text(LEFT + WIDTH + 14, middle + 4, f"{ratio:.2f}", 'font-weight="bold"'),
        text(LEFT + WIDTH + 52, middle + 4, group["peer"], 'class="soft"'),
    ]


def chart(files):
    body, y = [], TOP
    for file in files:
        commit = "" if " " in file["commit"] else f", commit {file['commit']}"
        words = f"{file['machine']}: {file['choice']} ({file['date']}{commit})"
        body.append(f'<rect class="page" x="16" y="{y + 2}" width="{7 * len(words)}" height="20"/>')
        body.append(text(16, y + 17, words, 'font-weight="bold"'))
        y += ROW + 4
        for group in file["groups"]:
            body += row_of(group, y)
            y += ROW
    grid = []
    for tick in TICKS:
        kind, wide = ("one", 1.4) if tick == 1 else ("grid", 1)
        grid.append(
            f'<line class="{kind}" x1="{x_of(tick):.1f}" x2="{x_of(tick):.1f}" y1="{TOP - 6}" '
            f'y2="{y + 4}" stroke-width="{wide}"/>'
        )
        grid.append(text(f"{x_of(tick):.1f}", y + 20, f"{tick:g}", 'text-anchor="middle"'))
    axis = "time of the best peer / time of Heddle (ratio, logarithmic axis); above 1 Heddle is faster"
    head = [
        text(16, 26, "Heddle beside other libraries", 'font-size="16" font-weight="bold"'),
        text(16, 46, "Geometric mean of each group, and the worst of it. Measured in turns, and results compared.", 'class="soft"'),
        '<circle class="ahead" cx="22" cy="64" r="5"/>', text(34, 68, "geometric mean"),
        '<circle class="least ahead" cx="152" cy="64" r="3.5" stroke-width="1.5"/>',
        text(164, 68, "worst of the group"),
        '<circle class="behind" cx="302" cy="64" r="5"/>', text(314, 68, "behind the peer"),
        text(LEFT + WIDTH + 14, 68, "mean"), text(LEFT + WIDTH + 52, 68, "peer", 'class="soft"'),
    ]
    foot = [text(LEFT + WIDTH / 2, y + 40, axis, 'text-anchor="middle"')]
    width, height = LEFT + WIDTH + RIGHT, y + 54
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        "<title>The time of other libraries over that of Heddle, by group of subjects</title>",
        f"<style>{STYLE}</style>",
        '<rect class="page" width="100%" height="100%" rx="8"/>', *head, *grid, *body, *foot,
        "</svg>", ""])


def table_of(file):
    lines = [f"**{file['machine']}**: {file['choice']}; {file['date']}, commit {file['commit']}. Peers: {file['peers']}.", "",
             "| group | peer | geometric mean | least | most |", "|---|---|---|---|---|"]
    for group in file["groups"]:
        mean, least, most = figures_of(group)
        lines.append(f"| {group['name']} | {group['peer']} | {mean:.2f} | {least:.2f} | {most:.2f} |" if most else
                     f"| {group['name']} | {group['peer']} | {mean:.2f} | {least:.2f} | not kept |")
    left_out = [f"Left out: {line}" for line in file.get("left_out", [])]
    return "\n".join([*lines, "", "```", *file["commands"], *left_out, "```", "", ""])


def read_files():
    """Those of CPUs, then those of GPUs."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "bench/results").glob("*.json"))]


def write(check):
    files, stale = read_files(), []
    wanted = {PICTURE: chart(files)}
    for page in PAGES:
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        wanted[page] = before + BEGIN + "\n" + "".join(map(table_of, files)) + END + rest.partition(END)[2]
    for path, content in wanted.items():
        if path.exists() and path.read_text(encoding="utf-8") == content:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not check:
            path.write_text(content, encoding="utf-8")
    if check and stale:
        sys.exit(f"not as bench/results says: {', '.join(stale)}; scripts/results.py writes them")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", choices=["cpu", "gpu"])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", help="the file; default: named after the machine, in bench/results")
    parser.add_argument("--machine", help="its name; default: what the system says")
    parser.add_argument("--build", default="build", help="a folder with bin/heddle and lib, or a bundle (scripts/bundle.sh)")
    parser.add_argument("--threads", default="2", help="of a CPU")
    parser.add_argument("--minutes", type=float, help="40 for a CPU, 8 for a GPU")
    parser.add_argument("--lists", type=lambda t: t.split(","), help="of measure_set.py, in place of all")
    parser.add_argument("--networks", type=lambda t: t.split(","), default=measure_set.NETWORKS)
    o, o.options = parser.parse_known_args()  # further options are those of the benchmark
    if o.options and not o.set:
        parser.error(f"there is no option {o.options[0]}")
    o.minutes = o.minutes or (40 if o.set == "cpu" else 8)
    measure_set.measure(o) if o.set else write(o.check)


if __name__ == "__main__":
    main()
