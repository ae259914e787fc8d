#!/usr/bin/env bash
# Shows that a machine on which nothing was ever installed by hand can build, use and package Heddle: makes a
# bare Debian system with debootstrap and this machine's package sources, copies the tree there, and
#   - runs scripts/quickstart.sh to its end, then the command that it names next, and installs;
#   - configures as scripts/test.sh does (with --full: runs it to its end);
#   - makes the Debian package, installs it, and builds and runs tests/consumer with it.
#
#   scripts/test_bare_system.sh [--full] [--no-ccache] [--keep]
#     --no-ccache  compile everything, to see how long that takes; else this machine's ccache folder is shared
#     --keep       leave the system where it is, and say where
#
# Needs root, debootstrap and the right to mount; says so and succeeds where it lacks one of them.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

full=no share_ccache=yes keep=no
for option in "$@"; do
  case $option in
    --full) full=yes ;;
    --no-ccache) share_ccache=no ;;
    --keep) keep=yes ;;
    *) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
skip() { echo "bare system: skipped: $*"; exit 0; }
(($(id -u) == 0)) || skip "needs root"
command -v debootstrap >/dev/null || skip "needs debootstrap (apt-get install debootstrap)"
[[ $(. /etc/os-release && echo "$ID") == debian ]] || skip "needs a Debian machine's package sources"

release=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
         awk -v release="$release" '$2 == release && $3 == "main" {print $1; exit}')
[[ -n $mirror ]] || skip "apt knows no source of $release"

# Mounts are in a separate namespace, which ends with this script for any reason.
if [[ -z ${HEDDLE_BARE_NAMESPACE:-} ]]; then
  unshare --mount --propagation private mount -t tmpfs tmpfs /mnt 2>/dev/null || skip "may not mount"
  HEDDLE_BARE_NAMESPACE=yes exec unshare --mount --propagation private -- scripts/test_bare_system.sh "$@"
fi

root=$(mktemp -d "${TMPDIR:-/tmp}/heddle-bare.XXXXXX")
chmod 755 "$root"  # apt downloads as a user of its own
clean_up() {
  local mounted
  for mounted in root/.cache/ccache dev proc; do umount --lazy "$root/$mounted" 2>/dev/null || true; done
  if [[ $keep == yes ]]; then echo "bare system: left in $root"; else rm -rf --one-file-system "$root"; fi
}
trap clean_up EXIT

step() { printf '\n== bare system, %d s: %s\n' "$SECONDS" "$*"; }
step "debootstrap $release"
debootstrap --variant=minbase "$release" "$root" "$mirror" > "$root.log" 2>&1 ||
  { tail -20 "$root.log"; rm -f "$root.log"; exit 1; }
rm -f "$root.log"

# This machine's package sources, their keys, and its name servers.
cp /etc/resolv.conf "$root/etc/"
rm -f "$root/etc/apt/sources.list"
for path in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/keyrings /etc/apt/trusted.gpg.d \
            /usr/share/keyrings /etc/ssl/certs; do
  if [[ -e $path ]]; then mkdir -p "$root$(dirname "$path")"; cp -aL "$path" "$root$(dirname "$path")/"; fi
done
apt-config dump --no-empty --format '%f "%v";%n' Acquire > "$root/etc/apt/apt.conf.d/99-of-the-host"

mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir "$root/heddle"
git ls-files -z --cached --others --exclude-standard |
  tar --null --files-from=- --ignore-failed-read -c 2>/dev/null | tar -x -C "$root/heddle"

environment=(HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb CI="${CI:-}"
             CCACHE_BASEDIR=/heddle)
for name in http_proxy https_proxy no_proxy; do
  if [[ -n ${!name:-} ]]; then environment+=("$name=${!name}"); fi
done
if [[ $share_ccache == yes ]] && command -v ccache >/dev/null; then
  mkdir -p "$root/root/.cache/ccache"
  folder=$(ccache --get-config cache_dir)
  mkdir -p "$folder"
  mount --bind "$folder" "$root/root/.cache/ccache"
else
  environment+=(CCACHE_DISABLE=1)
fi
inside() { env -i "${environment[@]}" chroot "$root" /bin/bash -euo pipefail -c "cd /heddle && $1"; }

step "scripts/quickstart.sh 10"
inside "scripts/quickstart.sh 10 < /dev/null"
step "the command that it names next, and an installation"
inside "cmake --build build --parallel \$(nproc) --target heddle_cli"
inside "cmake --install build --prefix /opt/heddle > /dev/null && /opt/heddle/bin/heddle --version"

step "the Debian package, without the build folder"
inside "apt-get -qq install --yes --no-install-recommends file > /dev/null"  # what cpack asks for
inside "cd build && cpack > cpack.log || { cat cpack.log; exit 1; }; mv heddle_*.deb /root"
inside "mv build /root/built && rm -rf /opt/heddle"
inside "apt-get -qq install --yes --no-install-recommends /root/heddle_*.deb > /dev/null && dpkg -s heddle | grep -E 'Version|Depends'"
inside "heddle explain matmul:64x64x64 > /dev/null"
inside "cmake -S tests/consumer -B /root/consumer -G Ninja -DCMAKE_BUILD_TYPE=Release > /dev/null &&
        cmake --build /root/consumer > /dev/null && /root/consumer/consumer && /root/consumer/runtime_consumer"
inside "mv /root/built build"

if [[ $full == yes ]]; then
  step "scripts/test.sh"
  inside "scripts/test.sh < /dev/null"
else
  step "scripts/test.sh --configure"
  inside "scripts/test.sh --configure < /dev/null"
fi
step "done"
