#!/usr/bin/env bash
# Installs Python packages into a virtual environment outside the source tree, and prints the path of its interpreter:
#   FOLDGRAD_PYTHON=$(scripts/python.sh numpy torch safetensors) ctest --preset emulate -L python
# The environment is $FOLDGRAD_VENV, by default ~/.cache/foldgrad/venv.
set -euo pipefail
(($# > 0)) || set -- numpy torch safetensors onnx onnxruntime

where=${FOLDGRAD_VENV:-$HOME/.cache/foldgrad/venv}
python=$where/bin/python3
[[ -x $python ]] || python3 -m venv "$where" >&2 || {
  echo "python: cannot create a virtual environment in $where; Debian's package python3-venv is needed" >&2
  exit 1
}
"$python" -c 'import importlib.metadata, sys; [importlib.metadata.version(p) for p in sys.argv[1:]]' "$@" 2>/dev/null ||
  "$python" -m pip install --quiet --disable-pip-version-check "$@" >&2
echo "$python"
