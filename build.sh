cd /tmp/h2/b
c++ -O2 -std=c++20 -fopenmp -march=x86-64-v4 -DFMT_SHARED -DFOLDGRAD_EMULATE -DFOLDGRAD_HAVE_CBLAS -DFOLDGRAD_HAVE_CUDA -DFOLDGRAD_HAVE_ONEDNN -I/work/main b.cpp -o b /work/main/build/emulate/libfoldgrad_ops.a /work/main/build/emulate/libfoldgrad_engine.a /work/main/build/emulate/libfoldgrad_emulation.a -ldnnl -L/usr/lib/x86_64-linux-gnu/openblas-openmp -lopenblas -lfmt
