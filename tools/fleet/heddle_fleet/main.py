"""The command line of heddle-fleet."""
import argparse
import sys

from .bridge_start import serve_tuner, without_token

NO_RAY = "Ray is not installed for {python}"
HOW = "pip install -r requirements.txt (tools/fleet), or name a Python that has it by HEDDLE_PYTHON"


def main(arguments):
    # The tuner's arguments end with its process id, which only workers look at.
    arguments = [a for a in arguments if not a.startswith("--of-tuner=")]
    no_ray = None
    try:
        import ray  # noqa: F401
    except ImportError:
        no_ray = NO_RAY.format(python=sys.executable)
    if not arguments:
        return serve_tuner(no_ray, HOW)
    parser = argparse.ArgumentParser(prog="heddle-fleet")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up")
    up.add_argument("--resource", action="append", default=[], help="NAME=COUNT")
    status = commands.add_parser("status")
    status.add_argument("--address", default="auto")
    options = parser.parse_args(arguments)
    if no_ray:
        print(f"heddle fleet: error: {no_ray}\n  help: {HOW}", file=sys.stderr)
        return 2
    from . import cluster

    try:
        if options.command == "up":
            return cluster.up(cluster.parse_resources(options.resource))
        return cluster.status(options.address)
    except (ConnectionError, ValueError, RuntimeError) as error:
        how = without_token().removeprefix("; ")
        print(f"heddle fleet: error: {error}" + (f"\n  help: {how}" if how else ""), file=sys.stderr)
        return 2
