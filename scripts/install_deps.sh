#!/usr/bin/env bash
# Installs the Debian packages that are missing, those that Heddle needs and those that switch on
# optional parts. Says nothing when all are there. Needs root or sudo only when there is work to do.
set -euo pipefail

required=(
  build-essential cmake ninja-build python3 git
  llvm-19-dev libboost-graph-dev libxgboost-dev nlohmann-json3-dev libfmt-dev libcli11-dev
  libdlpack-dev libgtest-dev libgmock-dev
  zlib1g-dev libxml2-dev  # LLVM's CMake package asks for them
)
optional=(ccache libopenblas-dev libdnnl-dev libbenchmark-dev libz3-dev clang-format-19
          libtbb-dev libblis-openmp-dev libxsmm-dev libhalide14-0-dev)

missing_of() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
      echo "$package"
  done
}

mapfile -t need < <(missing_of "${required[@]}")
mapfile -t want < <(missing_of "${optional[@]}")
# The tools count as present however they came.
drop_if_on_path() {
  local package=$1 command=$2 kept=() p
  for p in "${need[@]}"; do
    if [[ $p == "$package" ]] && command -v "$command" >/dev/null; then continue; fi
    kept+=("$p")
  done
  need=("${kept[@]}")
}
drop_if_on_path build-essential g++
drop_if_on_path cmake cmake
drop_if_on_path ninja-build ninja
drop_if_on_path python3 python3
drop_if_on_path git git
if ((${#need[@]} == 0 && ${#want[@]} == 0)); then exit 0; fi

as_root=()
if (($(id -u) != 0)); then
  if ! command -v sudo >/dev/null; then
    if ((${#need[@]} == 0)); then exit 0; fi  # only optional parts are missing: go on without
    echo "error: neither root nor sudo; as root, run: apt-get install ${need[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >/dev/null
}
apt update || echo "warning: apt-get update failed; trying with the lists there are" >&2
if ((${#need[@]} > 0)); then
  echo "installing ${need[*]}"
  apt install --yes --no-install-recommends "${need[@]}"
fi
# One by one: what this distribution does not have is left out, and CMake says what that turns off.
for package in "${want[@]}"; do
  echo "installing $package (optional)"
  apt install --yes --no-install-recommends "$package" ||
    echo "warning: $package is not available; its part of Heddle is left out" >&2
done
