#!/usr/bin/env bash
# Runs clang-tidy on the C++ sources that a change touches; what it finds fails.
#   scripts/tidy.sh              what differs from the last commit, or what that commit changed
#   scripts/tidy.sh BASE         what differs from commit BASE
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
printf '%s\n' "${checked[@]}" |
  xargs -P "${JOBS:-2}" -n 1 "$tool" --quiet --warnings-as-errors='*' -p "$database"
