// A ladder of five kernels for the same product, C = A B with A [m, k], B [k, n] and C [m, n], all row-major and dense,
// as gemm() expects by default (engine/gemm/gemm.h). Each kernel adds one idea to the previous one; docs/gemm_ladder.md
// counts the bytes that each idea saves. The kernels are for readers and tests; training does not use them.
#pragma once
#include <cstdint>

#include "engine/dtype.h"

namespace foldgrad::ladder {

template <class T>
struct Product {
  float* c;
  const T *a, *b;  // on the device, like c
  std::int64_t m, n, k;
};

// All kernels sum in float. The first four sum in the order of k, so their results are bit-identical. Sizes may be
// zero; negative sizes throw std::invalid_argument. async_cuda copies rows 16 bytes at a time, so it also throws unless
// k and n are multiples of 4 and A and B are aligned to 16 bytes; mma_cuda requires multiples of 8.
void naive_cuda(const Product<float>& g);      // 1: one thread per element of C
void tiled_cuda(const Product<float>& g);      // 2: tiles of A and B in shared memory
void registers_cuda(const Product<float>& g);  // 3: 8 x 8 elements of C in each thread's registers
void async_cuda(const Product<float>& g);      // 4: the next tiles are loaded during the computation
void mma_cuda(const Product<bf16>& g);         // 5: tensor cores compute the products

// Performs the checks above for a kernel that copies `chunk` elements at a time. Error messages contain `name`.
template <class T>
void check(const char* name, const Product<T>& g, int chunk = 1);

}  // namespace foldgrad::ladder
