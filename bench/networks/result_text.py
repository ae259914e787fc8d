"""The text of one result of the benches of networks."""
import sys


def show(title, result):
    """Prints the seconds of each contestant, beside those of Heddle, and its difference."""
    print(title)
    ours = result["seconds"]["heddle"]
    for name, seconds in result["seconds"].items():
        print(f"  {name:14s} {seconds * 1e3:9.3f} ms   {seconds / ours:5.2f} of Heddle's   "
              f"difference {result['differences'][name]:.1e}")
    sys.stdout.flush()
