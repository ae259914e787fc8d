#!/usr/bin/env python3
"""Draws docs/results.csv as docs/results.svg, the picture of README.md: for each group of subjects the
geometric mean of the best peer's time over Heddle's, and the worst subject, on a logarithmic axis.

    scripts/results_chart.py [docs/results.csv docs/results.svg]
"""
import csv
import html
import math
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
ROW, TOP, LEFT, WIDTH, RIGHT = 22, 88, 270, 360, 290
LOW, HIGH = 0.1, 3.0
TICKS = (0.1, 0.2, 0.5, 1, 2, 3)
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


def row_of(row, y):
    ratio, least = float(row["ratio"]), float(row["least"])
    middle = y + ROW / 2
    return [
        text(LEFT - 12, middle + 4, row["group"], 'text-anchor="end"'),
        f'<line class="span" x1="{x_of(least):.1f}" x2="{x_of(ratio):.1f}" y1="{middle}" '
        f'y2="{middle}" stroke-width="2"/>',
        f'<circle class="least {side(least)}" cx="{x_of(least):.1f}" cy="{middle}" r="3.5" '
        'stroke-width="1.5" style="fill-opacity:1"/>',
        f'<circle class="{side(ratio)}" cx="{x_of(ratio):.1f}" cy="{middle}" r="5"/>',
        text(LEFT + WIDTH + 14, middle + 4, f"{ratio:.2f}", 'font-weight="bold"'),
        text(LEFT + WIDTH + 52, middle + 4, row["peer"], 'class="soft"'),
    ]


def chart(rows):
    body, y, machine = [], TOP, None
    for row in rows:
        if row["machine"] != machine:
            machine = row["machine"]
            words = machine.replace(" - ", ", ")
            body.append(f'<rect class="page" x="16" y="{y + 2}" width="{8 * len(words)}" height="20"/>')
            body.append(text(16, y + 17, words, 'font-weight="bold"'))
            y += ROW + 4
        body += row_of(row, y)
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
        text(16, 26, "Heddle beside the best library", 'font-size="16" font-weight="bold"'),
        text(16, 46, "Geometric mean of each group of subjects. One process, interleaved rounds, "
             "results compared.", 'class="soft"'),
        '<circle class="ahead" cx="22" cy="64" r="5"/>', text(34, 68, "geometric mean"),
        '<circle class="least ahead" cx="152" cy="64" r="3.5" stroke-width="1.5"/>',
        text(164, 68, "worst subject"),
        '<circle class="behind" cx="272" cy="64" r="5"/>', text(284, 68, "behind the peer"),
        text(LEFT + WIDTH + 14, 68, "mean"), text(LEFT + WIDTH + 52, 68, "peer", 'class="soft"'),
    ]
    foot = [text(LEFT + WIDTH / 2, y + 40, axis, 'text-anchor="middle"')]
    width, height = LEFT + WIDTH + RIGHT, y + 54
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f"<style>{STYLE}</style>",
        '<rect class="page" width="100%" height="100%" rx="8"/>', *head, *grid, *body, *foot,
        "</svg>", ""])


def main():
    paths = [pathlib.Path(p) for p in sys.argv[1:]] or [DOCS / "results.csv", DOCS / "results.svg"]
    if len(paths) != 2:
        sys.exit(__doc__)
    with open(paths[0], encoding="utf-8") as f:
        rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    if not rows:
        sys.exit(f"results_chart.py: '{paths[0]}' has no rows")
    paths[1].write_text(chart(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
