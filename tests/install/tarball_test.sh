#!/usr/bin/env bash
# Runs the program of a tarball (scripts/tarball.sh) in the root file system of another Linux, for example one made by
# `debootstrap --variant=minbase trixie ROOT`: a demo, a language model, and other commands that read or write files.
#   tests/install/tarball_test.sh TARBALL ROOT      as root
set -euo pipefail
tarball=$(realpath "$1") root=$(realpath "$2")

if [[ ${3:-} != mounted ]]; then
  exec unshare --mount "$0" "$tarball" "$root" mounted
fi
mount --rbind /proc "$root/proc"
rm -rf "$root/opt/tarball"
mkdir -p "$root/opt/tarball"
tar -xJf "$tarball" -C "$root/opt/tarball" --strip-components=1
# shellcheck disable=SC2016
env -i PATH=/usr/bin:/bin HOME=/root OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" /usr/sbin/chroot "$root" bash -euo pipefail -c '
  expect() { [[ $2 == *"$3"* ]] || { echo "tarball: $1 says $2 and not $3" >&2; exit 1; }; }
  cd /opt/tarball
  F=$PWD/bin/foldgrad
  foreign=$(ldd bin/foldgrad | awk "\$3 ~ /^\// && \$3 !~ /^\/opt\/tarball\// {print \$1}" | sort | tr "\n" " ")
  expect ldd "$foreign" "libc.so.6 libgcc_s.so.1 libm.so.6 libstdc++.so.6 "
  expect --version "$($F --version)" "x86-64-v"
  expect doctor "$($F doctor)" "png                yes"
  cd /opt/tarball/share/foldgrad
  expect demo "$($F demo --steps 50 --out /opt/tarball/demo 2>/dev/null)" "translations equal those of the unfolded model"
  $F train configs/docs-gpt-un.toml --data-dir ../doc/foldgrad --out /opt/tarball/gpt --set train.steps=20 \
    --set train.warmup=5 --set validate.every=20 >/dev/null 2>&1
  expect generate "$($F generate /opt/tarball/gpt --prompt "The " --length 20)" "The "
  $F data synth shapes /opt/tarball/shapes --count 50 --test-count 10 >/dev/null
  $F export /opt/tarball/demo/folded --to onnx -o /opt/tarball/demo.onnx >/dev/null
  $F verify /opt/tarball/demo --untie | grep passed >/dev/null
  for path in /opt/tarball/demo.onnx /opt/tarball/demo/report.html; do test -s $path; done
  source ../bash-completion/completions/foldgrad
  COMP_LINE="foldgrad tra" COMP_POINT=12
  _foldgrad $F
  expect completion "${COMPREPLY[*]}" "train translate"
'
if command -v qemu-x86_64 >/dev/null; then  # a CPU without AVX2
  code=0
  said=$(qemu-x86_64 -cpu Nehalem "$root/opt/tarball/bin/foldgrad" norms 2>&1) || code=$?
  if ((code != 6)) || [[ $said != *"error: this build needs a CPU of level"* ]]; then
    echo "tarball: on a CPU without AVX2: exit code $code, $said" >&2
    exit 1
  fi
fi
echo "tarball: works in $root, $(sed -n 's/^PRETTY_NAME=//p' "$root/etc/os-release"), with $(
  chroot "$root" ldd --version | head -n 1)"
