#!/usr/bin/env bash
# The check on a machine with a GPU: builds for it, runs every test on it, looks for memory errors and races of the
# kernels with compute-sanitizer, then measures. Logs go to $OUT (default build/gpu_check), results to bench/results.
# Libraries outside the system's folders are found through CMAKE_PREFIX_PATH. Exit 6: no GPU, or no nvcc.
#
#   scripts/gpu_check.sh [tests] [sanitize] [bench]     default: all three
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PATH:/usr/local/cuda/bin
out=${OUT:-build/gpu_check}
build=build/cuda
sanitized=${SANITIZED:-*-*Large*}  # the tests of ops_test under compute-sanitizer, as --gtest_filter
limit=${SANITIZE_SECONDS:-600}     # per tool; it slows kernels by a factor of 10 to 100
(($# > 0)) || set -- tests sanitize bench

refuse() { echo "gpu_check: $1" >&2; exit 6; }
[[ $(nvidia-smi -L 2>/dev/null || true) == *GPU* ]] || refuse "nvidia-smi lists no GPU; use scripts/test.sh here"
command -v nvcc >/dev/null || refuse "nvcc is not on PATH and not in /usr/local/cuda/bin"

mkdir -p "$out"
stage() { echo "== $1 (${SECONDS} s)"; }
# Runs a command with its output in a log; the end of the log is shown when it fails.
logged() {
  local log=$out/$1.log
  shift
  "$@" >"$log" 2>&1 || {
    local status=$?
    tail -n 60 "$log"
    echo "gpu_check: failed ($status): $*; log: $log" >&2
    exit 1
  }
}

stage "machine"
nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader | tee "$out/machine.txt"

stage "build"
generator=()
command -v ninja >/dev/null || generator=(-G "Unix Makefiles")
logged configure cmake --preset cuda "${generator[@]}" -DCMAKE_CUDA_ARCHITECTURES=native
grep -E '^--   ' "$out/configure.log"
logged build cmake --build --preset cuda -j "$(nproc)"

for what in "$@"; do
  stage "$what"
  case $what in
    tests)
      logged ctest ctest --preset cuda -j 4 --no-tests=error
      tail -n 5 "$out/ctest.log"
      ;;
    sanitize)
      command -v compute-sanitizer >/dev/null || refuse "compute-sanitizer of the CUDA toolkit is not on PATH"
      for tool in memcheck racecheck; do
        logged "$tool" timeout "$limit" compute-sanitizer --tool "$tool" --error-exitcode 1 \
          "$build/ops_test" --gtest_filter="$sanitized"
        tail -n 3 "$out/$tool.log"
      done
      ;;
    bench)
      mkdir -p bench/results
      commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
      for program in "$build"/*_bench; do
        [[ -x $program ]] || { echo "gpu_check: no benchmarks were built"; break; }
        name=$(basename "$program")
        logged "$name" "$program" --device=cuda --benchmark_out="bench/results/${name}_gpu.json" --benchmark_out_format=json \
          --benchmark_context=commit="$commit" --benchmark_context=gpu="$(head -n 1 "$out/machine.txt" | tr ',=' '; ')"
        cp "bench/results/${name}_gpu.json" "$out/"
      done
      ;;
    *)
      echo "gpu_check: no stage $what; there are: tests sanitize bench" >&2
      exit 2
      ;;
  esac
done
echo "== passed (${SECONDS} s)"
