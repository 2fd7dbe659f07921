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
# Often enough for full curves in the report, and on few images each time.
"$program" train configs/shapes-cct-un.toml --out "$out" --set data.valid_images=1000 --set validate.every=40 \
  --set output.log_every=20 "${@:3}"
"$program" eval "$out"
"$program" fold "$out" -o "$out/folded"
"$program" verify "$out"
"$program" report "$out"
echo "Open $out/report.html in a browser: curves, layers and sheets of images of this run."
