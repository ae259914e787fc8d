#!/usr/bin/env python3
"""Prints the longest functions and the longest files of the repository's C++ sources.

Lines of a function run from the first line of its declaration to its closing brace; a lambda belongs to
the function around it. Braces are counted on text without comments, strings and preprocessor lines, so
code that keeps to .clang-format is measured exactly.

  scripts/longest.py                          # ten of each, of everything
  scripts/longest.py --over 60 tools bench    # functions of more than 60 lines in two folders; exit status 1 if any
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["src", "include", "meta_templates", "tests", "tools", "tutorials", "bench", "python"]

SKIPPED = re.compile(
    r'R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'  # raw strings
    r'|//[^\n]*|/\*.*?\*/'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"  # characters, but not the separators of digits
    r'|^[ \t]*#(?:[^\n\\]|\\.)*$',  # preprocessor lines, with those they continue on
    re.DOTALL | re.MULTILINE)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
# Words that may stand between the parentheses of a function and its body.
TRAILER = re.compile(r"\b(const|noexcept|override|final|mutable|try|requires)\s*$")


def without_literals(text):
    """The text with comments, literals and preprocessor lines blanked; line ends stay."""
    return SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def without_brackets(head):
    """A declaration's text without what stands in parentheses and template arguments."""
    previous = None
    while previous != head:
        previous, head = head, re.sub(r"\([^()]*\)", "@", head)
    while previous is not None:
        shorter = re.sub(r"(?<!operator)<[^<>]*>", "", head)
        previous, head = (None, head) if shorter == head else (head, shorter)
    return head


def kind_of_brace(head):
    """What a brace opens after this text, at the scope of a namespace or a class."""
    bare = without_brackets(head)
    if "@" not in bare:
        return "scope" if SCOPE.search(bare) else "value"
    if re.search(r"(?<![=!<>+\-*/%&|^])=(?!=)", bare.replace("operator=", "")):
        return "value"
    if re.search(r"@[^:]*(?<!:):(?!:)", bare) and re.search(r"[\w>]\s*$", bare) and not TRAILER.search(bare):
        return "initializer"  # of a member, in front of the body
    if SCOPE.match(bare.strip()) and not re.search(r"@\s*(const|noexcept|override|final)?\s*$", bare):
        return "scope"
    return "function"


def functions_of(text):
    """Yields (name, first line, number of lines) for each function."""
    stack, head_begin, parens = [], None, 0
    text = without_literals(text)
    line_of = lambda at: text.count("\n", 0, at) + 1
    for match in re.finditer(r"[{}();]|\b(?:public|private|protected)\s*:|[^\s]", text):
        token, at = match[0], match.start()
        inside = any(kind in ("function", "value") for kind, _, _ in stack)
        if token == "{":
            head = text[head_begin:at] if head_begin is not None and not inside else ""
            kind = "value" if inside or parens or stack and stack[-1][0] == "initializer" else kind_of_brace(head)
            stack.append((kind, head_begin, head))
            if kind in ("scope", "function"):
                head_begin = None
        elif token == "}":
            kind, begin, head = stack.pop() if stack else ("value", None, "")
            if kind == "function":
                before = head.split("(")[0].split()
                name = before[-1].lstrip("*&") if before else "?"
                if re.fullmatch(r"(TYPED_)?TEST(_[FP])?", name):
                    name = re.sub(r"\s+", " ", head).strip()
                yield name, line_of(begin), line_of(at) - line_of(begin) + 1
            if kind in ("scope", "function"):
                head_begin = None
        elif inside:
            continue
        elif token in "()":
            parens += 1 if token == "(" else -1
            head_begin = at if head_begin is None else head_begin
        elif token == ";" and not parens:
            head_begin = None
        elif token.endswith(":") and len(token) > 1:
            head_begin = None
        elif head_begin is None:
            head_begin = at


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", help="folders of the repository (default: all with sources)")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="another checkout")
    parser.add_argument("--count", type=int, default=10, help="how many of each (default: 10)")
    parser.add_argument("--over", type=int, help="only functions of more lines than this; exit status 1 if any")
    arguments = parser.parse_args()

    functions, files = [], []
    for folder in arguments.folders or FOLDERS:
        for path in sorted((arguments.root / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp") or not path.is_file():
                continue
            text, name = path.read_text(encoding="utf-8"), path.relative_to(arguments.root).as_posix()
            files.append((text.count("\n"), name))
            functions += [(lines, f"{name}:{begin}", function) for function, begin, lines in functions_of(text)]
    functions.sort(key=lambda f: (-f[0], f[1]))
    files.sort(key=lambda f: (-f[0], f[1]))
    if arguments.over is not None:
        long_ones = [f for f in functions if f[0] > arguments.over]
        for lines, where, function in long_ones:
            print(f"{lines:5}  {where}  {function}")
        return 1 if long_ones else 0
    print(f"longest of {len(functions)} functions:")
    for lines, where, function in functions[:arguments.count]:
        print(f"{lines:5}  {where}  {function}")
    print(f"longest of {len(files)} files:")
    for lines, name in files[:arguments.count]:
        print(f"{lines:5}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
