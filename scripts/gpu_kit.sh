#!/usr/bin/env bash
# Packs all files that scripts/gpu_check.sh needs, so that a machine with a GPU need not build or fetch anything: the
# test programs, the benchmarks and `foldgrad`, with their libraries and input files. Needs nvcc, but no GPU.
#
#   scripts/gpu_kit.sh [-DNAME=VALUE...]     writes build/gpu_kit.tar.xz (at most 60 MB); the arguments go to cmake
#
# The programs run on GPUs with compute capability 8.x or 9.0, under any Linux on x86-64 with AVX2 whose C library is at
# least as new as this machine's. They are linked with cuBLASLt of this machine's CUDA and do not use cuDNN. Multi30k is
# packed if $FOLDGRAD_DATA contains it. At the end, the script starts each program in an empty root without a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packing.sh
export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
build=build/kit kit=build/gpu_kit packed=build/gpu_kit.tar.xz
most_bytes=60000000
command -v nvcc >/dev/null || { echo "gpu_kit: nvcc is not on PATH and not in \$CUDA_HOME/bin" >&2; exit 6; }

cmake --preset cuda -B "$build" -DFOLDGRAD_RELOCATABLE=ON -DCMAKE_CUDA_ARCHITECTURES="80-real;90a-real" \
  -DFOLDGRAD_CPU=x86-64-v3 -DFOLDGRAD_ONEDNN=OFF -DFOLDGRAD_CBLAS=OFF -DFOLDGRAD_CUDNN=OFF -DFOLDGRAD_LIBPNG=OFF \
  -DFOLDGRAD_TURBOJPEG=OFF -DCMAKE_CUDA_COMPILER_LAUNCHER="$PWD/scripts/kernels/keep_ptx" \
  "$@" >/dev/null
mapfile -t programs < <(printf '%s\n' foldgrad ops_bench transformer_bench && cat "$build/gpu_tests.txt")
cmake --build "$build" --target "${programs[@]}" >"$build/build.log" || { tail -n 60 "$build/build.log" >&2; exit 1; }

rm -rf "$kit" "$packed"
mkdir -p "$kit/$build/lib" "$kit/$build/preload"
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$kit"
cp "$build/gpu_tests.txt" "$kit/$build/"
(git describe --always --dirty || echo unknown) >"$kit/$build/commit"
cp "$build"/preload/*.so "$kit/$build/preload/"
g++ -std=c++20 -O2 -shared -fPIC scripts/gpu/launch_times.cpp -I"$(dirname "$(command -v nvcc)")/../include" \
  -o "$kit/$build/preload/launch_times.so"
for program in "${programs[@]}"; do
  strip -o "$kit/$build/$program" "$build/$program"
done
libraries_of "${programs[@]/#/$build/}" | grep -v /libcublasLt.so | xargs cp -L -t "$kit/$build/lib"
strip --strip-unneeded "$kit/$build"/lib/*
data=${FOLDGRAD_DATA:-}
if [[ -d ${data:-/nowhere}/multi30k ]]; then
  mkdir "$kit/data"
  cp -r "$data/multi30k" "$kit/data/"
else
  echo "gpu_kit: no Multi30k in \$FOLDGRAD_DATA: the kit does not check training on it"
fi
tar -c -C build gpu_kit | xz -T0 >"$packed"
size=$(stat -c %s "$packed")
echo "gpu_kit: $packed, $size bytes, of $(du -s --block-size=1MB "$kit" | cut -f 1) MB; needs $(
  needed_versions "$kit/$build"/* "$kit/$build"/lib/*)"
((size <= most_bytes)) || { echo "gpu_kit: more than $most_bytes bytes" >&2; exit 1; }

# The empty root contains the C and C++ libraries and a dummy cuBLAS, but no driver.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
tar -xJf "$packed" -C "$root" --strip-components=1
fill_root "$root"
cublas=$(ldd "$build/ops_test" | awk '/libcublasLt/ {print $1}')
nm -D --undefined-only "$kit/$build/lib/libfoldgrad_engine.so" | awk '$2 ~ /^cublasLt/ {print $2}' | sed 's/@.*//' |
  sed 's/.*/void &(void) {}/' | gcc -shared -x c - -o "$root/lib/$cublas" -Wl,-soname,"$cublas"
expect_no_device() {
  local said
  said=$(in_root "$root" "/$build/lib" "/$build/$1" "${@:2}" 2>&1 || true)
  [[ $said == *"there is no NVIDIA driver"* ]] || { echo "gpu_kit: $1 in an empty root: $said" >&2; exit 1; }
}
expect_no_device foldgrad doctor
for program in ops_bench transformer_bench; do expect_no_device "$program" --device=cuda; done
while read -r program; do expect_no_device "$program" --gtest_filter=none; done <"$build/gpu_tests.txt"
echo "gpu_kit: all ${#programs[@]} programs start in an empty root and report that there is no driver"
