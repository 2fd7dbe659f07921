// Element-wise kernels: a parameter struct whose operator()(i) computes element i, on either device. This is the CPU's
// loop over it; elementwise_cuda.h has the other.
#pragma once
#include <algorithm>
#include <cstdint>

namespace foldgrad {

// Below this many elements, starting the threads costs more than they save. Tuned on 2 cores of a Zen 5.
constexpr std::int64_t kParallelElements = 32768;

// Calls body(begin, end) for all blocks of n elements, on all threads.
template <class Body>
void parallel_blocks(std::int64_t n, const Body& body) {
  constexpr std::int64_t kBlock = 4096;  // a multiple of every vector length and cache line
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (n >= kParallelElements)
  for (std::int64_t b = 0; b < blocks; ++b) body(b * kBlock, std::min(n, (b + 1) * kBlock));
}

template <class F>
void elementwise_cpu(std::int64_t n, const F& f) {
  parallel_blocks(n, [&f](std::int64_t begin, std::int64_t end) {
    const F local = f;  // in registers: behind a reference it could alias what is written
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) local(i);
  });
}

// Calls f(i, c) for begin <= i < end of a matrix with `columns` columns, where c is the column of i.
template <class F>
void elementwise_columns(std::int64_t begin, std::int64_t end, std::int64_t columns, const F& f) {
  const F local = f;
  for (std::int64_t c = begin % columns; begin < end; c = 0) {
    const std::int64_t run = std::min(end - begin, columns - c);  // up to the end of the row
#pragma omp simd
    for (std::int64_t k = 0; k < run; ++k) local(begin + k, c + k);
    begin += run;
  }
}

// Element-wise kernels whose operator()(i, c) also needs the column.
template <class F>
void elementwise_columns_cpu(std::int64_t n, std::int64_t columns, const F& f) {
  parallel_blocks(n, [&](std::int64_t begin, std::int64_t end) { elementwise_columns(begin, end, columns, f); });
}

}  // namespace foldgrad
