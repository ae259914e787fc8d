"""The rows of the corpus counted: outcomes by library, causes that remain, times against ONNX Runtime. As Markdown."""
import collections
import re
import statistics

KINDS = ("agrees", "differs", "error", "names what is missing", "exporter fails", "ONNX Runtime fails")
MISSING = ("cannot be imported", "not supported", "depends on the inputs")


def class_of(cause):
    """A cause without the names of files, nodes and values, for counting."""
    lines = cause.splitlines()
    at_node = next((line for line in lines[1:] if re.match(r"\s*node '", line)), "")
    text = at_node.strip() or lines[0].removeprefix("heddle: error: ")
    return re.sub(r"'[^']*\.onnx'(: )?|node '[^']*' ?|'[^']*/[^']*'|'val_[^']*'|\d+", "..", text)[:150]


def kind_of(row):
    if row["status"] != "failed":
        return row["status"]
    if row.get("stage") in ("export", "onnxruntime"):
        return "exporter fails" if row["stage"] == "export" else "ONNX Runtime fails"
    cause = row.get("cause", "")
    return "names what is missing" if any(m in cause for m in MISSING) else "error"


def causes_of(rows):
    """Cause -> the networks that have it, of what Heddle did not do."""
    causes = collections.defaultdict(list)
    for row in rows:
        kind = kind_of(row)
        if kind in KINDS[1:4]:
            causes[f"{kind}: {class_of(row.get('cause') or row['status'])}"].append(row["network"])
        for where, text in row.get("plans", {}).items():
            causes[f"plan for {where}: {class_of(text)}"].append(row["network"])
    return causes


def speeds_of(rows):
    """Threads -> (ONNX Runtime's time over Heddle's, row), the slowest first."""
    found = collections.defaultdict(list)
    for row in rows:
        for threads, seconds in row.get("times", {}).items():
            found[threads].append((seconds["onnxruntime"] / seconds["heddle"], row))
    return {threads: sorted(pairs, key=lambda pair: pair[0]) for threads, pairs in sorted(found.items())}


def variant_of(row):
    return f"{row['network']} ({row['exporter']} {row['opset']}, {row['dtype']}, {row['dims']}, {row['batch']})"


def markdown(rows):
    by_library = collections.defaultdict(collections.Counter)
    for row in rows:
        by_library[row["network"].split("/")[0]][kind_of(row)] += 1
    lines = ["| library | networks | files | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 3) + "|"]
    for library, kinds in sorted(by_library.items()):
        networks = {r["network"] for r in rows if r["network"].startswith(library + "/")}
        lines.append(f"| {library} | {len(networks)} | {sum(kinds.values())} | "
                     + " | ".join(str(kinds[k] or "") for k in KINDS) + " |")
    causes = causes_of(rows)
    if causes:
        lines += ["", "| files | cause | such as |", "|---|---|---|"]
        for cause, networks in sorted(causes.items(), key=lambda item: -len(item[1])):
            lines.append(f"| {len(networks)} | {cause.replace('|', '/')} | {networks[0]} |")
    for threads, speeds in speeds_of(rows).items():
        ratios = [ratio for ratio, _ in speeds]
        lines += ["", f"{threads} thread(s), ONNX Runtime's time over Heddle's: {len(ratios)} files, geometric mean "
                  f"{statistics.geometric_mean(ratios):.2f}, {sum(r < 0.95 for r in ratios)} below 0.95; the slowest: "
                  + ", ".join(f"{variant_of(row)} {ratio:.2f}" for ratio, row in speeds[:10])]
    return "\n".join(lines)
