#!/usr/bin/env python3
"""Checks the relative links of all Markdown pages, with their anchors, and the files that they name in backticks;
and the sources that comments of C++ name.

A name in backticks counts as a file where it has a folder and an ending of a source. A name in a comment may leave
folders out. Each page below docs is linked from another one, and dates are in measurements and the change log alone.
Prints page:line: problem for each; exit status 1 if any.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
FILE = re.compile(r"[\w.-]+\.(?:h|cpp|md)")
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
DATED = ("docs/measurements/", "CHANGELOG.md", "tests/")
NAMED = re.compile(r"`((?:src|include|meta_templates|tools|bench|tests|scripts|docs|tutorials)/[\w./-]+\.\w+)`")
COMMENTED = re.compile(r"(?<![\w*./-])([A-Za-z_][\w/-]*\.(?:h|cpp|inc))\b")
FOREIGN = re.compile(r"out/|cblas\.h$|my_model\.cpp$")  # files of libraries, and those that programs write
HEADING = re.compile(r"^#+\s+(.*)$", re.M)


def anchor_of(heading):
    """The anchor that a heading gets: lower case, without punctuation, spaces as hyphens."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def problems_of(page, text):
    for number, line in enumerate(text.splitlines(), 1):
        for shown, target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path) if path else page
            if not file.exists():
                yield f"{number}: no such file: {target}"
            elif FILE.fullmatch(shown) and shown != file.name:
                yield f"{number}: the link to {target} is called {shown}"
            elif anchor and file.suffix == ".md":
                anchors = {anchor_of(h) for h in HEADING.findall(file.read_text(encoding="utf-8"))}
                if anchor not in anchors:
                    yield f"{number}: no such heading: {target}"
        for name in NAMED.findall(line):
            if not (ROOT / name).exists():
                yield f"{number}: no such file: {name}"


def problems_of_comments(text, endings):
    for number, line in enumerate(text.splitlines(), 1):
        for name in COMMENTED.findall(line.partition("//")[2]):
            if name not in endings and not FOREIGN.match(name):
                yield f"{number}: no such file: {name}"


def problems_of_pages(pages, text):
    """Dates outside of DATED, and pages below docs that no other page links to."""
    linked = set()
    for name in pages:
        for number, line in enumerate(text[name].splitlines(), 1):
            for _, target in LINK.findall(line):
                linked |= {(ROOT / name).parent.joinpath(target.partition("#")[0]).resolve()} - {(ROOT / name).resolve()}
            if DATE.search(line) and not name.startswith(DATED):
                yield f"{name}:{number}: a date outside of measurements: {DATE.search(line)[0]}"
    yield from (f"{name}:1: no page links to it" for name in pages
                if name.startswith("docs/") and (ROOT / name).resolve() not in linked)


def files(*patterns):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    return [name for name in listed if name and (ROOT / name).exists()]


def main():
    pages, sources = files("*.md"), files("*.cpp", "*.h", "*.inc")
    endings = {"/".join(name.split("/")[i:]) for name in sources for i in range(name.count("/") + 1)}
    problems = []
    text = {name: (ROOT / name).read_text(encoding="utf-8") for name in pages}
    for name in pages:
        problems += [f"{name}:{p}" for p in problems_of(ROOT / name, text[name])]
    problems += problems_of_pages(pages, text)
    for name in sources:
        text = (ROOT / name).read_text(encoding="utf-8")
        problems += [f"{name}:{p}" for p in problems_of_comments(text, endings)]
    print("\n".join(problems) if problems else
          f"the links of {len(pages)} pages and the names in {len(sources)} sources hold")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
