#!/usr/bin/env bash
# Installs the Debian packages that are missing. Says nothing when all are there. Needs root or sudo
# only when there is work to do.
#
#   scripts/install_deps.sh             what the library, the command line and the lessons need
# and with one option or several, that and
#   --tests       what the tests need
#   --sanitizers  clang with its sanitizers and libFuzzer
#   --peers       the libraries that Heddle is timed against, where the distribution has them
set -euo pipefail

need=(
  build-essential cmake ninja-build
  llvm-19-dev libboost-graph-dev libxgboost-dev nlohmann-json3-dev libfmt-dev libcli11-dev
  libdlpack-dev
  zlib1g-dev libxml2-dev  # LLVM's CMake package asks for them
)
want=(ccache libprotobuf-dev protobuf-compiler libonnx-dev)  # the last three: ONNX import
for option in "$@"; do
  case $option in
    --tests) need+=(git python3 libgtest-dev libgmock-dev)
             want+=(clang-format-19 clang-tidy-19 libz3-dev iproute2 doxygen python3-numpy)  # iproute2: networks of a test of fleets
             # What makes Python environments, wherever this Python is from.
             python3 -c 'import ensurepip, venv' 2>/dev/null || want+=(python3-venv) ;;
    --sanitizers) need+=(clang-19 libclang-rt-19-dev) ;;
    --peers) want+=(libopenblas-dev libdnnl-dev libblis-openmp-dev
                    libxsmm-dev libhalide14-0-dev) ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

# These tools count as present, however they were installed.
declare -A tool_of=([build-essential]=g++ [cmake]=cmake [ninja-build]=ninja [python3]=python3 [git]=git
                    [ccache]=ccache [protobuf-compiler]=protoc [iproute2]=ip)
missing_of() {
  local package
  for package in "$@"; do
    if [[ -n ${tool_of[$package]:-} ]] && command -v "${tool_of[$package]}" >/dev/null; then continue; fi
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
      echo "$package"
  done
}
mapfile -t need < <(missing_of "${need[@]}")
mapfile -t want < <(missing_of "${want[@]}")
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
install() { apt install --yes --no-install-recommends "$@"; }
apt update || echo "warning: apt-get update failed; trying with the lists there are" >&2
if ((${#need[@]} > 0)); then
  echo "installing ${need[*]}"
  install "${need[@]}"
fi
if ((${#want[@]} > 0)); then
  echo "installing ${want[*]} (optional)"
  # Packages that this distribution does not have are left out. CMake then reports what that turns
  # off.
  install "${want[@]}" 2>/dev/null ||
    for package in "${want[@]}"; do
      install "$package" ||
        echo "warning: $package is not available; its part of Heddle is left out" >&2
    done
fi
