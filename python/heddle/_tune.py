"""Tuning: progress, Ctrl-C, and tuning of one declaration."""

import re
import sys

from . import _heddle
from ._errors import Error

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds_of(budget):
    """Seconds of a budget: a number, or a text such as "90s", "5m" or "1h30m"."""
    if isinstance(budget, (int, float)):
        return float(budget)
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms]?)", budget)
    if not parts or "".join(n + u for n, u in parts) != budget:
        raise Error(f"'{budget}' is no time", help="write seconds (90 or 90s), minutes (2m) or hours (1h30m)")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


class _Bar:
    """A bar of tqdm where it is installed, else a line on standard error each ten seconds."""

    def __init__(self, seconds, show):
        self.seconds, self.bar, self.said = seconds, None, 0.0
        self.lines = show
        if not show:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self.bar = tqdm(total=round(seconds, 1), unit="s", desc="tuning", leave=False, bar_format="{l_bar}{bar}| {n:.0f}/{total:.0f} s{postfix}")

    def show(self, p):
        text = f"{p.phase}, {p.trials} trials"
        if p.best_seconds > 0:
            text += f", {1e3 * p.static_seconds:.3f} -> {1e3 * p.best_seconds:.3f} ms"
        if self.bar is not None:
            self.bar.n = min(round(p.elapsed_seconds, 1), self.seconds)
            self.bar.set_postfix_str(text)
        elif self.lines and p.elapsed_seconds - self.said >= 10:
            self.said = p.elapsed_seconds
            print(f"[{p.elapsed_seconds:.0f} s of {self.seconds:.0f}] {text}", file=sys.stderr)

    def close(self):
        if self.bar is not None:
            self.bar.close()


def watch(run, seconds, progress):
    """Waits for a run and shows its progress. Returns its result and the report, whose `history` has the seconds, the
    static and the best time of each look. The first Ctrl-C ends it, and what was found is kept; a second one raises."""
    call = progress if callable(progress) else None
    bar = _Bar(seconds, bool(progress) and call is None)
    history = []
    cancelled = False
    try:
        while True:
            try:
                ended = run.wait(0.2)
                now = run.progress()
                (call or bar.show)(now)
                if now.best_seconds > 0 and now.static_seconds > 0:
                    history.append((now.elapsed_seconds, now.static_seconds, now.best_seconds))
                if ended:
                    result = run.result()
                    report = result.report
                    report.history = history
                    return result, report
            except KeyboardInterrupt:
                run.cancel()
                if cancelled:
                    raise
                cancelled = True
    finally:
        bar.close()


class TuneResult:
    """What tuning a declaration found: `schedule`, and the `report` of all of it."""

    def __init__(self, schedule, report):
        self.schedule, self.report = schedule, report

    def __str__(self):
        return str(self.report)

    __repr__ = __str__

    def plot(self, axes=None):
        """What was saved over the seconds of the run, by matplotlib. Returns the axes."""
        return self.report.plot(axes)


def tune(outputs, budget="60s", *, log=None, target=None, max_trials=0, until=0, seed=0, progress=True, **options):
    """Searches for a better schedule than the static one.

    budget     seconds, or a text such as "5m"
    log        a file to go on from and to append measurements to
    until      0.05: end when the result is probably within 5 % of what more tuning would find; 0: at the end of the budget
    progress   True: a bar; False: nothing; or a function that is called with a TuneProgress five times a second
    options    of the scheduler, as for create_schedule

    The schedule of the result is never slower than the static choice. Ctrl-C ends the search and keeps what was found.
    """
    seconds = seconds_of(budget)
    run = _heddle._tune_outputs(outputs, seconds, str(log or ""), max_trials, until, seed, target, options)
    tuned, report = watch(run, seconds, progress)
    return TuneResult(tuned.schedule, report)
