// A ladder of kernels for one product, C = A B with A [m, k], B [k, n] and C [m, n], all row-major and without gaps, as
// gemm() multiplies unless told otherwise (engine/gemm/gemm.h). Each has one idea more than the one before it, and
// docs/gemm_ladder.md counts what that saves. For readers and their tests: nothing trains with these.
#pragma once
#include <cstdint>

#include "engine/dtype.h"

namespace foldgrad::ladder {

template <class T>
struct Product {
  float* c;
  const T *a, *b;  // of the device, as c
  std::int64_t m, n, k;
};

// Each sums in float; the first four in the order of k, so that they give the same bits. Sizes of zero are fine. Throws
// std::invalid_argument for negative sizes; async_cuda also where a row of A or B is no whole number of 16 bytes or
// does not begin at a multiple of 16 (k and n multiples of 4), and so does mma_cuda (multiples of 8).
void naive_cuda(const Product<float>& g);      // 1: a thread for each element of C
void tiled_cuda(const Product<float>& g);      // 2: tiles of A and B in shared memory
void registers_cuda(const Product<float>& g);  // 3: 8 x 8 elements of C in the registers of a thread
void async_cuda(const Product<float>& g);      // 4: the next tiles are copied during the computation
void mma_cuda(const Product<bf16>& g);         // 5: products by tensor cores

// Throws as said above; `chunk`: elements that are copied at once.
template <class T>
void check(const char* name, const Product<T>& g, int chunk = 1);

}  // namespace foldgrad::ladder
