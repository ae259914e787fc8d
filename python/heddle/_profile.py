"""Where the time of a call is spent."""

import html
import json

from ._errors import Error
from ._pictures import new_axes, plot_roofline


class Profile:
    """The times of the parts of a call, in seconds.

    rows        a dict for each node: "name", "share", "in_network_s", "alone_s", "cold_s", "flops", "bytes"
    call_s      the median time of a whole call
    """

    def __init__(self, text, data):
        self._text, self.data = text, data
        self.rows, self.call_s = data["nodes"], data["call_s"]

    def __str__(self):
        return self._text

    __repr__ = __str__

    def to_dataframe(self):
        """The rows as a data frame of pandas."""
        import pandas

        return pandas.DataFrame(self.rows)

    def plot(self, axes=None, kind="shares"):
        """The share of each node as bars; or with kind="roofline" the speed of each over its intensity, beneath the speed that the
        machine allows it. By matplotlib. Returns the axes."""
        if kind == "roofline":
            return plot_roofline(self.rows, axes)
        if kind != "shares":
            raise Error(f"there is no plot '{kind}'", help="it is one of shares, roofline")
        axes = axes or new_axes()
        rows = [row for row in self.rows if row["share"] >= 0.01][::-1]
        axes.barh([row["name"] for row in rows], [100 * row["share"] for row in rows])
        axes.set_xlabel("share of the time in %")
        return axes

    def _repr_html_(self):
        names = list(self.rows[0]) if self.rows else []
        cell = lambda value: f"{value:.4g}" if isinstance(value, float) else html.escape(str(value))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{cell(row.get(name, ''))}</td>" for name in names) + "</tr>" for row in self.rows)
        return f"<p>a call: {1e3 * self.call_s:.3f} ms</p><table><tr>{head}</tr>{body}</table>"


def profile(kernel, *inputs, seconds=1.0):
    """Measures where the time of a call of a kernel with these inputs is spent, for about `seconds`."""
    text, data = kernel._profile(*inputs, seconds=seconds)
    return Profile(text, json.loads(data))
