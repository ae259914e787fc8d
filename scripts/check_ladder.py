#!/usr/bin/env python3
"""Checks includes between folders, what outsiders see, reads of the options of a scope, and the length of files.

A folder may include only itself and the folders above it in LADDER; heavy outside libraries stay in
the one place that owns them. Prints file:line: problem for each violation; exit status 1 if any.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 600

# From top to bottom. A folder may include the folders before it.
LADDER = ["support", "runtime", "target", "ir", "instruction", "dsl", "ops", "dag", "autodiff", "schedule", "lower", "codegen",
          "records", "cost_model", "driver", "family", "measure", "heuristics", "search", "network", "onnx", "quantize", "generate"]

# The namespaces that the headers of a folder open. What programs and templates call is in `heddle`: the
# language (ir, dsl, ops, schedule) and what the folders beneath it give to all. What only the compiler
# calls is in a namespace of its folder.
NAMESPACES = {
    "support": ["heddle"], "runtime": ["heddle", "heddle::cuda", "heddle::racing"], "target": ["heddle"],
    "ir": ["heddle"], "instruction": ["heddle", "heddle::instructions"], "dsl": ["heddle"], "ops": ["heddle::ops"], "dag": ["heddle", "heddle::dag"],
    "autodiff": ["heddle::autodiff"],
    "schedule": ["heddle"], "lower": ["heddle::lowering", "heddle::gpu"],
    "codegen": ["heddle::codegen", "heddle::cuda", "heddle::emu", "heddle::interp"],
    "records": ["heddle::records"], "cost_model": ["heddle::cost_model"], "driver": ["heddle::driver"],
    "family": ["heddle::family"], "measure": ["heddle::measuring"],
    "heuristics": ["heddle::learning", "heddle::trees"], "search": ["heddle::search"],
    "network": ["heddle::network"], "onnx": ["heddle::onnx", "heddle::onnx_file"], "quantize": ["heddle::quantize"],
    "generate": ["heddle"],
}

# Inside a folder the same holds for its subfolders, from top to bottom. The files of the folder itself
# stand where "." does; its headers may be included by all subfolders, as those of passes are.
SUBFOLDERS = {
    "src/codegen/cuda": ["text", ".", "nvrtc"],
    "src/codegen/llvm": ["jit", "."],
    "src/dag": [".", "declaration", "patterns", "errors", "sizes", "rewrites"],
    "src/heuristics": ["trees", ".", "choices", "train", "collect", "certify", "learn"],
    "src/ir": [".", "simplify"],
    "src/lower": ["nest", "gpu", "passes", "."],
    "src/lower/gpu": ["tiles", "threads", "warp_group", "memory", "sizes", "."],
    "src/measure": ["task", "messages", "process", "cpu", "cuda", "fleet", "program"],
    "src/network": [".", "passes", "fusion", "cut", "run", "race", "audit", "sizes", "plan", "export"],
    "src/network/cut": ["memory", "sizes", "."],
    "src/onnx": ["file", ".", "operators"],
    "src/quantize": [".", "precision"],
    "src/runtime": ["machine", "cuda", "array", "pool", "race", "kernel", "program", "dispatch",
                    "exported"],
    "src/schedule": ["steps", "groups", "templates", "."],
    "src/support": [".", "hashing", "numbers", "tree", "files"],
    "meta_templates/cpu": [".", "products", "reductions", "elementwise"],
    "meta_templates/cuda": [".", "products", "attention", "reductions", "elementwise"],
}

# Exceptions that are stricter than the ladder.
ONLY = {
    "runtime": {"support", "runtime"},  # an exported kernel links with these two alone
    "ops": {"support", "ir", "dsl", "ops"},  # declarations, no schedules
}

# The folders of tools/ and the benchmarks, and the folders whose parts each of them may include.
# Tests may include all.
MAY_SEE_ROOMS = {
    "tools/peers": {"peers"},
    "tools/subjects": {"peers", "subjects"},
    "tools/selftest": {"selftest"},
    "tools/heddle": {"peers", "subjects", "selftest"},
    "bench": {"peers", "subjects"},
    "tests": {"peers", "subjects", "selftest"},
}

# The folders of meta_templates, and the folders whose parts each of them may include.
MAY_SEE_TEMPLATES = {"common": {"common", "cuda"}, "cpu": {"common", "cpu"}, "cuda": {"common", "cuda"}}

# Outside headers, by prefix -> where they may appear.
OWNED = {
    "llvm/": ["src/codegen/llvm/", "tests/codegen/"],
    "llvm-c/": ["src/codegen/llvm/", "tests/codegen/"],
    "boost/": ["src/dag/"],
    "nlohmann/": ["src/support/json.cpp"],
    "xgboost/": ["src/cost_model/"],
    "google/protobuf/": ["src/onnx/"],
    "heddle_onnx_file.pb.h": ["src/onnx/file/parse.cpp", "src/onnx/file/tensor_data.cpp"],
    "dlpack/": ["src/runtime/", "src/onnx/file/mapped_file.cpp", "tests/runtime/", "tests/driver/", "bench/gpu/"],
}
# The options of a thread's scope are read by default arguments of the API only, and are passed on.
AMBIENT = "current_auto_scheduler_options"
MAY_READ_AMBIENT = ["include/", "src/schedule/options.cpp", "src/search/tune.cpp"]
NOT_IN_PUBLIC_HEADERS = ["fmt/", "CLI/", "iostream", "regex"]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path):
    """The rung that a file belongs to, or None."""
    parts = path.parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ("include", "heddle") and len(parts) > 3:
        return parts[2]
    return None


def folder_included(header):
    """The rung that an include names, or None for what is not ours."""
    parts = header.split("/")
    if parts[0] == "heddle" and len(parts) > 2:
        parts = parts[1:]
    return parts[0] if len(parts) > 1 and parts[0] in LADDER else None


def check_room(name, header):
    """The command line's rooms are used one way only, and the peers know nothing of Heddle."""
    room = next((r for r in MAY_SEE_ROOMS if name.startswith(r + "/")), None)
    first = header.split("/")[0] if "/" in header else None
    if first in MAY_SEE_ROOMS["tests"] and first not in MAY_SEE_ROOMS.get(room, ()):
        yield f"'{room or name}' may not include tools/{header}"
    if room == "tools/peers" and first == "heddle":
        yield f"the peers know nothing of Heddle: {header}"


