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
# The libraries of the program and of its modules, Open MPI for mpirun, curl and certificates for `data fetch`, and
# graphviz for `graph --svg`.
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      libdnnl2 libfmt9 libgomp1 libopenblas0-openmp libopenmpi3 libpng16-16 libsentencepiece0 libssl3 libstdc++6 \
      libtomlplusplus3 libturbojpeg0 libzmq5 ca-certificates curl graphviz openmpi-bin \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /foldgrad
COPY configs configs
# What the language model of configs/docs-gpt-un.toml learns.
COPY docs docs
COPY --from=build /foldgrad/build/release/foldgrad /foldgrad/build/release/foldgrad_*.so /usr/local/bin/
# The image has no other user. Open MPI asks for both.
ENV OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ENTRYPOINT ["foldgrad"]
