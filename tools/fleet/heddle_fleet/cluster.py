"""The cluster: connecting to it, and what its nodes offer."""
import json
import os
import subprocess
import sys

import ray

from .nodes import node_name
from .reach import check_reachable, connect_patiently

NAMESPACE = "heddle"
DEVICES = ("cpu:", "gpu:")


def connect(address, local_resources=None):
    """`address`: "ray://host:port", "host:port", "auto", or "local", which makes a cluster."""
    options = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        ray.init(address="local", resources=local_resources or {}, include_dashboard=False, **options)
    else:
        check_reachable(address)
        connect_patiently(lambda: ray.init(address=address, **options), ray.shutdown)


def parse_resources(texts):
    """["cpu:znver3=1"] as a dict."""
    out = {}
    for text in texts:
        name, _, count = text.partition("=")
        out[name] = int(count or 1)
    return out


def up(resources):
    """Makes this machine a cluster of its own, which stays until `ray stop`."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--include-dashboard=false"]
    command += ["--disable-usage-stats", "--resources", json.dumps(resources)]
    environment = {"RAY_worker_niceness": "0", **os.environ}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    offered = ", ".join(f"{count} x {name}" for name, count in resources.items())
    print(f"this machine is a fleet of one node: {offered}")
    print("  heddle tune matmul:512x512x512 --fleet auto")
    print("  heddle fleet status")
    print("it stays until `ray stop`")
    return 0


def status(address):
    connect(address)
    rows = [("node", "state", "CPUs", "devices")]
    for node in sorted(ray.nodes(), key=node_name):
        offered = [f"{int(n)} x {r}" for r, n in node["Resources"].items() if r.startswith(DEVICES)]
        rows.append(
            (
                node_name(node),
                "alive" if node["Alive"] else "dead",
                str(int(node["Resources"].get("CPU", 0))),
                ", ".join(offered) or "-",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    return 0
