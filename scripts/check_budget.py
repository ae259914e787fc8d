#!/usr/bin/env python3
"""Checks that no folder has more lines than scripts/line_budget.txt allows.

A line of that file is "folder lines". A commit that makes a folder longer on purpose raises its number. With
--write, sets each number to what the folder has and at least fifty more, a multiple of a hundred. Exit status 1
where a folder is longer, or has no number.
"""
import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGET = ROOT / "scripts" / "line_budget.txt"
PARTS = {"src", "tools"}  # whose folders are counted each by itself
COUNTED = {"src", "tools", "include", "meta_templates", "bench", "python"}
ENDINGS = {".cpp", ".h", ".inc", ".c", ".py", ".sh"}


def folder_of(path):
    parts = path.parts
    return "/".join(parts[:2]) if parts[0] in PARTS and len(parts) > 2 else parts[0]


def lines_of_folders():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    lines = {}
    for name in filter(None, listed):
        path = pathlib.Path(name)
        if path.parts[0] not in COUNTED or path.suffix not in ENDINGS or not (ROOT / path).is_file():
            continue
        count = (ROOT / path).read_bytes().count(b"\n")
        lines[folder_of(path)] = lines.get(folder_of(path), 0) + count
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="set the numbers to what is there")
    lines = lines_of_folders()
    if parser.parse_args().write:
        BUDGET.write_text("".join(f"{f} {-(-(n + 50) // 100) * 100}\n" for f, n in sorted(lines.items())))
    allowed = {f: int(n) for f, n in (line.split() for line in BUDGET.read_text().splitlines())}
    problems = [f"{f} has {n} lines, and {allowed[f]} are allowed: shorten it, or raise its number in "
                f"{BUDGET.relative_to(ROOT)} and say why in the commit" if f in allowed else
                f"{f} has no number in {BUDGET.relative_to(ROOT)}"
                for f, n in sorted(lines.items()) if n > allowed.get(f, -1)]
    print("\n".join(problems) if problems else f"{len(lines)} folders keep to their budgets, "
          f"{sum(lines.values())} lines in all")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
