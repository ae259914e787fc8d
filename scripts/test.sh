#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs all tests; ends with CTest's summary.
#
#   scripts/test.sh [options of ctest]     for example: scripts/test.sh -L unit
#   scripts/test.sh --fast                 style, and the unit tests that take less than ten seconds each
#   scripts/test.sh --configure            stops when CMake has configured
#   scripts/test.sh --preset asan          the unit tests with AddressSanitizer and UBSan, in build/asan
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

configure_only=no
if [[ ${1:-} == --configure ]]; then configure_only=yes; shift; fi
# The unit tests that take more than ten seconds.
slow='family|warp_group|llvm|llvm_test_sse|network|onnx|driver|kill|fleet|gpu_race|cuda_measure|cuda_network_tune'
slow+='|attention|faults|cuda_templates|contraction|measure|image_chain'
if [[ ${1:-} == --fast ]]; then shift; set -- -L 'style|unit' -E "^($slow)(_test)?\$" "$@"; fi
if [[ ${1:-} == --preset ]]; then
  preset=${2:?--preset asan}; shift 2
  scripts/install_deps.sh --tests $([[ $preset == asan ]] && echo --sanitizers)
  cmake --preset "$preset"
  cmake --build "build/$preset" --parallel "$(nproc)"
  ulimit -s 65536 || true  # instrumented frames are several times as large; some tests nest 4,000 levels
  exec ctest --preset "$preset" --parallel 2 "$@"
fi
build=${HEDDLE_BUILD_DIR:-build}
scripts/install_deps.sh --tests --peers
scripts/fleet_venv.sh "$build"
generator=()
if [[ ! -f $build/CMakeCache.txt ]] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
# All parts on: a folder that quickstart.sh made has some of them off.
cmake -S . -B "$build" "${generator[@]}" -DHEDDLE_BUILD_TESTS=ON -DHEDDLE_BUILD_BENCH=ON \
  -DHEDDLE_BUILD_TUTORIALS=ON -DHEDDLE_BUILD_TOOLS=ON
if [[ $configure_only == yes ]]; then exit 0; fi
cmake --build "$build" --parallel "$(nproc)"
exec ctest --test-dir "$build" --output-on-failure --parallel 2 "$@"
