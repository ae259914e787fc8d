#!/usr/bin/env bash
# Makes a Python environment with Ray (tools/fleet/requirements.txt) for the tests of fleets, once for each version
# of the requirements. Says why where it cannot; the tests are then skipped.
#
#   scripts/fleet_venv.sh build     in build/fleet-venv
set -euo pipefail
build=${1:?scripts/fleet_venv.sh BUILD_FOLDER}
requirements=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../tools/fleet/requirements.txt

venv=$build/fleet-venv stamp=$build/fleet-venv/made-for
wanted="$(python3 --version 2>&1) $(sha256sum < "$requirements")"
if [[ -f $stamp && $(< "$stamp") == "$wanted" ]]; then exit 0; fi

rm -rf "$venv"
without() {  # a half-made environment would be taken for one
  rm -rf "$venv"
  echo "the tests of fleets on Ray will be skipped: $*"
  exit 0
}
python3 -c 'import ensurepip, venv' 2>/dev/null || without "this Python makes no environments (python3-venv)"
mkdir -p "$build"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "installing $(grep -v '^#' "$requirements" | tr '\n' ' ')in $venv"
timeout 60 python3 -m venv "$venv" > "$log" 2>&1 || without "$(tail -1 "$log")"
# Only built packages: what has none for this Python is not compiled here.
timeout 300 "$venv/bin/pip" install --quiet --disable-pip-version-check --no-input --only-binary :all: --retries 1 \
  --timeout 20 --requirement "$requirements" > "$log" 2>&1 ||
  without "pip: $(grep -m 1 '^ERROR' "$log" || tail -1 "$log")"
echo "$wanted" > "$stamp"
