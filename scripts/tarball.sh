#!/usr/bin/env bash
# Packs the program for machines that lack its libraries. build/foldgrad-VERSION-linux-x86_64.tar.xz contains the
# program, the libraries that it loads (except the C and C++ libraries) with their licences, the manual page, the
# completion scripts, the configurations and the documentation. Needs Debian and the packages of scripts/setup.sh.
#
#   scripts/tarball.sh [-DNAME=VALUE...]     the arguments go to cmake
#
# The program runs from any folder, on any Linux on x86-64 with AVX2, or with SSE 4.2 if -DFOLDGRAD_CPU=x86-64-v2 is
# given. The C and C++ libraries must be at least as new as the versions that the script prints. The program has no CUDA
# kernels. With `mpirun`, it uses the machine's Open MPI. At the end, the script starts the program in an empty root;
# tests/install/tarball_test.sh tests more of it in the root of another system.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packing.sh
build=build/tarball

# With RPATH instead of RUNPATH, the loader looks for all libraries, even indirect ones, next to the program first.
flags=-Wl,--disable-new-dtags
cmake --preset release -B "$build" -DFOLDGRAD_CUDA=OFF -DFOLDGRAD_CPU=x86-64-v3 -DFOLDGRAD_TESTS=OFF \
  -DFOLDGRAD_BENCH=OFF -DCMAKE_INSTALL_RPATH="\$ORIGIN/../lib" -DCMAKE_EXE_LINKER_FLAGS="$flags" \
  -DCMAKE_MODULE_LINKER_FLAGS="$flags" "$@" >/dev/null
cmake --build "$build" --target foldgrad >"$build/build.log" || { tail -n 60 "$build/build.log" >&2; exit 1; }

name=foldgrad-$("$build/foldgrad" --version | sed -n 's/^foldgrad //p')-linux-x86_64
folder=build/$name packed=build/$name.tar.xz
rm -rf "$folder" "$packed"
cmake --install "$build" --prefix "$PWD/$folder" --component program --strip >/dev/null
mkdir -p "$folder/lib" "$folder/share/doc/foldgrad/licences"
programs=("$folder"/bin/foldgrad)
if [[ -e $folder/bin/foldgrad_zmq.so ]]; then programs+=("$folder"/bin/foldgrad_zmq.so); fi
mapfile -t libraries < <(libraries_of "${programs[@]}")
cp -L -t "$folder/lib" "${libraries[@]}"
packages=(libcli11-dev nlohmann-json3-dev libjs-chart.js)  # compiled into the program
for library in "${libraries[@]}"; do
  found=$(dpkg-query -S "*/x86_64-linux-gnu/*$(basename "$(realpath "$library")")")
  packages+=("${found%%:*}")
done
for package in "${packages[@]}"; do
  cp -L "/usr/share/doc/$package/copyright" "$folder/share/doc/foldgrad/licences/$package"
done
if libraries_of "${programs[@]}" | grep -v "^$PWD/$folder/"; then
  echo "tarball: the program still loads these from the system" >&2
  exit 1
fi
tar -c -C build --owner=0 --group=0 --sort=name "$name" | xz -T0 >"$packed"
echo "tarball: $packed, $(stat -c %s "$packed") bytes, of $(du -s --block-size=1MB "$folder" | cut -f 1) MB; needs $(
  needed_versions "$folder"/bin/* "$folder"/lib/*)"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
tar -xJf "$packed" -C "$root" --strip-components=1
mv "$root/lib" "$root/libraries"
fill_root "$root"
for arguments in --version "config /share/foldgrad/configs/numbers-un.toml" \
  "train /share/foldgrad/configs/numbers-un.toml --out /run --set train.steps=2 --set train.warmup=1
     --set model.width=16 --set model.ffn_width=16 --set train.max_tokens=512 --set data.valid_pairs=5
     --set validate.beam=1 --threads 1" \
  "fold /run --untie -o /folded" "export /folded --to onnx -o /model.onnx"; do
  read -rd '' -a words <<<"$arguments" || true
  in_root "$root" /libraries /bin/foldgrad "${words[@]}" >"$root/said" 2>&1 ||
    { echo "tarball: foldgrad ${words[*]}: exit code $? in an empty root"; cat "$root/said"; exit 1; } >&2
done
echo "tarball: the program trains, folds and exports in an empty root"
