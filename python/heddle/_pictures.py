"""Pictures of schedules, of tuning and of what a machine allows, by matplotlib. All return the axes."""

import json

from . import _heddle

_COLOURS = {"parallel": "#b9cde5", "vectorized": "#bfe0b5", "unrolled": "#f8e9a8", "serial": "#e6e3e1"}
_OTHER_LOOPS, _MEMORY = "#ddc6d8", "#fcd3a4"


def new_axes(**figure):
    """Axes of a figure of their own."""
    from matplotlib import pyplot

    return pyplot.figure(**figure).gca()


def _label(node):
    if "loop" in node:
        return f"{node['loop']} {node['var']}: {node['extent']}", _COLOURS.get(node["loop"], _OTHER_LOOPS)
    return f"{node['of']} in {node['memory']} memory", _MEMORY


def _rows(nodes):
    """The lines of a nest, outermost first: the depth, the text, the colour, and how many lines it spans."""
    lines, last = [], None
    for node in nodes:
        if "store" in node:
            if node["store"] != last:
                lines.append((0, node["store"] + " = ...", None, 1))
            last = node["store"]
            continue
        last = None
        inside = [(depth + 1, *rest) for depth, *rest in _rows(node["inside"])]
        lines += [(0, *_label(node), 1 + len(inside)), *inside]
    return lines


def plot_schedule(self, axes=None):
    """The loops of a schedule as nested boxes, the outermost on top: what is in a box runs in each iteration. The colours are those
    of parallel, vectorized, unrolled, serial and other loops, and of memory that a part of the loops has."""
    lines = _rows(json.loads(_heddle._nest_of(self)))
    axes = axes or new_axes(figsize=(8, 0.3 * len(lines) + 0.5))
    deepest = max((depth for depth, *_ in lines), default=0) + 4
    for y, (depth, text, colour, span) in enumerate(lines):
        if colour is not None:
            axes.add_patch(_box(depth, y, deepest - depth, span, colour))
        axes.text(depth + 0.1, y + 0.5, text, va="center", fontsize=9)
    axes.set_xlim(0, deepest)
    axes.set_ylim(len(lines), 0)
    axes.set_axis_off()
    return axes


def _box(x, y, width, height, colour):
    from matplotlib.patches import Rectangle

    return Rectangle((x + 0.03, y + 0.06), width - 0.06, height - 0.12, facecolor=colour, edgecolor="white")


def plot_tuning(self, axes=None):
    """The time of a call with the best so far, over the seconds of the run: in percent of the static choice's, of those kernels
    that are measured by then."""
    axes = axes or new_axes()
    history = getattr(self, "history", [])
    axes.step([s for s, *_ in history], [100 * best / static for _, static, best in history], where="post", label="best so far")
    axes.axhline(100, linestyle="--", color="grey", label="static choice")
    axes.set(xlabel="seconds of tuning", ylabel="time of a call in %")
    axes.set_ylim(bottom=0)
    axes.legend()
    return axes


def plot_roofline(rows, axes=None):
    """Points are nodes: operations a second over operations a byte. The line above is what the machine allows each of them."""
    rows = sorted((r for r in rows if r["flops"] > 0 and r["bytes"] > 0), key=lambda r: r["flops"] / r["bytes"])
    axes = axes or new_axes()
    bounded = [r for r in rows if r["least_s"] > 0]
    axes.plot([r["flops"] / r["bytes"] for r in bounded], [1e-9 * r["flops"] / r["least_s"] for r in bounded], "_-", color="grey",
              markersize=14, label="what the machine allows")
    axes.plot([r["flops"] / r["bytes"] for r in rows], [1e-9 * r["flops"] / r["in_network_s"] for r in rows], "o", label="nodes")
    axes.set(xscale="log", yscale="log", xlabel="operations a byte", ylabel="GFLOP/s")
    low, high = axes.get_ylim()
    axes.set_ylim(low / 5, high * 5)
    axes.legend()
    return axes
