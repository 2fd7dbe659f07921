#!/usr/bin/env bash
# The check on a machine with a GPU: builds for it, runs every test program that asks for a device once, looks for
# memory errors and races of the kernels with compute-sanitizer, then measures. Logs go to build/gpu_check, and packed
# as one file to $OUT where that names a folder; results go to bench/results, what passed to gpu-check.json and .md
# there. Exit 1: something failed or ran into its limit; the other parts ran all the same. Exit 6: no GPU, no nvcc, or
# no compute-sanitizer.
#
#   scripts/gpu_check.sh [--quick] [tests] [sanitize] [bench]     default: all three
#
# --quick has limits that end it within 9 minutes of the build's end, and does not run PyTorch.
#
# Libraries outside the system's folders are found through CMAKE_PREFIX_PATH. Debian's packages, unpacked with
# `dpkg -x FILE.deb /deps` on a machine that cannot install them, are found through CMAKE_PREFIX_PATH=/deps/usr.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
logs=build/gpu_check
build=build/cuda
sanitized=${SANITIZED:-*-*Large*}  # the tests of ops_test under compute-sanitizer, as --gtest_filter
test_limit=600 sanitize_limit=${SANITIZE_SECONDS:-600}  # seconds a program, tool
bench_limit=1200 step_limit=600 peer_limit=600          # the operations; steps of training; those of PyTorch
tests_limit=7200                                        # for all test programs
if [[ ${1:-} == --quick ]]; then
  test_limit=60 sanitize_limit=60 bench_limit=90 step_limit=40 peer_limit=0 tests_limit=210
  shift
fi
(($# > 0)) || set -- tests sanitize bench

refuse() { echo "gpu_check: $1" >&2; exit 6; }
for what in "$@"; do
  if [[ " tests sanitize bench " != *" $what "* ]]; then
    echo "gpu_check: no stage $what; there are: tests sanitize bench, and --quick before them" >&2
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

mkdir -p "$logs" bench/results
pack() { [[ ! -d ${OUT:-} ]] || tar -czf "$OUT/gpu_check.tar.gz" -C build gpu_check; }
trap pack EXIT
stage() { echo "== $1 (${SECONDS} s)"; }
# Runs a command with its output in a log; the end of the log is shown when it fails.
logged() {
  local log=$logs/$1.log status=0
  shift
  "$@" >"$log" 2>&1 || status=$?
  ((status == 0)) && return
  tail -n 60 "$log"
  echo "gpu_check: failed ($status): $*; log: $log" >&2
  return 1
}
# One row of the results: part NAME SECONDS COMMAND...  A failure does not end the check.
parts=() failures=0
part() {
  local name=$1 limit=$2 begin=$SECONDS result=passed
  shift 2
  logged "$name" timeout --kill-after=10 "$limit" "$@" || result=failed
  [[ $result == passed ]] || failures=$((failures + 1))
  parts+=("$name|$result|$((SECONDS - begin))|$limit")
}
# A benchmark by events, whose figures are results.
measured() {
  local program=$1 limit=$2 file=bench/results/$3
  part "$program" "$limit" "$build/$program" --device=cuda --benchmark_out="$file" --benchmark_out_format=json \
    --benchmark_context=commit="$commit" --benchmark_context=gpu="$(tr ',=' '; ' <<<"$machine")"
  [[ ! -e $file ]] || cp "$file" "$logs/"
}
peer() {
  local name=$1
  shift
  part "$name" "$peer_limit" bash -c 'python3 bench/pytorch_transformer.py --device cuda --seconds 2 --filter iwslt "${@:2}" >"$1"' \
    peer "bench/results/$name-gpu.json" "$@"
}
write_results() {
  local row name result seconds limit separator=""
  {
    printf '{"commit": "%s", "machine": "%s", "parts": [' "$commit" "$machine"
    for row in "${parts[@]}"; do
      IFS='|' read -r name result seconds limit <<<"$row"
      printf '%s\n  {"name": "%s", "result": "%s", "seconds": %s, "limit": %s}' "$separator" "$name" "$result" "$seconds" "$limit"
      separator=,
    done
    printf '\n]}\n'
  } >bench/results/gpu-check.json
  {
    printf '# scripts/gpu_check.sh at %s\n\n%s\n\n| part | result | seconds | of at most |\n|---|---|---|---|\n' "$commit" "$machine"
    for row in "${parts[@]}"; do
      IFS='|' read -r name result seconds limit <<<"$row"
      printf '| %s | %s | %s | %s |\n' "$name" "$result" "$seconds" "$limit"
    done
  } >bench/results/gpu-check.md
  cp bench/results/gpu-check.{json,md} "$logs/"
}

stage "machine"
nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader | tee "$logs/machine.txt"
machine=$(head -n 1 "$logs/machine.txt")
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)

stage "build"
generator=()
command -v ninja >/dev/null || generator=(-G "Unix Makefiles")
# 9.0 has instructions that code for it alone may use, and none after it.
architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | tr -d . | sed 's/^90$/90a/' | sort -u |
  paste -sd ';')
logged configure cmake --preset cuda "${generator[@]}" -DCMAKE_CUDA_ARCHITECTURES="$architectures" || exit 1
grep -E '^--   ' "$logs/configure.log"
mapfile -t programs <"$build/gpu_tests.txt"
targets=(foldgrad "${programs[@]}")
grep -q '^--   Benchmarks *ON' "$logs/configure.log" && targets+=(ops_bench transformer_bench)
logged build cmake --build --preset cuda -j "$(nproc)" --target "${targets[@]}" || exit 1

for what in "$@"; do
  stage "$what"
  case $what in
    tests)  # each in one process: a thousand would make a context each
      began=$SECONDS
      for program in "${programs[@]}"; do
        left=$((tests_limit - (SECONDS - began)))
        ((left > 0)) || left=1
        part "$program" $((left < test_limit ? left : test_limit)) "$build/$program" --gtest_brief=1
      done
      ;;
    sanitize)
      for tool in memcheck racecheck; do
        part "$tool" "$sanitize_limit" compute-sanitizer --tool "$tool" --error-exitcode 1 \
          "$build/ops_test" --gtest_filter="$sanitized"
      done
      ;;
    bench)  # the other benchmarks are of the CPU
      [[ " ${targets[*]} " == *" ops_bench "* ]] || { echo "gpu_check: no benchmarks were built"; continue; }
      measured ops_bench "$bench_limit" ops-gpu.json
      measured transformer_bench "$step_limit" transformer-gpu.json
      # Parts that need a program are skipped where it is missing.
      if command -v python3 >/dev/null; then
        part curves "$step_limit" bench/device_curves.py --program "$build/foldgrad"
      fi
      if ((peer_limit > 0)) && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
        peer pytorch
        peer pytorch_compiled --compile
      fi
      if command -v ncu >/dev/null; then
        # A step's kernels with their times and how much of the memory's and of the units' peak they reach.
        part ncu "$step_limit" ncu --clock-control none --launch-skip 2000 --launch-count 1000 --csv --page raw \
          --metrics gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed \
          --log-file "$logs/ncu.csv" "$build/transformer_bench" --device=cuda --benchmark_filter=iwslt/step/bf16 \
          --benchmark_min_time=0.01
      fi
      ;;
  esac
done
write_results
((failures == 0)) || { echo "gpu_check: $failures of ${#parts[@]} parts failed; see bench/results/gpu-check.md" >&2; exit 1; }
echo "== passed (${SECONDS} s)"
