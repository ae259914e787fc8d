#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs all tests; ends with CTest's summary.
# Arguments go to ctest: scripts/test.sh -L unit
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${HEDDLE_BUILD_DIR:-build}
scripts/install_deps.sh
generator=()
if [[ ! -f $build/CMakeCache.txt ]] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
# All parts on: a folder that quickstart.sh made has some of them off.
cmake -S . -B "$build" "${generator[@]}" -DHEDDLE_BUILD_TESTS=ON -DHEDDLE_BUILD_BENCH=ON \
  -DHEDDLE_BUILD_TUTORIALS=ON -DHEDDLE_BUILD_TOOLS=ON
cmake --build "$build" --parallel "$(nproc)"
exec ctest --test-dir "$build" --output-on-failure --parallel 2 "$@"
