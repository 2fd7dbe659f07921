// The code common to the two backward kernels of attention with tensor cores. This header is for .cu files.
#pragma once
#include "ops/attention/fast/attention_mma.h"

namespace foldgrad {

// Writes delta and, if wanted, dq. Call this before the kernel for dk and dv, which reads delta.
void attention_mma_backward_q(const AttentionBackward<bf16>& p);

namespace attention_mma {

// The number of queries whose delta a warp computes at once; each lane has a pack of 8 columns.
template <int kWidth>
constexpr int kDeltas = kWarp * 8 / kWidth;

// Writes delta for groups of kDeltas consecutive queries. The groups begin at queries first, first + stride, ...;
// queries at or after `end` are left out. Runs in one warp.
template <int kWidth>
__device__ void write_deltas(const AttentionBackward<bf16>& p, const AttentionHead& at, int first, int end,
                             int stride) {
  constexpr int kLanes = kWidth / 8;
  for (int i0 = first; i0 < end; i0 += stride) {
    const int i = i0 + lane() / kLanes;
    const std::int64_t from = at.y() + i * p.shape.y_row() + lane() % kLanes * 8;
    const Pack<bf16, 8> dy = load_pack<8>(p.dy + from, i < end), y = load_pack<8>(p.y + from, i < end);
    float sum = 0;
    FOLDGRAD_UNROLL
    for (int c = 0; c < 8; ++c) sum += float(dy.v[c]) * float(y.v[c]);
    FOLDGRAD_UNROLL
    for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (i < end && lane() % kLanes == 0) p.delta[at.L() + i] = sum;  // [ATT-5]
  }
}

// The data that all scores of a query share.
struct Row {
  float L, delta;  // L is rescaled for powers of 2
};
// Returns the data of query i. If there is no query i, returns data that make every p 0.
__device__ inline Row row_at(const AttentionBackward<bf16>& p, const AttentionHead& at, int i) {
  if (i >= at.queries) return {-attention_math::kHidden<float>, 0.0f};
  return {p.L[at.L() + i] * kLog2e, p.delta[at.L() + i]};
}

struct Entry {
  float zp, ds;  // zp is z p / keep_factor
};
__device__ inline Entry entry(const AttentionShape& s, const Row& row, float q_dot_k, float dy_dot_v, bool seen,
                              bool kept) {
  const float probability = seen ? fast_exp2(q_dot_k * (float(s.scale) * kLog2e) - row.L) : 0.0f;  // [ATT-1] [ATT-2]
  const float z_dy_dot_v = kept ? float(s.keep_factor) * dy_dot_v : 0.0f;
  return {kept ? probability : 0.0f, seen ? attention_math::ds(probability, z_dy_dot_v, row.delta) : 0.0f};
}

// Puts `factor` times the sums into the gradient of up to 16 rows, which begin at element `first` of the operand.
template <int kFragments>
__device__ void put_rows(const GradOut<bf16>& out, const FragmentC (&sums)[kFragments], std::int64_t first,
                         std::int64_t stride, int rows, float factor) {
  for_packs(sums, rows, [&](int row, int column, const Pack<float, 8>& sum, bool wanted) {
    bf16* const to = out.data + first + row * stride + column;
    Pack<float, 8> values = sum;
    FOLDGRAD_UNROLL
    for (float& v : values.v) v *= factor;
    if (out.mode == GradMode::add) {
      const Pack<bf16, 8> before = load_own_pack<8>(to, wanted);
      FOLDGRAD_UNROLL
      for (int i = 0; i < 8; ++i) values.v[i] += float(before.v[i]);
    }
    store_pack(to, rounded<bf16>(values.v), wanted);
  });
}

}  // namespace attention_mma
}  // namespace foldgrad
