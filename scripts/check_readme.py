#!/usr/bin/env python3
"""Checks that the example in docs/start/first-kernel.md is the marked part of tutorial 01, word for word.

The tutorial is built and run by the tests, so an example that equals it cannot rot. The marked part
is every line between `// readme: begin` and `// readme: end`, in order, and the brace that closes
`main`. `--update` writes it into the page instead.
"""

import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "start" / "first-kernel.md"
TUTORIAL = ROOT / "tutorials" / "01_first_kernel.cpp"
# The first block of C++ in the page.
BLOCK = re.compile(r"(?<=^```cpp\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def marked_part(text):
    lines, inside = [], False
    for line in text.splitlines():
        if line.strip() == "// readme: begin":
            inside = True
        elif line.strip() == "// readme: end":
            inside = False
        elif inside:
            lines.append(line)
    if not lines or inside:
        sys.exit(f"{TUTORIAL.name}: no part between '// readme: begin' and '// readme: end'")
    return "\n".join([*lines, "}"]) + "\n"


def main():
    wanted = marked_part(TUTORIAL.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    found = BLOCK.search(page)
    if not found:
        sys.exit(f"{PAGE.name} has no block of C++")
    if found.group() == wanted:
        return
    if "--update" in sys.argv[1:]:
        updated = page[: found.start()] + wanted + page[found.end() :]
        PAGE.write_text(updated, encoding="utf-8")
        return
    sys.stdout.writelines(
        difflib.unified_diff(
            found.group().splitlines(True), wanted.splitlines(True), PAGE.name, TUTORIAL.name
        )
    )
    sys.exit(f"{PAGE.name} differs from the tutorial; scripts/check_readme.py --update rewrites it")


if __name__ == "__main__":
    main()
