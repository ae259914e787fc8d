#!/usr/bin/env bash
# run.sh BUNDLE_SH PROGRAM: bundles a test program, moves the bundle, and runs it with an empty
# environment; then checks that nothing but the bundle's own libraries is used, and the mistakes.
set -euo pipefail
bundle=$(realpath "$1") program=$(realpath "$2")
name=$(basename "$program")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

"$bundle" --tar "$work/bundle.tar.xz" --tophub "$work/first" "$program"
mkdir "$work/moved here"
tar -xJf "$work/bundle.tar.xz" -C "$work/moved here"
rm -rf "$work/first"
here="$work/moved here/first"
[[ -n $(ls "$here/share/heddle/tophub") ]] || fail "no records in the bundle"

cd /
env -i "$here/bin/$name" --gtest_filter='NDArray*:Dlpack*' --gtest_brief=1 > "$work/log" 2>&1 ||
  { cat "$work/log"; fail "the bundled program fails"; }
grep -q '\[  PASSED  \] [1-9]' "$work/log" || { cat "$work/log"; fail "no test ran"; }
# Through a link, too.
ln -s "$here/bin/$name" "$work/link"
env -i "$work/link" --gtest_filter=None > /dev/null || fail "a link to the wrapper does not start"

# What the loader maps, from an empty environment: all within the bundle.
"$here/glibc/ld-linux-x86-64.so.2" --library-path "$here/glibc:$here/lib" --list \
  "$here/libexec/$name" | awk '$2 == "=>"' > "$work/list"
[[ -s $work/list ]] || fail "the loader lists nothing"
if grep -vF "=> $here/" "$work/list"; then fail "libraries from outside the bundle"; fi
[[ ! -e $here/lib/libc.so.6 && -e $here/glibc/libpthread.so.0 ]] || fail "the C library's place"

# Mistakes.
"$bundle" "$work/x" "$work/none" 2> "$work/log" && fail "a missing program is bundled"
grep -q "there is no file" "$work/log" || fail "no word on the missing program"
mkdir "$work/precious"; touch "$work/precious/file"
"$bundle" "$work/precious" "$program" 2> "$work/log" && fail "a folder of the user's was taken"
grep -q "is no bundle" "$work/log" && [[ -e $work/precious/file ]] || fail "the user's folder is gone"
"$bundle" 2> "$work/log" && fail "no arguments are fine"
grep -q "bundle.sh \[options\]" "$work/log" || fail "no usage"
echo "bundled, moved and run"
