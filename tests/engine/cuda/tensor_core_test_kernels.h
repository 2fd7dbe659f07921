// Kernels of tensor_core_test.cpp.
#pragma once

#include "engine/dtype.h"

namespace foldgrad::testing {

// c = A B, computed by one block of `warps` warps. A is [16 * warps, depth] and B is [depth, 16]; either may be stored
// transposed.
struct SmallProduct {
  const bf16 *a, *b;
  float* c;  // [16 * warps, 16]
  int warps, depth;
  bool a_transposed, b_transposed;
};
void small_product_cuda(const SmallProduct& p);

// out = the elementwise sum of `rows` rows of 8 * threads numbers. The rows pass through shared memory, with two copies
// in flight.
struct RowSum {
  const bf16* in;
  float* out;
  int rows, threads;
};
void row_sum_cuda(const RowSum& p);

// out[i] = in[n - 1 - i] for n floats. All of them are in shared memory at the same time.
struct TurnRound {
  const float* in;
  float* out;
  int n;
};
void turn_round_cuda(const TurnRound& p);

}  // namespace foldgrad::testing
