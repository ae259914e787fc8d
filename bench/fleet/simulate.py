#!/usr/bin/env python3
"""Simulates a fleet of up to 1,000 nodes: what limits it, and from which size on.

    simulate.py [--log dense.jsonl] [--nodes 1,4,16,64,256,1000] [--seconds 120] [--search 3.5] [--seed 1]

The rules are those of src/measure/fleet/measurer.cpp and src/search/tuner.cpp: batches, rounds of
half a second, two of them for each device, late rounds given to idle devices, a search that waits
for the end of a batch, and the next batch announced before it. Times of trials are drawn from the
records of a log, else from the quantiles below. The driver's cost of a trial is measured
(docs/guide/fleets.md says how); its cost of a round, latencies, deaths and slow nodes are assumptions.
"""
import argparse
import heapq
import json
import math
import random

# Milliseconds on a device, assumed: quantiles 0, 10, ..., 100 % of matmul:512x512x512 on one core.
TRIAL_MS = (9, 14, 17, 20, 24, 30, 38, 52, 75, 120, 900)
# Milliseconds of the driver: a round sent and answered, a trial in it, and a candidate
# proposed and learned from (where the time of `heddle tune` went).
ROUND_MS, TRIAL_COST_MS, SEARCH_MS = 0.6, 0.2, 3.5
LATENCY_MS = 2.0
# Shares and rates that clusters show: trials that fail, hours between deaths of a node, seconds
# until one is noticed and replaced, share of nodes that are slow, and how slow.
FAIL_SHARE, HOURS_TO_DEATH, DEATH_SECONDS, SLOW_SHARE, SLOWNESS = 0.03, 48, 30, 0.01, 10

ROUND_SECONDS, LARGEST_ROUND, ROUNDS_EACH = 0.5, 64, 2
STRAGGLES, STRAGGLE_SECONDS = 3, 1
BATCH, WHOLE_ROUNDS, EACH_AT_ONCE, SMALL_ROUNDS = 32, 8, 8, 7


class Times:
    """Draws seconds of a trial."""

    def __init__(self, log):
        self.known = []
        if log:
            with open(log) as lines:
                for line in lines:
                    record = json.loads(line)
                    if record["verdict"] == "screened":
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
        self.free_at = self.busy = self.answered = 0.0
        self.rounds = 0
        self.dies_at = random.expovariate(1 / (3600 * HOURS_TO_DEATH))


class Fleet:
    def __init__(self, devices, times, search_ms):
        self.times, self.search = times, 1e-3 * search_ms
        self.devices = [Device() for _ in range(devices)]
        self.mean = 0.05
        self.now = self.driver = self.searched = 0.0  # the driver's clock, and what it worked
        self.proposed = self.deaths = self.doubled = self.rounds = 0
        self.events, self.out, self.done, self.backed_up = [], {}, set(), set()

    def work(self, seconds):
        self.now += seconds
        self.driver += seconds

    def send(self, device, trials):
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
        self.rounds += 1
        for trial in trials:
            self.out[trial] = self.out.get(trial, 0) + 1
        event = (end + 1e-3 * LATENCY_MS, self.rounds, device, trials, self.now, dead)
        heapq.heappush(self.events, event)

    def feed(self, own, announced):
        waiting = [t for t in (*own, *announced) if t not in self.done and not self.out.get(t)]
        fair = math.ceil(len(waiting) / len(self.devices) / ROUNDS_EACH)
        size = max(1, min(int(ROUND_SECONDS / self.mean), fair, LARGEST_ROUND))
        at = 0
        for device in sorted(self.devices, key=lambda d: d.rounds):
            while at < len(waiting) and device.rounds < ROUNDS_EACH:
                self.send(device, waiting[at : at + size])
                at += size
        return at < len(waiting)

    def back_up(self, own):
        """Late rounds are also given to devices with nothing to do."""
        idle = [d for d in self.devices if d.rounds == 0]
        for _, number, _, trials, sent, _ in sorted(self.events, key=lambda e: e[4]):
            late = sent + STRAGGLES * self.mean * len(trials) + STRAGGLE_SECONDS
            missing = [t for t in trials if t in own and t not in self.done]
            if idle and missing and self.now >= late and number not in self.backed_up:
                self.backed_up.add(number)
                self.doubled += len(missing)
                self.send(idle.pop(), missing)

    def answer(self):
        at, _, device, trials, sent, dead = heapq.heappop(self.events)
        self.now = max(self.now, at)
        self.work(1e-3 * (ROUND_MS + TRIAL_COST_MS * len(trials)) / 2)
        each = (at - max(sent, device.answered)) / len(trials)
        device.answered = at
        device.rounds -= 1
        for trial in trials:
            self.out[trial] -= 1
        if dead:
            self.deaths += 1
            return
        self.done.update(trials)
        self.mean = 0.8 * self.mean + 0.2 * each

    def measure(self, own, announced):
        own = set(own)
        full = False
        while not own <= self.done:
            if not full:
                full = self.feed(sorted(own), announced)
            if not full:
                self.back_up(own)
            if not self.events:  # the clock of the driver goes on
                self.now += 0.05
                continue
            self.answer()
            full = full and all(d.rounds >= ROUNDS_EACH for d in self.devices)

    def propose(self, batches):
        count = max(BATCH * min(len(self.devices), WHOLE_ROUNDS), EACH_AT_ONCE * len(self.devices))
        count = (count + 1) // 2 if batches < SMALL_ROUNDS else count
        self.work(self.search * count)
        self.searched += self.search * count
        self.proposed += count
        return range(self.proposed - count, self.proposed)

    def run(self, seconds):
        batches = 0
        batch = self.propose(batches)
        while self.now < seconds:
            batches += 1
            announced = self.propose(batches)
            self.measure(batch, announced)
            batch = announced
        return self


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log")
    parser.add_argument("--nodes", default="1,4,16,64,256,1000")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--search", type=float, default=SEARCH_MS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{'nodes':>6} {'trials/s':>9} {'of linear':>9} {'used':>6} {'driver':>7} {'search':>7} {'deaths':>7} {'twice':>6}")
    alone = None
    for nodes in (int(n) for n in options.nodes.split(",")):
        random.seed(options.seed)
        fleet = Fleet(nodes, Times(options.log), options.search).run(options.seconds)
        rate = len(fleet.done) / fleet.now
        alone = alone or rate / nodes
        used = min(1, sum(d.busy for d in fleet.devices) / nodes / fleet.now)
        print(
            f"{nodes:>6} {rate:>9.0f} {rate / nodes / alone:>9.0%} {used:>6.0%} {fleet.driver / fleet.now:>7.0%}"
            f" {fleet.searched / fleet.now:>7.0%} {fleet.deaths:>7} {fleet.doubled / len(fleet.done):>6.1%}"
        )


if __name__ == "__main__":
    main()
