#!/usr/bin/env python3
"""Measures the overhead of a fleet and the rate of one driver, on logical devices of this machine.

    rate.py build/bin/fleet_rate sleep --devices 64 --milliseconds 50   devices that only sleep
    rate.py build/bin/fleet_rate sleep --devices 2 --milliseconds 36 --compilers 8 --compile 200     compiled apart
    rate.py build/bin/fleet_rate overhead                               one real device beside local workers

Makes a Ray cluster of this machine (tools/fleet/requirements.txt) and ends it.
"""
import argparse
import os
import pathlib
import subprocess
import sys

from ray.cluster_utils import Cluster

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "tools" / "fleet"
DEVICE = "cpu:here"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("what", choices=["sleep", "overhead"])
    parser.add_argument("--devices", type=int, default=64)
    parser.add_argument("--milliseconds", type=float, default=50)
    parser.add_argument("--compilers", type=int, default=0, help="on a node of their own; 0: devices compile")
    parser.add_argument("--compile", type=float, default=0, help="milliseconds that each sleeps")
    parser.add_argument("--parts", type=int, default=2, help="in which local workers get a batch: the rounds of one device")
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--batch", type=int, default=0)
    options = parser.parse_args()
    os.environ["HEDDLE_CACHE"] = "off"  # what is compiled twice is to cost as much the second time
    environment = {**os.environ, "HEDDLE_PYTHON": sys.executable, "PYTHONPATH": str(PACKAGE)}
    sleeping = options.what == "sleep"
    if sleeping:
        node = f"{sys.executable} {HERE / 'sleeping_node.py'} {options.milliseconds} {options.compile}"
        os.environ.update(PYTHONPATH=str(PACKAGE), HEDDLE_FLEET_WORKER=node)  # the nodes inherit it
    devices = options.devices if sleeping else 1
    batch = options.batch or (32 * devices if sleeping else 32)
    trials = options.trials or (5000 if sleeping else 2000)
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "resources": {DEVICE: devices}, "include_dashboard": False},
    )
    try:
        if options.compilers:
            cluster.add_node(num_cpus=options.compilers)
        command = [options.program, cluster.address, "--device", DEVICE, "--devices", str(devices)]
        command += ["--trials", str(trials), "--batch", str(batch)]
        if not sleeping:
            command += ["--beside_local", "--parts", str(options.parts)]
        print(" ".join(command), flush=True)
        return subprocess.run(command, env=environment, timeout=1200).returncode
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    sys.exit(main())
