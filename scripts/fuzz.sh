#!/usr/bin/env bash
# Builds the fuzz targets (tests/fuzz) with clang, libFuzzer, AddressSanitizer and UBSan in build/asan, and runs
# them one after the other; ends with a table. What a target finds lies in build/asan/fuzz/TARGET.found; the input
# goes to tests/fuzz/found/TARGET once the bug is mended, where a unit test replays it.
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]     SECONDS a target: 60 unless given; all targets unless named
#
# Exit code 1: a target found something.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-60}
if [[ ! $seconds =~ ^[0-9]+$ ]]; then sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
shift || true
targets=("$@")
if ((${#targets[@]} == 0)); then
  targets=(cubin declaration exported frames gguf heuristic npy onnx records schedule subject target tree worker)
fi

scripts/install_deps.sh --tests --sanitizers
cmake --preset asan >/dev/null
cmake --build build/asan --parallel "$(nproc)" --target heddle_fuzz >/dev/null

program=build/asan/bin/heddle_fuzz
work=build/asan/fuzz
export UBSAN_OPTIONS=print_stacktrace=1
table=$(printf '%-12s %12s %10s %8s %8s  %s' target executions seconds seeds corpus found)
status=0
for target in "${targets[@]}"; do
  seeds=$work/$target.seeds corpus=$work/$target.corpus found=$work/$target.found log=$work/$target.log
  mkdir -p "$corpus" "$found"
  "$program" --target="$target" --seeds="$seeds"
  # Hangs are inputs that take more than 5 s, and 2 GiB are more than any small input may need.
  "$program" --target="$target" -max_total_time="$seconds" -timeout=5 -malloc_limit_mb=2048 -rss_limit_mb=4096 \
    -dict="$seeds.dict" -artifact_prefix="$found/" -print_final_stats=1 -max_len=20000 -verbosity=1 \
    "$corpus" "$seeds" >"$log" 2>&1 && ended=nothing || { ended="see $log"; status=1; }
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  ran=$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) second.*/\1/p' "$log")
  row=$(printf '%-12s %12s %10s %8s %8s  %s' "$target" "${executions:-?}" "${ran:--}" \
    "$(find "$seeds" -type f | wc -l)" "$(find "$corpus" -type f | wc -l)" "$ended")
  echo "$row"
  table+=$'\n'$row
done
printf '\n%s\n' "$table"
exit "$status"
