#!/usr/bin/env bash
# Sets up, builds and runs a demo on the CPU, in a few minutes once the program is built.
#   scripts/demo.sh [OPTION...]                       a Transformer learns to translate number words; as `foldgrad demo`
#   scripts/demo.sh --task shapes [--set KEY=VALUE]   a CCT learns to classify drawn shapes; options of `foldgrad train`
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(scripts/build.sh)
if [[ "${1:-} ${2:-}" != "--task shapes" ]]; then
  exec "$program" demo "$@"
fi

out=runs/demo-shapes
"$program" train configs/shapes-cct-un.toml --out "$out" "${@:3}"
"$program" eval "$out"
"$program" fold "$out" -o "$out/folded"
"$program" verify "$out"
"$program" report "$out"
