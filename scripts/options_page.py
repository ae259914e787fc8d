#!/usr/bin/env python3
"""Writes docs/reference/options.md: the fields of the option structs of the public headers, with their comments.

    scripts/options_page.py            writes the page
    scripts/options_page.py --check    status 1 where the page is not what the headers say
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/options.md"
# Struct, its header below include/heddle, and what takes it.
STRUCTS = [
    ("AutoSchedulerOptions", "schedule/options.h",
     "what `create_schedule`, `tune`, `generic_family` and `Network` take; `AutoSchedulerOptionsScope` sets it for all "
     "calls of a thread. On the command line `--threads` sets `threads`, `heddle explain --allow-tf32` sets `allow_tf32`"),
    ("BuildOptions", "driver/build.h", "of `build`"),
    ("TuneOptions", "search/tune.h", "of `tune`, for a declaration and for a network"),
    ("MeasureProtocol", "measure/measure.h", "of `TuneOptions::protocol`: how candidates are timed"),
    ("PassOptions", "network/passes.h", "of `Network`; `--passes` of the command line. "
     "[networks.md](../internals/decisions/networks.md) says what each pass does"),
    ("AuditOptions", "network/audit.h", "of `audit`; those of `heddle audit` on the command line"),
    ("OnnxOptions", "onnx/import.h", "of `import_onnx`"),
    ("ExportNetworkOptions", "network/export_network.h", "of `export_network`"),
    ("FamilyOptions", "family/choose.h", "of `choose_family` and `tune_family`"),
    ("Precision", "ops/precision.h", "of operators that multiply: `ops::matmul(a, b, false, false, {...})`"),
]
HEAD = """# Options

The structs of options, as the headers have them: name, type, default. `scripts/options_page.py` writes this page, and a
test compares. All are set by name:

    Schedule s = create_schedule({C}, Target::host(), {.threads = 2, .max_error_growth = 1});
"""
FIELD = re.compile(r"^(?P<type>[\w:<>,*& ()]+?)\s+(?P<name>\w+)\s*(?:=\s*(?P<equals>.*?)|\{(?P<braces>.*?)\})?;$")


def body_of(text, struct):
    begin = re.search(rf"^struct {struct} \{{$", text, re.M)
    if not begin:
        sys.exit(f"there is no struct {struct}")
    return text[begin.end() : text.index("\n};", begin.end())]


def fields_of(body):
    """(name, type, default, comment) of each field: comments stand above it (///), or behind it (///<)."""
    above, code, behind = [], "", []

    def finish():
        found = FIELD.match(re.sub(r"\s+", " ", code).strip())
        if found and "operator" not in code:
            default = found["equals"] if found["equals"] is not None else found["braces"]
            yield found["name"], found["type"], default or "", " ".join(above + behind)

    done = False
    for line in [*map(str.strip, body.splitlines()), ""]:
        if done and not line.startswith("///<"):
            yield from finish()
            above, code, behind, done = [], "", [], False
        if line.startswith("///<"):
            behind.append(line[4:].strip())
        elif line.startswith("///"):
            above.append(line[3:].strip())
        elif line.startswith("//") or not line:
            continue
        else:
            statement, _, comment = line.partition("///<")
            code += " " + statement.split("//")[0]
            behind += [comment.strip()] if comment else []
            done = statement.strip().endswith(";")


def cell(text):
    return text.replace("|", "\\|")


def page():
    parts = [HEAD]
    for struct, header, use in STRUCTS:
        text = (ROOT / "include/heddle" / header).read_text(encoding="utf-8")
        rows = list(fields_of(body_of(text, struct)))
        if not rows:
            sys.exit(f"{header}: no field of {struct} was recognised")
        parts.append(f"\n## {struct}\n\n[heddle/{header}](../../include/heddle/{header}), {use}.\n\n"
                     "| option | type | default | |\n|---|---|---|---|\n")
        for name, kind, default, comment in rows:
            shown = f"`{cell(default)}`" if default and default != "{}" else ""
            parts.append(f"| `{name}` | `{cell(kind)}` | {shown} | {cell(comment)} |\n")
    return "".join(parts)


def main():
    wanted = page()
    if "--check" not in sys.argv:
        PAGE.write_text(wanted, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
        sys.exit(f"{PAGE.relative_to(ROOT)} is not what the headers say; scripts/options_page.py writes it")


if __name__ == "__main__":
    main()
