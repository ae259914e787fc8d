#!/usr/bin/env bash
# From a fresh checkout to a result: installs what is missing, builds what the main job needs, runs
# it, and names what to try next. Arguments go to the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

main_job=tutorial_03_digits  # what a newcomer sees first; a program in build/bin

scripts/install_deps.sh
# A build folder that exists keeps the generator it was made with.
generator=()
if [[ ! -f build/CMakeCache.txt ]] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
cmake -S . -B build "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DHEDDLE_BUILD_TESTS=OFF \
  -DHEDDLE_BUILD_BENCH=OFF
cmake --build build --parallel "$(nproc)" --target "$main_job"
echo
"build/bin/$main_job" "$@"

echo
echo "Next:"
if [[ ! -x build/bin/heddle ]]; then
  echo "  cmake --build build --parallel $(nproc) --target heddle_cli       # the command line"
fi
cat <<'TEXT'
  build/bin/heddle explain lenet:128                         # this network, stage by stage
  build/bin/heddle explain matmul:512x512x512 --show schedule,loops
  tutorials/01_first_kernel.cpp                              # how to write your own
TEXT
