#!/bin/sh
# run.sh TEST.py ARGUMENTS runs the test with $FOLDGRAD_PYTHON (default: python3). Exits with 77 if there is no such
# Python.
python=${FOLDGRAD_PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
  echo "skipped: there is no $python; FOLDGRAD_PYTHON must name a Python"
  exit 77
fi
exec "$python" "$@"
