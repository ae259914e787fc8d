#!/usr/bin/env python3
"""Tuning on a Ray cluster of several nodes of this machine, parts of which are killed meanwhile.

    ray_test.py build/bin/heddle [--kills 30] [--only NAME]

Exit status 77, and a word, where Ray is not installed.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

try:
    import ray
    from ray.cluster_utils import Cluster
except ImportError:
    print(f"skipped: Ray is not installed for {sys.executable} (tools/fleet/requirements.txt)")
    sys.exit(77)

DEVICE = "cpu:here"
TRIALS = 36


class Failure(Exception):
    pass


def expect(holds, words):
    if not holds:
        raise Failure(words)


class Tuning:
    """`heddle tune` on the cluster, with a log of its own."""

    def __init__(self, heddle, address, folder, name, trials=TRIALS, subject="matmul:64x48x56", seed=0):
        self.log, self.json = folder / f"{name}.jsonl", folder / f"{name}.json"
        self.command = [heddle, "tune", subject, "--fleet", address, "--fleet-device", DEVICE, "--threads", "1", "--quiet"]
        self.command += ["--trials", str(trials), "--log", str(self.log), "--json", str(self.json)]
        self.command += ["--budget", "150s", "--seed", str(seed), "--no-warm-start"]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return self

    def wait(self):
        said, _ = self.process.communicate(timeout=240)
        expect(self.process.returncode == 0, f"status {self.process.returncode}: {said}")
        return json.loads(self.json.read_text())

    def recorded(self):
        """How often each schedule was recorded, races left out."""
        counts = collections.Counter()
        if not self.log.exists():
            return counts
        for line in self.log.read_text().splitlines():
            record = json.loads(line)
            if not record["protocol"].startswith(("race", "chosen")):
                counts[json.dumps(record["steps"])] += 1
        return counts

    def wait_for(self, trials):
        while sum(self.recorded().values()) < trials:
            expect(self.process.poll() is None, f"it ended early: {self.process.stdout}")
            time.sleep(0.05)

    def expect_each_once(self, trials):
        counts = self.recorded()
        twice = [s for s, n in counts.items() if n > 1]
        expect(not twice, f"{len(twice)} schedules were recorded twice")
        expect(len(counts) == trials, f"{len(counts)} trials were recorded, {trials} were asked for")


class Fleet:
    """A head that only compiles, and nodes that measure."""

    def __init__(self):
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False},
        )
        self.address = self.cluster.address
        self.nodes = [self.add(), self.add()]

    def add(self, **options):
        for attempt in range(4):
            try:
                return self.cluster.add_node(num_cpus=0, resources={DEVICE: 1}, **options)
            except Exception as error:  # Ray gives a raylet ten seconds, which a busy machine takes
                if attempt == 3 or "timed out" not in str(error):
                    raise

    def kill_node(self):
        node = self.nodes.pop(random.randrange(len(self.nodes)))
        self.cluster.remove_node(node, allow_graceful=False)
        self.nodes.append(self.add())

    def kill_process(self, words):
        """Kills a process whose command line has all of these words."""
        found = []
        for folder in pathlib.Path("/proc").iterdir():
            try:
                line = (folder / "cmdline").read_text() if folder.name.isdigit() else ""
            except OSError:
                continue
            if line and all(word in line for word in words):
                found.append(int(folder.name))
        mine = [pid for pid in found if belongs_to_us(pid)]
        if mine:
            os.kill(random.choice(mine), signal.SIGKILL)
        return bool(mine)

    def end(self):
        self.cluster.shutdown()


def belongs_to_us(pid):
    """Whether a process is of this cluster: raylets and the tuner are descendants of this test."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            return False
    return False


def both_nodes_measure(fleet, tune):
    run = tune("plain").start()
    report = run.wait()
    run.expect_each_once(TRIALS)
    nodes = [n for n in report["nodes"] if n["trials"] > 0]
    expect(len(nodes) == 2, f"{len(nodes)} of two devices measured")
    expect(sum(n["trials"] for n in nodes) == TRIALS, "the trials of nodes are not all trials")
    return f"{[n['trials'] for n in nodes]} trials"


def workers_actors_and_nodes_are_killed(fleet, tune, kills):
    trials = max(TRIALS, 8 * kills)
    run = tune("killed", trials=trials).start()
    done = collections.Counter()
    for i in range(kills):
        run.wait_for(min(trials - 1, 1 + i * trials // (kills + 1)))
        kind = random.choice(["worker", "actor", "bridge", "node"])
        if kind == "node":
            fleet.kill_node()
        else:
            words = {"worker": ["--library="], "actor": ["ray::NodeActor"], "bridge": ["heddle-fleet", "--of-tuner"]}
            if not fleet.kill_process(words[kind]):
                continue  # just then there was none
        done[kind] += 1
    run.wait()
    run.expect_each_once(trials)
    return ", ".join(f"{n} x {kind}" for kind, n in done.items())


def the_driver_dies_and_goes_on(fleet, tune):
    run = tune("driver", trials=TRIALS).start()
    run.wait_for(TRIALS // 3)
    run.process.kill()
    run.process.wait()
    before = sum(run.recorded().values())
    run.start().wait()
    run.expect_each_once(before + TRIALS)
    return f"killed after {before} trials"


def two_tuners_share_it(fleet, tune):
    runs = [tune(f"one_of_two_{seed}", seed=seed).start() for seed in (1, 2)]
    for run in runs:
        run.wait()
        run.expect_each_once(TRIALS)
    return "both got all their trials"


def a_node_of_the_wrong_kind_is_set_aside(fleet, tune):
    # It offers the device, and has not the threads.
    wrong = fleet.add(env_vars={"HEDDLE_FLEET_WORKER": "/bin/false"})
    run = tune("wrong").start()
    report = run.wait()
    fleet.cluster.remove_node(wrong)
    run.expect_each_once(TRIALS)
    aside = [n for n in report["nodes"] if n.get("set_aside")]
    expect(len(aside) == 1 and aside[0]["trials"] == 0, f"set aside: {aside}")
    return aside[0]["set_aside"]


def nodes_join_and_leave(fleet, tune):
    run = tune("elastic", trials=2 * TRIALS).start()
    run.wait_for(10)
    late = fleet.add()
    run.wait_for(TRIALS)
    fleet.cluster.remove_node(late)
    run.wait()
    run.expect_each_once(2 * TRIALS)
    return "one joined, and left"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heddle")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    tests = [
        both_nodes_measure,
        a_node_of_the_wrong_kind_is_set_aside,
        two_tuners_share_it,
        the_driver_dies_and_goes_on,
        nodes_join_and_leave,
        lambda fleet, tune: workers_actors_and_nodes_are_killed(fleet, tune, options.kills),
    ]
    tests[-1].__name__ = workers_actors_and_nodes_are_killed.__name__
    failed = 0
    fleet = Fleet()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for test in tests:
                if options.only not in test.__name__:
                    continue

                def tune(name, **how):
                    return Tuning(options.heddle, fleet.address, pathlib.Path(folder), name, **how)

                began = time.monotonic()
                try:
                    words = test(fleet, tune)
                    print(f"ok      {test.__name__}: {words} ({time.monotonic() - began:.0f} s)", flush=True)
                except (Failure, subprocess.TimeoutExpired) as failure:
                    failed += 1
                    print(f"FAILED  {test.__name__}: {failure}", flush=True)
    finally:
        fleet.end()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
