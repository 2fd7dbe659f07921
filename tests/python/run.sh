#!/bin/sh
# run.sh TEST.py ARGUMENTS: with the interpreter of $FOLDGRAD_PYTHON, by default python3; exit code 77 without one.
python=${FOLDGRAD_PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
  echo "skipped: there is no $python; FOLDGRAD_PYTHON must name a Python"
  exit 77
fi
exec "$python" "$@"
