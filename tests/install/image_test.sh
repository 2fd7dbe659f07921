#!/usr/bin/env bash
# Builds the image of the Dockerfile. In the image, trains and folds a model, draws its graph, and trains on two ranks.
# Exits with code 77 (skipped) if neither docker nor podman runs here, or if Debian's image cannot be fetched.
set -euo pipefail
cd "$(dirname "$0")/../.."

builder=
for name in docker podman; do
  if "$name" info >/dev/null 2>&1; then builder=$name; break; fi
done
if [[ -z $builder ]]; then
  echo "image: skipped, neither docker nor podman runs here"
  exit 77
fi
for base in $(sed -n 's/^FROM \([^ ]*\).*/\1/p' Dockerfile); do
  if ! "$builder" image inspect "$base" >/dev/null 2>&1 && ! timeout 300 "$builder" pull -q "$base" >/dev/null; then
    echo "image: skipped, $builder cannot fetch $base"
    exit 77
  fi
done

image=foldgrad:image-test
"$builder" build -t "$image" .
trap '"$builder" rmi "$image" >/dev/null' EXIT
[[ $("$builder" run --rm "$image" norms) == *rmsnorm* ]]
"$builder" run --rm --entrypoint sh "$image" -ec '
  foldgrad train configs/numbers-un.toml --out runs/a --set train.steps=2 --set train.warmup=1 --set model.width=16 \
    --set data.valid_pairs=5
  foldgrad fold runs/a -o folded --untie
  foldgrad graph runs/a --untie --svg graph.svg
  test -s folded/certificate.json -a -s graph.svg
  mpirun -n 2 foldgrad train configs/docs-gpt-un.toml --data-dir . --out runs/b --set train.steps=2 \
    --set train.warmup=1 --set train.batch=2 --set validate.every=2'
echo "image: built and tried with $builder"
