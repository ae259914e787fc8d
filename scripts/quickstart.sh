#!/usr/bin/env bash
# From a fresh checkout to a result: installs what is missing, builds, and runs one program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

main_job=tutorial_03_digits  # what a newcomer sees first; a program in build/bin

scripts/install_deps.sh
# A build folder that exists keeps the generator it was made with.
generator=()
if [[ ! -f build/CMakeCache.txt ]] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
cmake -S . -B build "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DHEDDLE_BUILD_TESTS=OFF \
  -DHEDDLE_BUILD_BENCH=OFF
cmake --build build --parallel "$(nproc)" --target heddle "$main_job"
exec "build/bin/$main_job" "$@"
