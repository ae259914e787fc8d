#!/usr/bin/env python3
"""Tuning on a Ray cluster of machines that have networks of their own: namespaces of this machine,
joined by wires that are slow and lose frames (wires.py). A network parts and heals, nodes and the
head are restarted, and a tuner outside of the cluster is its client (ray://).

    network_test.py build/bin/heddle [--only NAME]

Exit status 77, and a word, where Ray is not installed or there are no namespaces.
"""
import argparse
import os
import secrets
import shlex
import subprocess
import sys

import wires
from harness import DEVICE, TRIALS, Failure, expect, run_tests, skip

try:
    import ray  # noqa: F401
except ImportError:
    skip(f"Ray is not installed for {sys.executable} (tools/fleet/requirements.txt)")

DELAY, LOSS = 0.002, 0.005
HEAD, NODES, OUTSIDE = 1, (2, 3), 9
PORT, CLIENT_PORT = 6379, 10001
START_SECONDS, START_ATTEMPTS = 60, 3
ALL_ARE_THERE = f"assert sum('{DEVICE}' in n['Resources'] for n in ray.nodes() if n['Alive']) == {len(NODES)}"


class Fleet:
    """A head that only compiles, two nodes that measure, and a machine outside of the cluster."""

    def __init__(self):
        self.switch = wires.Switch(DELAY, LOSS)
        self.machines = {n: wires.Machine(self.switch, n) for n in (HEAD, *NODES, OUTSIDE)}
        self.head = self.machines[HEAD]
        self.address = f"{self.head.address}:{PORT}"
        self.client_address = f"ray://{self.head.address}:{CLIENT_PORT}"
        self.started = {}
        self.switch.start()

    def start(self, number):
        """Ray on a machine; a node waits for the head by itself."""
        words = ["--num-cpus", "1" if number == HEAD else "0", "--disable-usage-stats", "--block"]
        words += ["--node-ip-address", self.machines[number].address]
        if number == HEAD:
            words += ["--head", "--port", str(PORT), "--ray-client-server-port", str(CLIENT_PORT)]
            words += ["--include-dashboard=false"]
        else:
            words += ["--address", self.address, "--resources", f'{{"{DEVICE}": 1}}']
        start = shlex.join([sys.executable, "-m", "ray.scripts.scripts", "start", *words])
        # Ray gives a raylet half a minute, which a busy machine takes: then it is started again.
        command = self.machines[number].command(["sh", "-c", f"until {start}; do sleep 1; done"])
        self.started[number] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start_all(self):
        for attempt in range(START_ATTEMPTS):
            try:
                return self.try_to_start_all()
            except subprocess.CalledProcessError:  # some process of Ray did not start in time
                if attempt + 1 == START_ATTEMPTS:
                    raise
                for number in (HEAD, *NODES):
                    self.stop(number)

    def try_to_start_all(self):
        for number in (HEAD, *NODES):
            self.start(number)
            if number == HEAD:
                self.wait_for_port(PORT)
        self.wait_for_port(CLIENT_PORT)
        self.wait_until(f"import ray, time; ray.init('{self.address}', log_to_driver=False)", ALL_ARE_THERE)

    def stop(self, number):
        """What `ray stop --force` does, to the processes of one machine."""
        self.machines[number].kill_all()
        if number in self.started:
            self.started[number].wait()

    def wait_for_port(self, port):
        look = f"socket.create_connection(('{self.head.address}', {port}), 2)"
        self.wait_until("import socket", look)

    def wait_until(self, first, look):
        """A line of Python on the head does not fail any more."""
        program = ["import time", first, f"end = time.monotonic() + {START_SECONDS}", "while True:"]
        program += ["    try:", f"        {look}", "        break", "    except (OSError, AssertionError):"]
        program += ["        assert time.monotonic() < end", "        time.sleep(0.2)"]
        command = self.head.command([sys.executable, "-c", "\n".join(program)])
        subprocess.run(command, check=True, capture_output=True, text=True)

    def end(self):
        for machine in self.machines.values():
            machine.end()
        self.switch.end()


def slow_wires_that_lose(fleet, tune):
    run = tune("wires").start()
    report = run.wait()
    run.expect_each_once()
    expect(sum(n["trials"] > 0 for n in report["nodes"]) == 2, f"not both measured: {report['nodes']}")
    return f"{[n['trials'] for n in report['nodes']]} trials at {1e3 * DELAY:.0f} ms and {LOSS:.1%} loss"


def a_partition_heals(fleet, tune):
    run = tune("parted", trials=3 * TRIALS).start()
    run.wait_for(8)
    parted = fleet.machines[NODES[0]].name
    fleet.switch.cut.add(parted)
    run.wait_for(run.count() + TRIALS // 2)  # by the other one
    fleet.switch.cut.remove(parted)
    report = run.wait()
    run.expect_each_once()
    expect(all(n["trials"] > 0 for n in report["nodes"]), f"not both measured: {report['nodes']}")
    return f"{[(n['trials'], n['gone']) for n in report['nodes']]} trials"


def a_node_is_restarted(fleet, tune):
    # Small subjects have so few configs that tuning can end before the node is there again.
    run = tune("rejoined", trials=1000 * TRIALS, subject="matmul:256x256x256").start()
    run.wait_for(8)
    fleet.stop(NODES[0])
    run.wait_for(run.count() + 8)
    fleet.start(NODES[0])
    try:
        run.wait_until(lambda: len({record["machine"] for record in run.records()}) == 3, "a third device measured")
    except Failure:
        # Ray may take longer to start again than the tuner has candidates. Then nothing is shown, and nothing is wrong.
        if run.process.poll() != 0:
            raise
        return "not shown: the tuner ended before the node was there again"
    report = run.interrupt()
    run.expect_each_once(run.count())
    gone = sum(n["gone"] for n in report["nodes"])
    return f"{len(report['nodes'])} devices seen, {gone} of them gone"


def a_client_outside_of_the_cluster(fleet, tune):
    outside = fleet.machines[OUTSIDE]
    run = tune("client", address=fleet.client_address, within=outside.command([])).start()
    report = run.wait()
    run.expect_each_once()
    return f"{[n['trials'] for n in report['nodes']]} trials through {fleet.client_address}"


def the_head_is_restarted(fleet, tune):
    """With all that it knew; its nodes are started again as well."""
    outside = fleet.machines[OUTSIDE]
    run = tune("headless", address=fleet.client_address, within=outside.command([])).start()
    run.wait_for(8)
    for number in (HEAD, *NODES):
        fleet.stop(number)
    fleet.start_all()
    run.wait()
    run.expect_each_once()
    return "the tuner went on"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heddle")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    why_not = wires.unavailable()
    if why_not:
        skip(why_not)
    wires.remove_leftovers()
    # As docs/guide/fleets.md says for more than one machine.
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    tests = [
        slow_wires_that_lose,
        a_partition_heals,
        a_node_is_restarted,
        a_client_outside_of_the_cluster,
        the_head_is_restarted,
    ]
    fleet = Fleet()
    try:
        fleet.start_all()
        return run_tests(tests, fleet, options.heddle, options.only, within=fleet.head.command([]))
    finally:
        fleet.end()


if __name__ == "__main__":
    sys.exit(main())
