#!/bin/sh
# The check on a machine with a GPU: from a kit (scripts/gpu_kit.sh), in which nothing has to be built.
#
#   gpu_kit/scripts/gpu_check.sh [--out FOLDER] [--seconds 570] [STAGE...]
#
# Stages are named in scripts/gpu/check.py and begin in the order of their worth; each ends within 100 seconds, whatever
# hangs. After each, FOLDER has the page of all so far, the figures as JSON, and the logs in one file. Exit code 1: a
# stage has failed; the others ran all the same. 2: a mistake in the command. 6: no GPU, no Python, or no kit.
#
# The kit brings its libraries except those of the driver, of C and C++, and cuBLAS, which is looked for in the CUDA
# toolkit and among Python's packages (LD_LIBRARY_PATH adds others).
root=$(cd "$(dirname "$0")/.." && pwd) || exit 6
python=$(command -v python3) || { echo "gpu_check: python3 is not on PATH" >&2; exit 6; }
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
packages=$("$python" -c 'import glob, nvidia; print(":".join(glob.glob(list(nvidia.__path__)[0] + "/*/lib")))' 2>/dev/null)
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${CUDA_HOME:-/usr/local/cuda}/lib64${packages:+:$packages}
export PATH LD_LIBRARY_PATH
exec "$python" "$root/scripts/gpu/check.py" "$@"
