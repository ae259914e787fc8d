#!/usr/bin/env python3
"""Prints the trials per second of tuning logs while the search was running.

    log_rate.py run.jsonl ... [--skip 3]

The start of a fleet and the final race are left out: the time is that from some seconds (--skip) after the first trial
until the last one. Times in logs are whole seconds.
"""
import argparse
import collections
import json
import pathlib


def trials_of(path):
    """(second, device) of all trials, races left out."""
    for line in pathlib.Path(path).read_text().splitlines():
        record = json.loads(line)
        if record["verdict"] == "screened":
            yield record["time"], record["machine"].rpartition(" at ")[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--skip", type=int, default=3)
    options = parser.parse_args()
    for path in options.logs:
        trials = sorted(trials_of(path))
        begin, end = trials[0][0] + options.skip, trials[-1][0]
        counted = [device for second, device in trials if begin <= second < end]
        rate = len(counted) / max(1, end - begin)
        devices = ", ".join(f"{n} on {device}" for device, n in sorted(collections.Counter(counted).items()))
        print(f"{path}: {rate:.1f} trials/s in {end - begin} s ({devices})")


if __name__ == "__main__":
    main()
