#!/usr/bin/env bash
# heddle.sh BUNDLE_SH HEDDLE LIBRARIES BUILD: bundles the command line, moves the bundle, and exports and
# tunes with it. Then what it says where the runtime of exported networks is missing.
set -euo pipefail
bundle=$(realpath "$1") program=$(realpath "$2") libraries=$(realpath "$3") build=$(realpath "$4")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$work/log" >&2 || true; exit 1; }

"$bundle" "$work/first" "$program"
(($(du -sm "$work/first" | cut -f1) <= 280)) || fail "the bundle has grown (packed, 250 MiB are 57)"
mkdir "$work/moved here"
mv "$work/first" "$work/moved here/heddle"
here="$work/moved here/heddle"
cd "$work"
heddle() { env -i PATH="$PATH" HOME="$work" HEDDLE_TOPHUB=off "$here/bin/heddle" "$@" > log 2>&1; }

heddle export matmul:1..8x8x8 -o out --threads 1 || fail "the bundle cannot export a library"
[[ -f out/libmatmul.so ]] || fail "no library was exported"
heddle tune matmul:16x16x16 --budget 3s --trials 4 --threads 1 --log log.jsonl ||
  fail "the bundle cannot tune"
[[ -s log.jsonl ]] || fail "tuning left no records"

rm "$here/lib/libheddle_runtime.a"
heddle export matmul:1..8x8x8 -o none --threads 1 && fail "a library is linked with nothing"
grep -q "install Heddle again" log || fail "no word on the missing runtime"

# In a build folder the message says which command makes it. The target is there.
mkdir -p fake/lib
cp -P "$libraries"/libheddle.so* fake/lib
touch fake/CMakeCache.txt
LD_LIBRARY_PATH="$work/fake/lib" HEDDLE_TOPHUB=off "$program" export matmul:1..8x8x8 -o none \
  --threads 1 > log 2>&1 && fail "a library is linked with nothing"
command=$(sed -n "s/.*make it: \(cmake --build .*\)/\1/p" log)
[[ $command == *"'$work/fake'"* ]] || fail "no command makes the missing runtime"
eval "${command//"'$work/fake'"/"'$build'"} -- -n" > log 2>&1 || fail "'$command' does not work"
echo "bundled, moved; exported and tuned there"
