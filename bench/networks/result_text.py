"""What the benches of networks print and write."""
import json
import pathlib
import sys


def show(title, result):
    """Prints the seconds of each contestant, beside those of Heddle, and its difference."""
    print(title)
    ours = result["seconds"]["heddle"]
    for name, seconds in result["seconds"].items():
        print(f"  {name:14s} {seconds * 1e3:9.3f} ms   {seconds / ours:5.2f} of Heddle's   "
              f"difference {result['differences'][name]:.1e}")
    sys.stdout.flush()


def write_results(path, results, peers):
    """`peers`: versions by package. Written after each network, so that a run that is cut off keeps what it has."""
    pathlib.Path(path).write_text(json.dumps({"peers": peers, "results": results}, indent=1), encoding="utf-8")