def check_include(path, quote, header):
    name = path.as_posix()
    folder = folder_of(path)
    target = folder_included(header)
    public = name.startswith("include/")

    if folder is not None and folder not in LADDER:
        yield f"folder '{folder}' is not in the ladder of scripts/check_ladder.py"
    elif folder is not None and target is not None:
        if LADDER.index(target) > LADDER.index(folder):
            yield f"'{folder}' may not include '{target}', which is below it: {header}"
        elif target not in ONLY.get(folder, set(LADDER)):
            yield f"'{folder}' may include only {sorted(ONLY[folder])}: {header}"
    if folder is not None and header in ("heddle/heddle.h", "heddle/extend.h"):
        yield "only outsiders include the umbrella header"
    if public and quote == '"' and not header.startswith("heddle/"):
        yield f"a public header includes the internal '{header}'"
    if name.startswith("meta_templates/") and ("/" in header or quote == '"'):
        parts = header.split("/")
        if not header.startswith("heddle/") and parts[0] not in MAY_SEE_TEMPLATES.get(path.parts[1], ()):
            yield f"'meta_templates/{path.parts[1]}' sees public headers and common parts only: {header}"
    yield from check_room(name, header)
    yield from check_subfolders(name, header)
    for prefix, owners in OWNED.items():
        if header.startswith(prefix) and not any(name.startswith(o) for o in owners):
            yield f"<{prefix}...> belongs in {', '.join(owners)} only: {header}"
    if public and any(header.startswith(h) for h in NOT_IN_PUBLIC_HEADERS):
        yield f"<{header}> is too heavy for a public header"


def place_in(parent, path):
    """The rank of a file among the subfolders of `parent`, or None for a file elsewhere."""
    if not path.startswith(parent + "/"):
        return None
    rest = path[len(parent) + 1:].split("/")
    order = SUBFOLDERS[parent]
    name = rest[0] if len(rest) > 1 else "."
    return order.index(name) if name in order else -1


def check_subfolders(path, header):
    """Subfolders include those before them; the headers of the folder itself serve all of them."""
    top = "meta_templates/" if path.startswith("meta_templates/") else "src/"
    included = top + header
    for parent in SUBFOLDERS:
        mine, theirs = place_in(parent, path), place_in(parent, included)
        if mine is None or theirs is None:
            continue
        if mine < 0 or theirs < 0:
            yield f"a subfolder of '{parent}' is not in SUBFOLDERS of scripts/check_ladder.py: {path}, {header}"
        elif theirs > mine and SUBFOLDERS[parent][theirs] != ".":
            yield f"'{path}' may not include '{header}', whose subfolder comes later in '{parent}'"


