#!/usr/bin/env bash
# Sets up, builds and runs the demo: a Transformer learns to translate number words, on the CPU, in about 3 minutes once
# the program is built.
# Arguments go to it:  scripts/demo.sh --norm ln --seed 2
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(scripts/build.sh)
exec "$program" demo "$@"
