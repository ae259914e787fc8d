#!/usr/bin/env bash
# Builds the Python package in the build folder and runs its tests, in an environment of their own.
#
#   scripts/test_python.sh [options of pytest]    for example: scripts/test_python.sh -k network
#
# HEDDLE_BUILD_DIR names the build folder (build), HEDDLE_PYTHON the Python of the environment (python3). With torch in
# that environment (build/python_venv/bin/pip install torch) the tests of the backend of torch.compile run, too.
# HEDDLE_PYTHON_SANITIZE=address builds the extension module with AddressSanitizer, which also watches the heap of all others.
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
  -DHEDDLE_BUILD_TOOLS=ON -DHEDDLE_PYTHON_SANITIZE="${HEDDLE_PYTHON_SANITIZE:-}"
cmake --build "$build" --parallel "$(nproc)" --target heddle_python heddle_cli
if [[ ${HEDDLE_PYTHON_SANITIZE:-} == address ]]; then
  # Python itself is not instrumented, so that the library comes first; what an interpreter keeps to its end is no leak. What a
  # sanitizer keeps of freed memory is none either: without the tests that measure memory.
  LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so)"
  export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0
  set -- -k "not leave_no_memory" "$@"
fi
PYTHONPATH=$build/python exec "$venv/bin/python" -m pytest -q python/tests "$@"
