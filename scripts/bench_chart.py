#!/usr/bin/env python3
"""Draws the results of `heddle bench --json` or bench/gpu/side_by_side.py --json as an SVG: for each
subject the best peer's time over ours, static and tuned, on a logarithmic axis; right of the line at 1
Heddle is faster.

    scripts/bench_chart.py results.json chart.svg [--title TEXT] [--threads N]
"""
import argparse
import html
import json
import math
import sys

OURS = ("static", "tuned")
COLOURS = {"static": "#8fb3d9", "tuned": "#1f5fa8"}
ROW, TOP, LEFT, WIDTH, RIGHT = 19, 66, 390, 430, 90


def rows_of(document, threads):
    """[(label, {"static": ratio, "tuned": ratio})] of the subjects that have a peer."""
    rows = []
    for result in document["results"]:
        if threads and result.get("threads", threads) != threads:
            continue
        times = result.get("times_ms") or result.get("us") or {}
        peers = [t for name, t in times.items() if name not in OURS and name != "naive"]
        ratios = {name: min(peers) / times[name] for name in OURS if name in times} if peers else {}
        if not ratios:
            continue
        dtype = result.get("dtype", "f32")
        label = result["subject"] + ("" if dtype == "f32" else " " + dtype)
        rows.append((label.replace(",layout=nhwc", "").replace("n=1,", ""), ratios))
    return rows


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def chart(rows, title, note):
    ratios = [r for _, both in rows for r in both.values()]
    low, high = min(0.5, min(ratios)), max(2.0, max(ratios))
    scale = WIDTH / math.log(high / low)
    x_of = lambda r: LEFT + math.log(r / low) * scale  # noqa: E731
    height = TOP + ROW * len(rows) + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{height}" '
           'font-family="Helvetica, Arial, sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="#ffffff"/>',
           f'<text x="12" y="20" font-size="15" font-weight="bold">{html.escape(title)}</text>',
           f'<text x="12" y="37" fill="#555555">{html.escape(note)}</text>']
    x = LEFT
    for name in OURS:
        values = [both[name] for _, both in rows if name in both]
        if not values:
            continue
        text = f"{name}, geometric mean {geometric_mean(values):.2f}"
        out.append(f'<circle cx="{x}" cy="48" r="4.5" fill="{COLOURS[name]}"/>'
                   f'<text x="{x + 9}" y="52">{text}</text>')
        x += 190
    bottom = TOP + ROW * len(rows)
    for tick in (0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20):
        if not low <= tick <= high:
            continue
        colour, wide = ("#333333", 1.4) if tick == 1 else ("#dddddd", 1)
        out.append(f'<line x1="{x_of(tick):.1f}" x2="{x_of(tick):.1f}" y1="{TOP - 6}" y2="{bottom}" '
                   f'stroke="{colour}" stroke-width="{wide}"/><text x="{x_of(tick):.1f}" '
                   f'y="{bottom + 15}" text-anchor="middle" fill="#555555">{tick:g}x</text>')
    for i, (label, both) in enumerate(rows):
        y = TOP + ROW * i + ROW / 2
        out.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{html.escape(label)}</text>')
        ends = [x_of(r) for r in both.values()]
        out.append(f'<line x1="{min(ends):.1f}" x2="{max(ends):.1f}" y1="{y}" y2="{y}" '
                   'stroke="#b8c4d0" stroke-width="2"/>')
        for name in OURS:
            if name in both:
                out.append(f'<circle cx="{x_of(both[name]):.1f}" cy="{y}" r="4.5" '
                           f'fill="{COLOURS[name]}"/>')
        best = max(both.values())
        out.append(f'<text x="{LEFT + WIDTH + 12}" y="{y + 4}" '
                   f'fill="{"#1a7f37" if best >= 1 else "#b35900"}">{best:.2f}x</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("svg")
    parser.add_argument("--title", default="Heddle beside the best peer")
    parser.add_argument("--threads", type=int, default=0, help="only results of so many threads")
    o = parser.parse_args()
    try:
        with open(o.results, encoding="utf-8") as f:
            document = json.load(f)
        rows = rows_of(document, o.threads)
    except (OSError, ValueError, KeyError, TypeError) as e:
        print(f"bench_chart.py: cannot read the results of '{o.results}': {e}", file=sys.stderr)
        return 2
    if not rows:
        print(f"bench_chart.py: '{o.results}' has no subject with a peer", file=sys.stderr)
        return 2
    machine = document.get("gpu") or "{cpu}, {target}".format(**document["machine"])
    note = f"{machine}: the best peer's time over ours; right of 1 Heddle is faster"
    with open(o.svg, "w", encoding="utf-8") as f:
        f.write(chart(rows, o.title, note))
    return 0


if __name__ == "__main__":
    sys.exit(main())
