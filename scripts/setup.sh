#!/usr/bin/env bash
# Installs the Debian packages that are needed to build foldgrad. Does nothing if all are installed. With --browser,
# also installs Chromium (300 MB), in which tests open reports and the site, and KaTeX for scripts/site.sh.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache mold git clang-format
  libfmt-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libssl-dev libdnnl-dev libopenblas-openmp-dev
  libgtest-dev librapidcheck-dev libbenchmark-dev libsentencepiece-dev
  libopenmpi-dev openmpi-bin libzmq3-dev
  curl libpng-dev libturbojpeg0-dev graphviz libjs-chart.js
  python3-dev python3-venv
)
case ${1:-} in
  "") ;;
  --browser) packages+=(chromium libjs-katex) ;;
  *) echo "setup: the only option is --browser, got $1" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "setup: no Debian package manager here. Install the equivalents of: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: needs root or sudo to run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"; }
known() { apt-cache show --no-all-versions "${missing[@]}" >/dev/null 2>&1; }

echo "setup: installing ${missing[*]}"
if ! known; then
  apt update
fi
# If the package lists are too old for the mirror, fetches new lists and tries the installation once more.
apt install --no-install-recommends "${missing[@]}" || {
  apt update
  apt install --no-install-recommends "${missing[@]}"
}
