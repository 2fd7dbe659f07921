#!/bin/sh
# Checks foldgrad on a machine with a GPU. Everything is already built in the kit (scripts/gpu_kit.sh).
#
#   gpu_kit/scripts/gpu_check.sh [--out FOLDER] [--seconds 570] [STAGE...]
#
# scripts/gpu/check.py lists the stages. The most valuable stages run first, and each ends within 100 seconds, even if
# it hangs. After each stage, FOLDER contains a report on all stages so far, the figures as JSON, and an archive of the
# logs. The exit code is 1 if a stage has failed, 2 if the command is wrong, and 6 if there is no GPU, no Python or no
# kit. After a failed stage, the other stages still run.
#
# The kit contains all libraries except the driver's, the C and C++ libraries, and cuBLAS. This script looks for cuBLAS
# in LD_LIBRARY_PATH, in the CUDA toolkit and in Python packages.
root=$(cd "$(dirname "$0")/.." && pwd) || exit 6
python=$(command -v python3) || { echo "gpu_check: python3 is not on PATH" >&2; exit 6; }
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
packages=$("$python" -c 'import glob, nvidia; print(":".join(glob.glob(list(nvidia.__path__)[0] + "/*/lib")))' 2>/dev/null)
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${CUDA_HOME:-/usr/local/cuda}/lib64${packages:+:$packages}
export PATH LD_LIBRARY_PATH
exec "$python" "$root/scripts/gpu/check.py" "$@"
