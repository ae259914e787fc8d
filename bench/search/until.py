#!/usr/bin/env python3
"""How well the stopping rule of `heddle tune --until` holds on logs of tuning (src/search/nearness.cpp).

    heddle tune softmax:512x512 --threads 1 --budget 50s --log logs/softmax.jsonl    # and others
    bench/search/until.py logs/*.jsonl

Each log is a search that went on until it gained nothing. At some trials of it the script asks what the rule says from
the trials until then, and compares with what the search found in the end. It prints what was said beside what was true,
what ending at a probability of 0.8 would have given and cost, and what a find saves.
"""
import argparse
import collections
import json
import math
import statistics

CHECKPOINTS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
USED = 0.6  # the last trials of a search that has converged are near by construction
GAIN = 0.01


def curves(files):
    """The best time after each trial, as ratios to the static choice, for each task of each log."""
    tasks = collections.defaultdict(list)
    for file in files:
        with open(file) as lines:
            for line in lines:
                record = json.loads(line)
                if record.get("verdict") == "screened" and record["template"] != "passes":
                    tasks[file, record["hash"]].append(record)
    for key, records in tasks.items():
        best, first, curve = math.inf, None, []
        for r in records:
            if r["error"] == "none":
                seconds, base = statistics.median(r["seconds"]), r.get("base_seconds") or 0
                first = first or base
                best = min(best, seconds / base * first if base > 0 else seconds)
            curve.append(best)
        if len(curve) >= 12 and math.isfinite(curve[0]):
            yield key, curve


class Rule:
    def __init__(self, first, after_gain, half):
        self.first, self.after_gain, self.half = first, after_gain, half

    def walk(self, curve, within):
        share, gained, without = self.first, curve[0], 0
        for n, best in enumerate(curve):
            if best < gained * (1 - GAIN):
                share, gained, without = self.after_gain, best, 0
            elif n:
                without += 1
            p = within / (within + share)
            yield p / (p + (1 - p) * 2 ** (-without / self.half))


def report(rule, all_curves, within):
    bins = collections.defaultdict(lambda: [0, 0, 0.0])
    loss = asked = near = spent = trials = 0
    for curve in all_curves:
        said = list(rule.walk(curve, within))
        true = [best <= (1 + within) * curve[-1] for best in curve]
        points = [n for n in CHECKPOINTS if n < USED * len(curve)]
        for n in points:  # each search counts once
            one, p = bins[int(10 * said[n])], min(max(said[n], 1e-3), 1 - 1e-3)
            for i, value in enumerate((1, true[n], said[n])):
                one[i] += value / len(points)
            loss -= math.log(p if true[n] else 1 - p) / len(points)
        asked += bool(points)
        end = next((n for n, p in enumerate(said) if p >= 0.8), len(curve) - 1)
        near, spent, trials = near + true[end], spent + end + 1, trials + len(curve)
    print(f"within {within:.0%}: log loss {loss / asked:.3f}; ended at 0.8: {near / len(all_curves):.2f} were near, "
          f"after {spent / trials:.2f} of the trials")
    print("  said  true  searches")
    for _, (count, is_near, says) in sorted(bins.items()):
        print(f"  {says / count:.2f}  {is_near / count:.2f}  {count:.1f}")


def finds(rule, all_curves):
    """What further trials saved, over the probability that they find something."""
    for more in (32, 64, 128):
        expected = saved = 0
        for curve in all_curves:
            said = list(rule.walk(curve, 0.05))
            for n in (1, 8, 16, 32, 64, 128, 256):
                if n + more < len(curve):
                    expected += (1 - said[n]) * (1 - 2 ** (-more / rule.half))
                    saved += 1 - curve[n + more] / curve[n]
        print(f"{more} more trials: a find saves {saved / expected:.3f} of the time")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--first", type=float, default=0.07, help="s of the static choice")
    parser.add_argument("--after-gain", type=float, default=0.05, help="s after a gain")
    parser.add_argument("--half", type=float, default=48, help="h, in trials")
    args = parser.parse_args()
    rule = Rule(args.first, args.after_gain, args.half)
    all_curves = [curve for _, curve in curves(args.logs)]
    print(f"{len(all_curves)} searches")
    for within in (0.02, 0.05, 0.1, 0.2):
        report(rule, all_curves, within)
    finds(rule, all_curves)


if __name__ == "__main__":
    main()
