#!/usr/bin/env bash
# Sets up and builds the program without its tests, and prints where it is: build/release/foldgrad.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh >&2
cmake --preset release >&2
cmake --build --preset release --target foldgrad >&2
echo build/release/foldgrad
