// Element-wise kernels: a parameter struct whose operator()(i) computes element i, on either device. This is the CPU's
// loop over it; elementwise_cuda.h has the other.
#pragma once
#include <algorithm>
#include <cstdint>

namespace foldgrad {

// Below this many elements, starting the threads costs more than they save. Tuned on 2 cores of a Zen 5.
constexpr std::int64_t kParallelElements = 32768;

template <class F>
void elementwise_cpu(std::int64_t n, const F& f) {
  constexpr std::int64_t kBlock = 4096;  // a multiple of every vector length and cache line
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (n >= kParallelElements)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const F local = f;  // in registers: behind a reference it could alias what is written
    const std::int64_t end = std::min(n, (b + 1) * kBlock);
#pragma omp simd
    for (std::int64_t i = b * kBlock; i < end; ++i) local(i);
  }
}

}  // namespace foldgrad
