#!/usr/bin/env python3
"""Runs the blocks of a Markdown page as a reader would, in a scratch folder, and checks every `heddle` line.

    scripts/run_docs.py BUILD PAGE...

The folder has the links build, scripts, tutorials and include, as a checkout has, and PATH has BUILD/bin. The blocks of a page run in its order:

    ```sh              commands; one that fails ends the test
    ```text            behind commands: lines that they print, in this order; `...` stands for anything
    ```c program.c     a file, for the commands that follow (so are cpp, python, cmake, json); blocks of one file are
                       one behind the other

A comment before a block says why it is not run, or which Python module it needs (without it the block is left out):

    <!-- not run: needs a GPU -->
    <!-- needs: numpy -->

In blocks that are not run, and in all indented ones, the subcommands and options of `heddle` have to exist.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = re.compile(r"^<!-- (not run|needs): (.+) -->$")
FENCE = re.compile(r"^```(\S*) ?(.*)$")
LIMIT_S = 240


def blocks_of(text):
    """(line, language, file, mark, text) of each block; the language of an indented one is ''."""
    lines, i, mark = text.splitlines() + [""], 0, None
    while i < len(lines):
        fence = FENCE.match(lines[i])
        if MARK.match(lines[i]):
            mark = MARK.match(lines[i]).groups()
        elif fence:
            end = lines.index("```", i + 1)
            yield i + 1, fence[1], fence[2], mark, "\n".join(lines[i + 1 : end]) + "\n"
            i, mark = end, None
        elif lines[i].startswith("    "):
            yield i + 1, "", "", None, lines[i][4:] + "\n"
        elif lines[i].strip():
            mark = None
        i += 1


def has_module(name):
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode == 0


class Page:
    def __init__(self, build, page, folder):
        self.build, self.page, self.folder = build, page, folder
        self.ran, self.out, self.helps, self.problems, self.written = 0, "", {}, [], set()
        for name in ("scripts", "tutorials", "include"):
            (folder / name).symlink_to(ROOT / name)
        (folder / "build").symlink_to(build)
        (folder / ".python").mkdir()
        python = folder / ".python/python3"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
        python.chmod(0o755)
        self.environment = dict(
            os.environ, PATH=f"{folder}/.python:{build}/bin:{os.environ['PATH']}", HOME=str(folder))

    def fail(self, line, what):
        self.problems.append(f"{self.page}:{line}: {what}")

    def help_of(self, words):
        if words not in self.helps:
            asked = subprocess.run([self.build / "bin/heddle", *words, "--help"], capture_output=True, text=True)
            self.helps[words] = asked.stdout if asked.returncode == 0 else None
        return self.helps[words]

    def check_words(self, line, text):
        """The subcommands and options of each `heddle` command in `text` have to be in its help."""
        for command in re.findall(r"^(?:[A-Z_]+=\S* )*(?:build/bin/)?heddle (.*(?:\\\n.*)*)", text, re.M):
            words = [w for w in re.sub(r"#.*|\\\n", " ", command).split() if w not in ("...",)]
            known = self.help_of((words[0],)) if re.match(r"^[a-z]+$", words[0]) else ""
            if known and len(words) > 1 and re.search(rf"^  {re.escape(words[1])}  ", known.partition("Subcommands:")[2], re.M):
                known = self.help_of((words[0], words[1]))
            if known is None:
                self.fail(line, f"there is no `heddle {words[0]}`")
            for option in [w.split("=")[0] for w in words if w.startswith("--")] if known else []:
                if not re.search(rf"{option}\b(?!-)", known) and option != "--help":
                    self.fail(line, f"`heddle {words[0]}` has no option {option}")

    def run(self, line, text):
        try:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=self.folder, env=self.environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return self.fail(line, f"ran for more than {LIMIT_S} s")
        self.ran, self.out = self.ran + 1, done.stdout
        if done.returncode != 0:
            self.fail(line, f"exit status {done.returncode}\n{done.stdout}")

    def compare(self, line, text):
        left = self.out
        for wanted in text.splitlines():
            pattern = ".*".join(re.escape(part.strip()) for part in wanted.split("..."))
            found = re.search(r"[ \t]*".join(p for p in re.split(r"\\ (?:\\ )+", pattern)), left)
            if not found:
                return self.fail(line, f"not printed: {wanted}\n{self.out}")
            left = left[found.end() :]

    def go(self):
        for line, language, file, mark, text in blocks_of(self.page.read_text(encoding="utf-8")):
            if not language or (mark and mark[0] == "not run"):
                self.check_words(line, text)
            elif mark and not has_module(mark[1]):
                print(f"{self.page}:{line}: left out, {sys.executable} has no {mark[1]}")
            elif file:
                with open(self.folder / file, "a" if file in self.written else "w", encoding="utf-8") as out:
                    out.write(text)
                self.written.add(file)
            elif language == "sh":
                self.run(line, text)
            elif language == "text":
                self.compare(line, text)
            else:
                self.fail(line, f"a block of {language} with neither a file name nor a mark that says why it is not run")
        return self.problems


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    problems = []
    for name in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as folder:
            page = Page(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(name), pathlib.Path(folder).resolve())
            problems += page.go()
            print(f"{name}: {page.ran} blocks of commands ran")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
