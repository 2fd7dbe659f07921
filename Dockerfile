# foldgrad on Debian 12, without data:
#
#   docker build -t foldgrad .
#   docker run --rm foldgrad norms
#   docker run --rm -v "$PWD/runs:/foldgrad/runs" foldgrad train configs/numbers-un.toml --out runs/un
#
# The program is for the instruction set of the machine that builds it (FOLDGRAD_CPU in docs/building.md).
FROM debian:12 AS build
WORKDIR /foldgrad
# Before the sources, so that a change of these does not install the packages again.
COPY scripts/setup.sh scripts/
RUN scripts/setup.sh
COPY . .
RUN scripts/build.sh

FROM debian:12-slim
# The libraries of the program, curl and certificates for `data fetch`, and graphviz for `graph --svg`.
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      libdnnl2 libfmt9 libgomp1 libopenblas0-openmp libpng16-16 libsentencepiece0 libssl3 libstdc++6 \
      libtomlplusplus3 libturbojpeg0 ca-certificates curl graphviz \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /foldgrad
COPY configs configs
COPY --from=build /foldgrad/build/release/foldgrad /usr/local/bin/
ENTRYPOINT ["foldgrad"]
