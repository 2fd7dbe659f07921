#!/usr/bin/env bash
# Builds foldgrad in a root file system of Debian 13 as README.md describes, and runs the demo and the tests of matrix
# products, operations and models there:
#   FOLDGRAD_DEBIAN_ROOT=/var/tmp/trixie ctest --preset emulate -L install
# The folder needs 6 GB. It is kept, so that the next run installs and compiles only the differences. Exits with code 77
# (skipped) if the variable is not set, if the user is not root, or if there is no debootstrap or mirror.
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() { echo "debian13: skipped, $*"; exit 77; }

root=${FOLDGRAD_DEBIAN_ROOT:-}
[[ -n $root ]] || skip "FOLDGRAD_DEBIAN_ROOT does not name a folder for the root"
((EUID == 0)) || skip "only root can create and enter another root file system"
export PATH=$PATH:/usr/sbin:/sbin
command -v debootstrap >/dev/null || skip "there is no debootstrap"
# Use the mirror and the proxy that apt uses on this machine.
mirror=$(apt-get indextargets --format '$(ORIGIN) $(SITE)' 'Created-By: Packages' |
  awk '$1 == "Debian" && $2 !~ /security/ {print $2; exit}')
[[ -n $mirror ]] || skip "apt knows no mirror of Debian"
eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
[[ -z ${http_proxy:-} ]] || export http_proxy
curl -fsSL --max-time 60 "$mirror/dists/trixie/Release" >/dev/null || skip "$mirror has no Debian 13 or is out of reach"

if [[ ! -e $root/finished ]]; then
  debootstrap --variant=minbase trixie "$root" "$mirror"
  apt-config dump Acquire | grep -E '^Acquire::(https?|Check-[A-Z])' >"$root/etc/apt/apt.conf.d/99host" || true
  touch "$root/finished"
fi
mkdir -p "$root/foldgrad"
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$root/foldgrad"

# The mounts disappear when the command ends.
unshare --mount bash -euc '
  mount -t proc proc "$0/proc"
  mount --rbind /dev "$0/dev"
  exec chroot "$0" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 bash -euo pipefail -c "$1"
' "$root" '
  cd /foldgrad
  rm -rf runs
  program=$(scripts/build.sh)
  "$program" demo --steps 200
  mapfile -t programs < <(ninja -C build/release -t targets all | grep -oE "^(engine_gemm|ops|models_[a-z]+)_test")
  cmake --build --preset release --target "${programs[@]}"
  export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
  for tests in "${programs[@]}"; do "build/release/$tests" --gtest_brief=1; done'
echo "debian13: built and tried in $root"