def check_ambient(name, lines):
    if any(name.startswith(may) for may in MAY_READ_AMBIENT):
        return
    for number, line in enumerate(lines, 1):
        if AMBIENT in line:
            yield f"{number}: takes options from the thread's scope: have them handed on"


def check_deps(included):
    """The DEPS of each folder's CMakeLists.txt are the folders that its files include."""
    for folder in LADDER:
        text = (ROOT / "src" / folder / "CMakeLists.txt").read_text(encoding="utf-8")
        call = text[text.rindex(f"heddle_folder({folder}"):]
        match = re.search(r"DEPS([^)]*?)(?:LIBS|\))", call)
        named = set(match[1].split()) if match else set()
        wanted = included.get(folder, set()) - {folder}
        if named != wanted:
            want = " ".join(sorted(wanted, key=LADDER.index))
            yield f"src/{folder}/CMakeLists.txt:1: its files include other folders than DEPS names: DEPS {want}"


def check_namespace(name, lines):
    """An internal header opens the namespace of its folder; one with the parts of a public class, `heddle`."""
    parts = name.split("/")
    if parts[0] != "src" or not name.endswith(".h"):
        return
    parts_of_public = any(re.match(r"(struct|class) \w+::Impl\b", line) for line in lines)
    allowed = NAMESPACES.get(parts[1], []) + (["heddle"] if parts_of_public else [])
    for number, line in enumerate(lines, 1):
        match = re.match(r"namespace (heddle[\w:]*) \{", line)
        if match and not any((match[1] + "::").startswith(space + "::") for space in allowed):
            yield f"{number}: the headers of '{parts[1]}' open one of the namespaces {', '.join(allowed)}"


def check_environment(name, lines):
    """Variables are read by one function, which knows them all."""
    if not name.startswith(("src/", "include/", "meta_templates/")) or name == "src/support/environment.cpp":
        return
    for number, line in enumerate(lines, 1):
        if "getenv(" in line:
            yield f"{number}: reads the environment: use environment_value (support/environment.h)"


def check_doors():
    """Each public header is gathered by one of the two headers that outsiders include."""
    include = ROOT / "include"
    doors = ["heddle/heddle.h", "heddle/extend.h"]
    reached, open_ends = set(doors), list(doors)
    while open_ends:
        for line in (include / open_ends.pop()).read_text(encoding="utf-8").splitlines():
            match = INCLUDE.match(line)
            if match and match[2].startswith("heddle/") and match[2] not in reached:
                reached.add(match[2])
                open_ends.append(match[2])
    for path in sorted(include.rglob("*.h")):
        header = path.relative_to(include).as_posix()
        if header not in reached:
            yield f"include/{header}:1: neither heddle.h nor extend.h gathers it: move it into src"


def main():
    problems, count, included = [], 0, {}
    for top in ["src", "include", "meta_templates", "tests", "tools", "tutorials", "bench"]:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in (".h", ".cpp") or not path.is_file():
                continue
            count += 1
            relative = path.relative_to(ROOT)
            lines = path.read_text(encoding="utf-8").splitlines()
            if len(lines) > MAX_LINES:
                problems.append(f"{relative}:{len(lines)}: longer than {MAX_LINES} lines: split it")
            if top in ("src", "include") and path.suffix == ".h" and "#pragma once" not in lines:
                problems.append(f"{relative}:1: a header without #pragma once")
            if top in ("src", "meta_templates"):
                for problem in check_ambient(relative.as_posix(), lines):
                    problems.append(f"{relative}:{problem}")
            for problem in [*check_environment(relative.as_posix(), lines), *check_namespace(relative.as_posix(), lines)]:
                problems.append(f"{relative}:{problem}")
            for number, line in enumerate(lines, 1):
                match = INCLUDE.match(line)
                if match:
                    if folder_of(relative) and folder_included(match[2]):
                        included.setdefault(folder_of(relative), set()).add(folder_included(match[2]))
                    for problem in check_include(relative, match[1], match[2]):
                        problems.append(f"{relative}:{number}: {problem}")
    problems += check_deps(included)
    problems += check_doors()
    print("\n".join(problems) if problems else f"{count} files keep to the ladder")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
