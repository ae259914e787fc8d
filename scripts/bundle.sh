#!/usr/bin/env bash
# Makes a bundle of programs that runs on another x86-64 Linux machine: the programs, stripped, and all
# the shared libraries that they need, the C library and its loader too. Of the other machine's it
# uses the NVIDIA driver and NVRTC (found there: the CUDA toolkit or a Python wheel; HEDDLE_NVRTC).
# With libheddle.so come the program of its workers, which tuning starts, and the runtime that exported
# networks are linked with (the other machine's c++ links them).
#
#   scripts/bundle.sh [options] FOLDER PROGRAM|LIBRARY...
#     --tar FILE     also pack it, with xz at preset 3 and its filter for x86 code
#     --tophub       with the shipped records (share/heddle/tophub)
#     --nvrtc LIB    with this libnvrtc.so and what lies beside it (100 MB more)
#     --library LIB  with a library that is opened at run time (libopenblas.so.0), and what it needs
#
# FOLDER/bin has one wrapper for each program; start those. FOLDER/lib has the libraries but for the C
# library's own, which are in FOLDER/glibc: a Python of the other machine can load FOLDER/lib/*.so
# with LD_LIBRARY_PATH=FOLDER/lib. Needs bash, ldd, strip and, for --tar, tar and xz.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
usage() { sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
fail() { echo "bundle.sh: $*" >&2; exit 1; }

tar_file='' tophub=no nvrtc='' extra=()
while [[ ${1:-} == --* ]]; do
  case $1 in
    --tar) tar_file=${2:?--tar needs a file}; shift 2 ;;
    --tophub) tophub=yes; shift ;;
    --nvrtc) nvrtc=${2:?--nvrtc needs a library}; shift 2 ;;
    --library) extra+=("${2:?--library needs a file}"); shift 2 ;;
    *) usage ;;
  esac
done
(($# >= 2)) || usage
out=$1; shift
for file in "$@" ${extra[@]+"${extra[@]}"} ${nvrtc:+"$nvrtc"}; do
  [[ -f $file ]] || fail "there is no file '$file'"
done

if [[ -e $out ]]; then
  [[ -f $out/.heddle-bundle ]] || fail "'$out' exists and is no bundle; name another folder"
  rm -rf "$out"
fi
mkdir -p "$out"/{bin,lib,glibc,libexec}
touch "$out/.heddle-bundle"

# These files belong to the other machine's driver, or are NVRTC. They are never copied from here.
is_driver() { [[ $1 == libcuda.so* || $1 == libnvidia-* || $1 == libnvrtc* ]]; }
# All of these must come from one C library.
is_glibc() {
  case $1 in
    ld-linux*|libc.so*|libm.so*|libmvec.so*|libdl.so*|libpthread.so*|librt.so*|libresolv.so*|\
    libutil.so*|libanl.so*|libnsl.so*|libnss_*|libthread_db.so*|libBrokenLocale.so*) return 0 ;;
  esac
  return 1
}

# Prints "name path" for all libraries that a file needs.
needs() {
  local report
  report=$(ldd "$1" 2>/dev/null) || return 0  # a static program
  if grep -q 'not found' <<< "$report"; then
    while read -r name _; do
      is_driver "$name" || fail "'$1' needs $name, which is not found"
    done < <(grep 'not found' <<< "$report")
  fi
  awk '$2 == "=>" && $3 ~ /^\// {print $1, $3} $1 ~ /^\// {n = split($1, p, "/"); print p[n], $1}' \
    <<< "$report"
}

add_program() {  # path
  local name
  name=$(basename "$1")
  cp -L "$1" "$out/libexec/$name"
  strip "$out/libexec/$name"
  cat > "$out/bin/$name" <<'WRAPPER'
#!/bin/sh
# Starts the program with the bundle's own loader and libraries. What is not in the bundle (the driver,
# NVRTC) is looked for where machines with a GPU have it.
self=$(readlink -f "$0")
here=${self%/bin/*}
path=$here/glibc:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
path=$path:/usr/local/nvidia/lib64:/usr/local/cuda/lib64
unset LD_LIBRARY_PATH
exec "$here/glibc/ld-linux-x86-64.so.2" --argv0 "$0" --library-path "$path" \
  "$here/libexec/${self##*/}" "$@"
WRAPPER
  chmod 755 "$out/bin/$name"
}

# What libheddle.so looks for beside itself: in a build folder or an installation.
add_companions() {  # its path
  local folder worker
  folder=$(dirname "$(readlink -f "$1")")
  [[ -f $folder/libheddle_runtime.a ]] || fail "'$folder' has no libheddle_runtime.a"
  cp "$folder/libheddle_runtime.a" "$out/lib/"
  strip --strip-debug "$out/lib/libheddle_runtime.a"
  for worker in "$folder"/{.,../bin,../libexec/heddle,../../libexec/heddle}/heddle-worker; do
    if [[ -f $worker ]]; then add_program "$worker"; return; fi
  done
  fail "there is no heddle-worker for '$1'"
}

add_library() {  # name path
  is_driver "$1" && return 0
  local folder=lib
  is_glibc "$1" && folder=glibc
  [[ -e $out/$folder/$1 ]] && return 0
  cp -L "$2" "$out/$folder/$1"
  chmod 755 "$out/$folder/$1"
  # The loader is not stripped, because debuggers and the loader itself look for its symbols.
  [[ $folder == glibc ]] || strip --strip-unneeded "$out/$folder/$1"
  if [[ $1 == libheddle.so* ]]; then add_companions "$2"; fi
}
add_needs() { while read -r name path; do add_library "$name" "$path"; done < <(needs "$1"); }

for file in "$@"; do
  name=$(basename "$file")
  if [[ $name == *.so || $name == *.so.* ]]; then
    add_library "$name" "$file"
  else
    add_program "$file"
  fi
  add_needs "$file"
done
for file in ${extra[@]+"${extra[@]}"}; do
  add_library "$(basename "$file")" "$file"
  add_needs "$file"
done

# The parts of the C library that the driver and NVRTC need, whether or not the programs do.
libc=$(needs "$(command -v bash)" | awk '$1 == "libc.so.6" {print $2}')
[[ -n $libc ]] || fail "cannot tell where the C library is"
loader=$(needs "$(command -v bash)" | awk '$1 ~ /^ld-linux/ {print $2}')
add_library ld-linux-x86-64.so.2 "$loader"
for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2; do
  [[ -e $(dirname "$libc")/$name ]] && add_library "$name" "$(dirname "$libc")/$name"
done

if [[ -n $nvrtc ]]; then
  folder=$(dirname "$(readlink -f "$nvrtc")")
  cp -L "$nvrtc" "$out/lib/$(basename "$nvrtc")"
  for builtins in "$folder"/libnvrtc-builtins.so.*; do
    [[ $builtins == *.alt.* ]] || cp -L "$builtins" "$out/lib/"
  done
fi
if [[ $tophub == yes ]]; then
  mkdir -p "$out/share/heddle"
  cp -RL "$root/tophub" "$out/share/heddle/tophub"
fi

if [[ -n $tar_file ]]; then
  tar -C "$(dirname "$out")" -c "$(basename "$out")" |
    xz --x86 --lzma2=preset=3,dict=32MiB -T0 > "$tar_file.part"
  mv "$tar_file.part" "$tar_file"
  echo "$tar_file: $(($(stat -c %s "$tar_file") / 1000000)) MB"
fi
echo "$out: $(du -sm "$out" | cut -f1) MiB, $(ls "$out/lib" "$out/glibc" | grep -c '\.so') libraries"
