#!/usr/bin/env bash
# The check on a machine with a GPU: builds for it, runs every test on it, looks for memory errors and races of the
# kernels with compute-sanitizer, then measures. Logs go to build/gpu_check, and packed as one file to $OUT where that
# names a folder; results go to bench/results. Exit 6: no GPU, no nvcc, or no compute-sanitizer.
#
#   scripts/gpu_check.sh [tests] [sanitize] [bench]     default: all three
#
# Libraries outside the system's folders are found through CMAKE_PREFIX_PATH. Debian's packages, unpacked with
# `dpkg -x FILE.deb /deps` on a machine that cannot install them, are found through CMAKE_PREFIX_PATH=/deps/usr.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
logs=build/gpu_check
build=build/cuda
sanitized=${SANITIZED:-*-*Large*}  # the tests of ops_test under compute-sanitizer, as --gtest_filter
limit=${SANITIZE_SECONDS:-600}     # per tool; it slows kernels by a factor of 10 to 100
(($# > 0)) || set -- tests sanitize bench

refuse() { echo "gpu_check: $1" >&2; exit 6; }
for what in "$@"; do
  if [[ " tests sanitize bench " != *" $what "* ]]; then
    echo "gpu_check: no stage $what; there are: tests sanitize bench" >&2
    exit 2
  fi
done
[[ $(nvidia-smi -L 2>/dev/null || true) == *GPU* ]] || refuse "nvidia-smi lists no GPU; use scripts/test.sh here"
command -v nvcc >/dev/null || refuse "nvcc is not on PATH and not in \$CUDA_HOME/bin or /usr/local/cuda/bin"
if [[ " $* " == *" sanitize "* ]]; then
  command -v compute-sanitizer >/dev/null || refuse "compute-sanitizer of the CUDA toolkit is not on PATH"
fi

# A program finds a library where it was linked from, but not the libraries that this one needs.
IFS=: read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
for prefix in "${prefixes[@]}"; do
  LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$prefix/lib:$prefix/lib/$(uname -m)-linux-gnu
done
[[ -z ${LD_LIBRARY_PATH:-} ]] || export LD_LIBRARY_PATH

mkdir -p "$logs"
pack() { [[ ! -d ${OUT:-} ]] || tar -czf "$OUT/gpu_check.tar.gz" -C build gpu_check; }
trap pack EXIT
stage() { echo "== $1 (${SECONDS} s)"; }
# Runs a command with its output in a log; the end of the log is shown when it fails.
logged() {
  local log=$logs/$1.log
  shift
  "$@" >"$log" 2>&1 || {
    local status=$?
    tail -n 60 "$log"
    echo "gpu_check: failed ($status): $*; log: $log" >&2
    exit 1
  }
}

stage "machine"
nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader | tee "$logs/machine.txt"

stage "build"
generator=()
command -v ninja >/dev/null || generator=(-G "Unix Makefiles")
architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | tr -d . | sort -u | paste -sd ';')
logged configure cmake --preset cuda "${generator[@]}" -DCMAKE_CUDA_ARCHITECTURES="$architectures"
grep -E '^--   ' "$logs/configure.log"
logged build cmake --build --preset cuda -j "$(nproc)"

for what in "$@"; do
  stage "$what"
  case $what in
    tests)
      logged ctest ctest --preset cuda -j 4 --no-tests=error
      tail -n 5 "$logs/ctest.log"
      ;;
    sanitize)
      for tool in memcheck racecheck; do
        logged "$tool" timeout "$limit" compute-sanitizer --tool "$tool" --error-exitcode 1 \
          "$build/ops_test" --gtest_filter="$sanitized"
        tail -n 3 "$logs/$tool.log"
      done
      ;;
    bench)  # the other benchmarks are of the CPU
      [[ -x $build/ops_bench ]] || { echo "gpu_check: no benchmarks were built"; continue; }
      commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
      mkdir -p bench/results
      logged ops_bench "$build/ops_bench" --device=cuda \
        --benchmark_out=bench/results/ops-gpu.json --benchmark_out_format=json \
        --benchmark_context=commit="$commit" --benchmark_context=gpu="$(head -n 1 "$logs/machine.txt" | tr ',=' '; ')"
      cp bench/results/ops-gpu.json "$logs/"
      ;;
  esac
done
echo "== passed (${SECONDS} s)"
