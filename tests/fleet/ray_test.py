#!/usr/bin/env python3
"""Tuning on a Ray cluster of several nodes of this machine, parts of which are killed meanwhile.

    ray_test.py build/bin/heddle [--kills 30] [--only NAME]

Exit status 77, and a word, where Ray is not installed.
"""
import argparse
import collections
import os
import pathlib
import random
import signal
import sys

from harness import DEVICE, TRIALS, expect, run_tests, skip

try:
    from ray.cluster_utils import Cluster
except ImportError:
    skip(f"Ray is not installed for {sys.executable} (tools/fleet/requirements.txt)")


ATTEMPTS = 4  # to start a node


class Fleet:
    """A head that only compiles, and nodes that measure."""

    def __init__(self):
        self.cluster = Cluster()
        self.start(num_cpus=1, include_dashboard=False)
        self.address = self.cluster.address
        self.nodes = [self.add(), self.add()]

    def start(self, **options):
        """The first node is the head. Ray gives a raylet half a minute, which a busy machine takes."""
        for attempt in range(ATTEMPTS):
            try:
                return self.cluster.add_node(**options)
            except Exception as error:
                if attempt + 1 == ATTEMPTS or "timed out" not in str(error):
                    raise

    def add(self, **options):
        return self.start(num_cpus=0, resources={DEVICE: 1}, **options)

    def kill_node(self):
        node = self.nodes.pop(random.randrange(len(self.nodes)))
        self.cluster.remove_node(node, allow_graceful=False)
        self.nodes.append(self.add())

    def kill_process(self, words):
        """Kills a process whose command line has all of these words. False where there is none."""
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


PROCESSES = {"worker": ["--library="], "actor": ["ray::NodeActor"], "bridge": ["heddle-fleet", "--of-tuner"]}


def both_nodes_measure(fleet, tune):
    run = tune("plain").start()
    report = run.wait()
    run.expect_each_once()
    nodes = [n for n in report["nodes"] if n["trials"] > 0]
    expect(len(nodes) == 2, f"{len(nodes)} of two devices measured")
    expect(sum(n["trials"] for n in nodes) == TRIALS, "the trials of nodes are not all trials")
    return f"{[n['trials'] for n in nodes]} trials"


def a_node_of_the_wrong_kind_is_set_aside(fleet, tune):
    # It offers the device, and has nothing that measures.
    wrong = fleet.add(env_vars={"HEDDLE_FLEET_WORKER": "/bin/false"})
    run = tune("wrong").start()
    report = run.wait()
    fleet.cluster.remove_node(wrong, allow_graceful=False)
    run.expect_each_once()
    aside = [n for n in report["nodes"] if n.get("set_aside")]
    expect(len(aside) == 1 and aside[0]["trials"] == 0, f"set aside: {aside}")
    return aside[0]["set_aside"]


def two_tuners_share_it(fleet, tune):
    runs = [tune(f"one_of_two_{seed}", seed=seed).start() for seed in (1, 2)]
    for run in runs:
        run.wait()
        run.expect_each_once()
    return "both got all their trials"


def nodes_join_and_leave(fleet, tune):
    run = tune("elastic", trials=2 * TRIALS).start()
    run.wait_for(10)
    late = fleet.add()
    run.wait_for(TRIALS)
    fleet.cluster.remove_node(late, allow_graceful=False)
    run.wait()
    run.expect_each_once()
    return "one joined, and left"


def a_network_is_tuned(fleet, tune):
    """Its tasks by the fleet, and raced here as a whole, because the nodes are this machine."""
    run = tune("network", subject="digits", trials=TRIALS, budget=20).start()
    report = run.wait()
    expect(all(task["static_seconds"] > 0 for task in report["tasks"]), f"tasks: {report['tasks']}")
    expect(sum(n["trials"] for n in report["nodes"]) >= len(report["tasks"]), "the fleet measured nothing")
    expect(any("raced on this machine" in words for words in report["remarks"]), f"remarks: {report['remarks']}")
    return f"{len(report['tasks'])} tasks, {report['trials']} trials, {report['network']['verdict']}"


def everything_is_killed(fleet, tune, kills):
    """Workers, actors, bridges, nodes and the driver, which goes on from its log each time."""
    run = tune("killed", trials=max(TRIALS, 8 * kills)).start()
    kinds = [*PROCESSES, "node", "driver"] * (1 + kills // 5)
    random.shuffle(kinds)
    done = collections.Counter()
    for i, kind in enumerate(kinds[:kills]):
        run.wait_for(min(run.trials - 1, 1 + i * run.trials // (kills + 1)))
        if kind == "node":
            fleet.kill_node()
        elif kind == "driver":
            run.kill()
            run.go_on()
        elif not fleet.kill_process(PROCESSES[kind]):
            continue
        done[kind] += 1
    run.wait()
    run.expect_each_once()
    return ", ".join(f"{n} x {kind}" for kind, n in done.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heddle")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)

    def everything(fleet, tune):
        return everything_is_killed(fleet, tune, options.kills)

    everything.__name__ = everything_is_killed.__name__
    tests = [
        both_nodes_measure,
        a_node_of_the_wrong_kind_is_set_aside,
        two_tuners_share_it,
        nodes_join_and_leave,
        a_network_is_tuned,
        everything,
    ]
    fleet = Fleet()
    try:
        return run_tests(tests, fleet, options.heddle, options.only)
    finally:
        fleet.end()


if __name__ == "__main__":
    sys.exit(main())
