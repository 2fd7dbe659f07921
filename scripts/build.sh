#!/usr/bin/env bash
# Installs the packages that the build needs, builds the program without tests, and prints its path.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh >&2
cmake --preset release >&2
cmake --build --preset release --target foldgrad >&2
echo build/release/foldgrad
