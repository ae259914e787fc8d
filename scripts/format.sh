#!/usr/bin/env bash
# Formats all C++ sources in place; with --check changes nothing and fails where that would differ.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The version is fixed, because versions of clang-format differ.
tool=clang-format-19
if ! command -v "$tool" >/dev/null; then
  echo "error: $tool not found; apt-get install clang-format-19" >&2
  exit 1
fi
mode=(-i)
if [[ ${1:-} == --check ]]; then mode=(--dry-run --Werror); fi
folders=()
for folder in bench include meta_templates python src tests tools tutorials; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
find "${folders[@]}" \( -name '*.h' -o -name '*.cpp' \) -print0 | xargs -0 "$tool" "${mode[@]}"
