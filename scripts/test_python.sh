#!/usr/bin/env bash
# Builds the Python package in the build folder and runs its tests, in an environment of their own.
#
#   scripts/test_python.sh [options of pytest]    for example: scripts/test_python.sh -k network
#
# HEDDLE_BUILD_DIR names the build folder (build), HEDDLE_PYTHON the Python of the environment (python3). With torch in
# that environment (build/python_venv/bin/pip install torch) the tests of the backend of torch.compile run, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${HEDDLE_BUILD_DIR:-build}
venv=$build/python_venv
if [[ ! -x $venv/bin/pytest ]]; then
  "${HEDDLE_PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install --quiet nanobind numpy pytest ml_dtypes
fi
generator=()
if [[ ! -f $build/CMakeCache.txt ]] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
cmake -S . -B "$build" "${generator[@]}" -DHEDDLE_BUILD_PYTHON=ON -DPython_EXECUTABLE="$PWD/$venv/bin/python" \
  -DHEDDLE_BUILD_TOOLS=ON
cmake --build "$build" --parallel "$(nproc)" --target heddle_python heddle_cli
PYTHONPATH=$build/python exec "$venv/bin/pytest" -q python/tests "$@"
