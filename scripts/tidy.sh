#!/usr/bin/env bash
# Runs clang-tidy on the lines of C++ that a change touches; what it finds fails.
#   scripts/tidy.sh              the lines that differ from the last commit, or that it changed
#   scripts/tidy.sh BASE         the lines that differ from commit BASE
#   scripts/tidy.sh FILE.cpp..   these files
# It needs a configured build folder (BUILD_DIR, by default build) for the compiler's options.
# Exit status 77: there is nothing to check here, or nothing to check it with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool=clang-tidy-19
build=${BUILD_DIR:-build}
most=12  # files: a change of more is a move, whose files were checked where they came from
if ! command -v "$tool" >/dev/null; then echo "skipped: $tool not found; apt-get install $tool"; exit 77; fi
if [[ ! -f $build/compile_commands.json ]]; then echo "skipped: no $build/compile_commands.json"; exit 77; fi

if [[ ${1:-} == *.cpp ]]; then
  files=("$@")
else
  base=${1:-HEAD}
  if [[ $# -eq 0 ]] && git diff --quiet HEAD 2>/dev/null; then base=HEAD~1; fi
  if ! git rev-parse -q --verify "$base^{commit}" >/dev/null 2>&1; then echo "skipped: no commit $base"; exit 77; fi
  mapfile -t files < <(git diff --name-only --diff-filter=AM "$base" -- \
    'src/*.cpp' 'meta_templates/*.cpp' 'tools/*.cpp' 'bench/*.cpp')
fi
# Only what this build compiles.
checked=()
for file in "${files[@]}"; do
  if grep -qF "/$file\"" "$build/compile_commands.json"; then checked+=("$file"); fi
done
if (( ${#checked[@]} == 0 )); then echo "skipped: no source changed"; exit 77; fi
if (( ${#checked[@]} > most )); then
  echo "skipped: ${#checked[@]} sources changed; name files or a later commit to check some"; exit 77
fi
# The compiler's precompiled headers are not clang's.
database=$(mktemp -d)
trap 'rm -r "$database"' EXIT
sed -E 's# -Winvalid-pch -include [^ ]*cmake_pch\.hxx##; s# -fpch-preprocess##; s# -Wno-(restrict|array-bounds|stringop-[a-z]+)##g' \
  "$build/compile_commands.json" >"$database/compile_commands.json"
# Of a change only its lines count: what stands beside them was there before.
filter='[]'
if [[ -n ${base:-} ]]; then
  filter=$(git diff -U0 "$base" -- "${checked[@]}" | awk '
    /^\+\+\+ b\// { file = substr($2, 3) }
    /^@@/ { split(substr($3, 2), at, ","); n = at[2] == "" ? 1 : at[2]
            if (n > 0) lines[file] = lines[file] (lines[file] ? "," : "") "[" at[1] "," at[1] + n - 1 "]" }
    END { printf "["; for (f in lines) { printf "%s{\"name\":\"%s\",\"lines\":[%s]}", sep, f, lines[f]; sep = "," }
          print "]" }')
fi
printf '%s\n' "${checked[@]}" |
  xargs -P "${JOBS:-2}" -n 1 "$tool" --quiet --warnings-as-errors='*' --line-filter="$filter" -p "$database"
