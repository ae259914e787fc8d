#!/usr/bin/env bash
# From a fresh checkout to a result: installs what is missing, builds what the main job needs, reads
# handwritten digits, tunes that network, and names what to try next.
#
#   scripts/quickstart.sh [seconds to tune for: 30]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The programs in build/bin that this script runs.
reads_digits=tutorial_03_digits
tunes_them=tutorial_06_tune_a_network

SECONDS=0
scripts/install_deps.sh
installed=$SECONDS
# An existing build folder keeps its generator.
generator=()
if [[ ! -f build/CMakeCache.txt ]] && command -v ninja >/dev/null; then generator=(-G Ninja); fi

cmake -S . -B build "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DHEDDLE_BUILD_TESTS=OFF \
  -DHEDDLE_BUILD_BENCH=OFF
cmake --build build --parallel "$(nproc)" --target "$reads_digits" "$tunes_them"
built=$SECONDS
echo
"build/bin/$reads_digits"
echo
"build/bin/$tunes_them" "${1:-30}"

echo
echo "Installation took $installed s, building $((built - installed)) s, both networks $((SECONDS - built)) s."
echo
echo "Next:"
if [[ ! -x build/bin/heddle ]]; then
  echo "  cmake --build build --parallel $(nproc) --target heddle_cli       # the command line"
fi
cat <<'TEXT'
  build/bin/heddle explain lenet:128                         # this network, stage by stage
  build/bin/heddle explain matmul:512x512x512 --show schedule,loops
  build/bin/tutorial_06_tune_a_network 300                   # tune for longer
  tutorials/01_first_kernel.cpp                              # how to write your own
  cmake --install build --prefix ~/heddle                    # the library, for your own project
TEXT
