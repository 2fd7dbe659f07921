#!/bin/sh
# The check on a machine with a GPU, from a kit (scripts/gpu_kit.sh) in which everything is built.
#
#   gpu_kit/scripts/gpu_check.sh [--out FOLDER] [--seconds 570] [STAGE...]
#
# scripts/gpu/check.py names the stages, which run in the order of their value; each ends within 100 seconds, even if it
# hangs. After each, FOLDER has a page of all stages so far, the figures as JSON, and the logs in one file. Exit code 1:
# a stage has failed; the others ran nevertheless. 2: a mistake in the command. 6: no GPU, no Python, or no kit.
#
# The kit contains its libraries except those of the driver, of C and C++, and cuBLAS, which is searched for in the CUDA
# toolkit and in Python's packages (LD_LIBRARY_PATH adds others).
root=$(cd "$(dirname "$0")/.." && pwd) || exit 6
python=$(command -v python3) || { echo "gpu_check: python3 is not on PATH" >&2; exit 6; }
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
packages=$("$python" -c 'import glob, nvidia; print(":".join(glob.glob(list(nvidia.__path__)[0] + "/*/lib")))' 2>/dev/null)
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${CUDA_HOME:-/usr/local/cuda}/lib64${packages:+:$packages}
export PATH LD_LIBRARY_PATH
exec "$python" "$root/scripts/gpu/check.py" "$@"
