#!/usr/bin/env bash
# Builds the documentation site. Open build/site/index.html in a browser; no server is needed. The first call installs
# Sphinx from the Python registry; KaTeX must be installed from Debian's package. Warnings are errors.
#   scripts/site.sh --packages      only installs the packages from the Python registry
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $* == "" || $* == --packages ]] || { echo "site: the only argument is --packages, got $*" >&2; exit 2; }
katex=/usr/share/javascript/katex
[[ -e $katex/katex.min.js ]] || {
  echo "site: no KaTeX in $katex; Debian has it in the package libjs-katex" >&2
  exit 77
}
python=$(scripts/python.sh sphinx==9.0.4 myst-parser==5.2.0 furo==2025.12.19) || {
  echo "site: the Python registry cannot be reached" >&2
  exit 77
}
[[ $* != --packages ]] || exit 0
"$python" scripts/site/pages.py build/site-pages
"$python" -m sphinx -W --keep-going -q -j auto -c scripts/site -d build/site-doctrees build/site-pages build/site
mkdir -p build/site/_static/katex/fonts
cp -L "$katex"/katex.min.{js,css} build/site/_static/katex
cp -L "$katex"/fonts/*.woff2 build/site/_static/katex/fonts
echo "build/site/index.html: $(find build/site -name '*.html' | wc -l) pages, $(du -sm build/site | cut -f1) MB"
