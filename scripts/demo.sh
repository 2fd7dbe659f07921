#!/usr/bin/env bash
# Builds the program and runs a demo on the CPU. Once the program is built, the demo takes a few minutes.
#   scripts/demo.sh [OPTION...]                         a Transformer learns to translate number words (`foldgrad demo`)
#   scripts/demo.sh --task shapes [--set KEY=VALUE]     a CCT learns to classify drawn shapes (`foldgrad train`)
#   scripts/demo.sh --task language [--set KEY=VALUE]   a GPT learns to write like the documentation (`foldgrad train`)
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help)
    sed -n '2,5s/^# //p' scripts/demo.sh
    exit ;;
  --task)
    if [[ ! "${2:-}" =~ ^(shapes|language)$ ]]; then
      echo "error: --task must be shapes or language, got \"${2:-}\"; without --task, it translates number words" >&2
      exit 2
    fi ;;
esac

program=$(scripts/build.sh)
if [[ "${1:-}" != "--task" ]]; then
  exec "$program" demo "$@"
fi
if [[ "${*:3}" =~ (^| )(-h|--help)( |$) ]]; then
  exec "$program" train --help
fi

# Prints a foldgrad command, so that you can repeat it by hand, and runs it.
foldgrad() {
  printf '\n$ foldgrad'
  printf ' %q' "$@"
  echo
  "$program" "$@"
}

out=runs/demo-$2
if [[ $2 == shapes ]]; then
  # Validates and logs often, so that the report's curves have many points. Validates on few images to save time.
  foldgrad train configs/shapes-cct-un.toml --out "$out" --set data.valid_images=1000 --set validate.every=40 \
    --set output.log_every=20 "${@:3}"
  foldgrad eval "$out"
  foldgrad fold "$out" -o "$out/folded"
  foldgrad verify "$out"
  shown="sheets of images"
else
  foldgrad train configs/docs-gpt-un.toml --data-dir . --out "$out" "${@:3}"
  foldgrad eval "$out" --data-dir .
  foldgrad fold "$out" -o "$out/folded" --untie
  foldgrad verify "$out" --untie
  foldgrad generate "$out/folded" --prompt "The " --length 600
  shown="generated text"
fi
foldgrad report "$out"
echo "Open $out/report.html in a browser to see the curves, layers and $shown of this run."
