#!/usr/bin/env bash
# Builds foldgrad and runs its tests. If the machine has a GPU and nvcc, the CUDA kernels run on the GPU, otherwise they
# are emulated on the host. Arguments that begin with -D go to cmake, all others to ctest:
#   scripts/test.sh -DFOLDGRAD_WERROR=ON -R layer_norm
set -euo pipefail
cd "$(dirname "$0")/.."

configure=()
select=()
for argument in "$@"; do
  if [[ $argument == -D* ]]; then configure+=("$argument"); else select+=("$argument"); fi
done

scripts/setup.sh ${CI:+--browser}

preset=emulate
export PATH=$PATH:/usr/local/cuda/bin
if command -v nvcc >/dev/null && [[ $(nvidia-smi -L 2>/dev/null || true) == *GPU* ]]; then
  preset=cuda
fi

cmake --preset "$preset" "${configure[@]}"
cmake --build --preset "$preset"
ctest --preset "$preset" -j "$(nproc)" --no-tests=error "${select[@]}"
