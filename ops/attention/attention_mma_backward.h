// What the two backward kernels of attention with tensor cores share. For .cu files.
#pragma once
#include "ops/attention/attention_mma.h"

namespace foldgrad {

// Writes delta and, if wanted, dq. It comes first.
void attention_mma_backward_q(const AttentionBackward<bf16>& p);
// dk and dv.
void attention_mma_backward_kv(const AttentionBackward<bf16>& p);
// All of it at once, for queries and keys that one block can hold.
void attention_mma_backward_short(const AttentionBackward<bf16>& p);

namespace attention_mma {

// One warp: delta of queries first, first + stride, ... of the n from `first` on.
template <int kWidth>
__device__ void write_deltas(const AttentionBackward<bf16>& p, const AttentionHead& at, std::int64_t first, int n,
                             int stride) {
  for (int r = 0; r < n; r += stride) {
    const float d = delta<kWidth>(p, at, first + r);  // [ATT-5]
    if (lane() == 0) p.delta[at.L + first + r] = d;
  }
}

// What is known of a query before its scores are.
struct Row {
  float L, delta;  // L in powers of 2
};
// Of a query behind the last every p is 0.
__device__ inline Row row_at(const AttentionBackward<bf16>& p, const AttentionHead& at, int i) {
  if (i >= int(p.shape.queries)) return {-attention_math::kHidden<float>, 0.0f};
  return {p.L[at.L + i] * kLog2e, p.delta[at.L + i]};
}

struct Entry {
  float zp, ds;  // z p / keep_factor, and ds
};
__device__ inline Entry entry(const AttentionShape& s, const Row& row, float q_dot_k, float dy_dot_v, bool seen,
                              bool kept) {
  const float probability = seen ? fast_exp2(q_dot_k * (float(s.scale) * kLog2e) - row.L) : 0.0f;  // [ATT-1] [ATT-2]
  const float z_dy_dot_v = kept ? float(s.keep_factor) * dy_dot_v : 0.0f;
  return {kept ? probability : 0.0f, seen ? attention_math::ds(probability, z_dy_dot_v, row.delta) : 0.0f};
}

// The gradient of up to 16 rows of which the first element is number `first` of the operand.
template <int kFragments>
__device__ void put_rows(const GradOut<bf16>& out, const FragmentC (&sums)[kFragments], std::int64_t first,
                         std::int64_t stride, int rows, float factor) {
  for_pairs(sums, rows, [&](int row, int column, float lower, float upper) {
    put_pair(out, first + row * stride + column, factor * lower, factor * upper);
  });
}

}  // namespace attention_mma
}  // namespace foldgrad
