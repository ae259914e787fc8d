#!/usr/bin/env python3
"""Simulates a fleet of up to 1,000 nodes: what limits it, and from which size on.

    simulate.py [--log dense.jsonl] [--nodes 1,4,16,64,256,1000] [--seconds 120] [--search 3.5] [--seed 1]

The rules are those of src/measure/fleet_measurer.cpp and src/search/tuner.cpp: batches, rounds of
half a second, two of them for each device, late rounds given to idle devices, and a search that
waits for the end of a batch. Times of trials are drawn from the records of a log, else from the
quantiles below. Costs of the driver are measured (docs/fleet.md says how).
"""
import argparse
import heapq
import json
import math
import random

# Milliseconds on a device, measured: quantiles 0, 10, ..., 100 % of matmul:512x512x512 on one core.
TRIAL_MS = (9, 14, 17, 20, 24, 30, 38, 52, 75, 120, 900)
# Milliseconds of the driver: a round sent and answered, a trial in it, and a candidate proposed and
# learned from.
ROUND_MS, TRIAL_COST_MS, SEARCH_MS = 0.6, 0.12, 3.5
LATENCY_MS = 2.0
# Shares and rates that clusters show: trials that fail, hours between deaths of a node, seconds
# until one is noticed and replaced, share of nodes that are slow, and how slow.
FAIL_SHARE, HOURS_TO_DEATH, DEATH_SECONDS, SLOW_SHARE, SLOWNESS = 0.03, 48, 30, 0.01, 10

ROUND_SECONDS, LARGEST_ROUND, ROUNDS_EACH = 0.5, 64, 2
STRAGGLES, STRAGGLE_SECONDS = 3, 1
BATCH, EACH_AT_ONCE, SMALL_ROUNDS = 32, 8, 7


class Times:
    """Draws seconds of a trial."""

    def __init__(self, log):
        self.known = []
        if log:
            with open(log) as lines:
                for line in lines:
                    record = json.loads(line)
                    if not record["protocol"].startswith(("race", "chosen")):
                        self.known.append(record["measure_seconds"])

    def draw(self):
        if self.known:
            return random.choice(self.known)
        at = random.random() * (len(TRIAL_MS) - 1)
        low = int(at)
        ratio = TRIAL_MS[low + 1] / TRIAL_MS[low]
        return 1e-3 * TRIAL_MS[low] * ratio ** (at - low)


class Device:
    def __init__(self):
        self.slow = SLOWNESS if random.random() < SLOW_SHARE else 1
        self.free_at = self.busy = 0.0
        self.rounds = 0
        self.dies_at = random.expovariate(1 / (3600 * HOURS_TO_DEATH))


class Fleet:
    def __init__(self, devices, times, search_ms):
        self.times, self.search = times, 1e-3 * search_ms
        self.devices = [Device() for _ in range(devices)]
        self.mean = 0.05
        self.now = self.driver = 0.0  # the driver's clock, and how long it worked
        self.trials = self.deaths = self.doubled = 0
        self.waits = {"search": 0.0, "tail of a batch": 0.0}

    def work(self, seconds):
        self.now += seconds
        self.driver += seconds

    def send(self, device, trials, events):
        self.work(1e-3 * (ROUND_MS + TRIAL_COST_MS * len(trials)) / 2)
        begin = max(self.now + 1e-3 * LATENCY_MS, device.free_at)
        seconds = sum(self.times.draw() for _ in trials) * device.slow
        end = begin + seconds
        dead = end > device.dies_at
        if dead:
            end = max(device.dies_at, begin) + DEATH_SECONDS
            device.dies_at = end + random.expovariate(1 / (3600 * HOURS_TO_DEATH))
        else:
            device.busy += seconds
        device.free_at = end
        device.rounds += 1
        heapq.heappush(events, (end + 1e-3 * LATENCY_MS, next(self.numbers), device, trials, self.now, dead))

    def round_size(self, left):
        fair = math.ceil(left / len(self.devices) / ROUNDS_EACH)
        return max(1, min(int(ROUND_SECONDS / self.mean), fair, LARGEST_ROUND))

    def measure(self, count):
        self.numbers = iter(range(1 << 60))
        waiting, left, out = list(range(count)), count, {}
        done, events = set(), []
        idle_since = None
        while left > 0:
            for device in sorted(self.devices, key=lambda d: d.rounds):
                while waiting and device.rounds < ROUNDS_EACH:
                    size = min(self.round_size(left), len(waiting))
                    trials, waiting = waiting[:size], waiting[size:]
                    self.send(device, trials, events)
                if not waiting:
                    break
            if not waiting:
                idle_since = self.now if idle_since is None else idle_since
                self.back_up(events, done, out)
            at, _, device, trials, sent, dead = heapq.heappop(events)
            self.now = max(self.now, at)
            self.work(1e-3 * (ROUND_MS + TRIAL_COST_MS * len(trials)) / 2)
            device.rounds -= 1
            if dead:
                self.deaths += 1
                waiting += [t for t in trials if t not in done]
                continue
            fresh = [t for t in trials if t not in done]
            done.update(fresh)
            left -= len(fresh)
            self.mean = 0.8 * self.mean + 0.2 * (at - sent) / len(trials) / max(1, device.rounds + 1)
        for _, _, device, *_ in events:  # rounds of which nobody wants the answer any more
            device.rounds -= 1
        self.trials += count
        if idle_since is not None:
            self.waits["tail of a batch"] += self.now - idle_since

    def back_up(self, events, done, out):
        idle = [d for d in self.devices if d.rounds == 0]
        # What is noticed only when the next message comes is noticed in time with many devices.
        for event in sorted(events, key=lambda e: e[4]):
            at, number, _, trials, sent, _ = event
            late = sent + STRAGGLES * self.mean * len(trials) + STRAGGLE_SECONDS
            if not idle or number in out or at < late:
                continue
            missing = [t for t in trials if t not in done]
            if not missing:
                continue
            out[number] = True
            self.doubled += len(missing)
            before, self.now = self.now, max(self.now, late)
            self.send(idle.pop(), missing, events)
            self.now = before

    def run(self, seconds):
        rounds = 0
        while self.now < seconds:
            count = max(BATCH, EACH_AT_ONCE * (len(self.devices) - 1))
            count = (count + 1) // 2 if rounds < SMALL_ROUNDS else count
            before = self.now
            self.work(self.search * count)
            self.waits["search"] += self.now - before
            self.measure(count)
            rounds += 1
        return self


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log")
    parser.add_argument("--nodes", default="1,4,16,64,256,1000")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--search", type=float, default=SEARCH_MS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{'nodes':>6} {'trials/s':>9} {'each':>7} {'used':>6} {'driver':>7} {'search':>7} {'tail':>6} {'deaths':>7} {'twice':>6}")
    alone = None
    for nodes in (int(n) for n in options.nodes.split(",")):
        random.seed(options.seed)
        fleet = Fleet(nodes, Times(options.log), options.search).run(options.seconds)
        rate = fleet.trials / fleet.now
        alone = alone or rate / nodes
        used = sum(d.busy for d in fleet.devices) / nodes / fleet.now
        print(
            f"{nodes:>6} {rate:>9.0f} {rate / nodes / alone:>6.0%} {used:>6.0%} {fleet.driver / fleet.now:>7.0%}"
            f" {fleet.waits['search'] / fleet.now:>7.0%} {fleet.waits['tail of a batch'] / fleet.now:>6.0%}"
            f" {fleet.deaths:>7} {fleet.doubled / fleet.trials:>6.1%}"
        )


if __name__ == "__main__":
    main()
