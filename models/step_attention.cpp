#include "models/step_attention.h"

#include <cmath>
#include <limits>

#include "engine/rows_cpu.h"
#include "engine/vector_math.h"
#include "ops/attention/attention_kernels.h"

namespace foldgrad {
namespace {

// weights[j] = q . keys[j], four keys at a time: one after the other they would wait for each other's sums.
template <class T, class V>
void dot_keys(const V* q, const T* const* keys, std::int64_t n, std::int64_t offset, std::int64_t D, V* weights) {
  std::int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const T *a = keys[j] + offset, *b = keys[j + 1] + offset, *c = keys[j + 2] + offset, *d = keys[j + 3] + offset;
    V dot_a = 0, dot_b = 0, dot_c = 0, dot_d = 0;
#pragma omp simd reduction(+ : dot_a, dot_b, dot_c, dot_d)
    for (std::int64_t i = 0; i < D; ++i) {
      dot_a += q[i] * V(a[i]), dot_b += q[i] * V(b[i]);
      dot_c += q[i] * V(c[i]), dot_d += q[i] * V(d[i]);
    }
    weights[j] = dot_a, weights[j + 1] = dot_b, weights[j + 2] = dot_c, weights[j + 3] = dot_d;
  }
  for (; j < n; ++j) {
    const T* a = keys[j] + offset;
    V dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < D; ++i) dot += q[i] * V(a[i]);
    weights[j] = dot;
  }
}

// sum[i] = sum over j of weights[j] keys[j][offset + i]
template <class T, class V>
void add_values(const V* weights, const T* const* keys, std::int64_t n, std::int64_t offset, std::int64_t D, V* sum) {
  std::int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const T *a = keys[j] + offset, *b = keys[j + 1] + offset, *c = keys[j + 2] + offset, *d = keys[j + 3] + offset;
    const V w_a = weights[j], w_b = weights[j + 1], w_c = weights[j + 2], w_d = weights[j + 3];
#pragma omp simd
    for (std::int64_t i = 0; i < D; ++i) sum[i] += w_a * V(a[i]) + w_b * V(b[i]) + w_c * V(c[i]) + w_d * V(d[i]);
  }
  for (; j < n; ++j) {
    const T* a = keys[j] + offset;
    const V w = weights[j];
#pragma omp simd
    for (std::int64_t i = 0; i < D; ++i) sum[i] += w * V(a[i]);
  }
}

// exp(scale (weights - their largest)), and the inverse of their sum.
template <class V>
V exponentials(V* weights, std::int64_t n, V scale) {
  const V top = max_cpu<V>(n, [weights](std::int64_t j) { return weights[j]; });
  V total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t j = 0; j < n; ++j) total += weights[j] = fast_exp_nonpositive(scale * (weights[j] - top));
  return 1 / total;
}

}  // namespace

template <class T>
void attend(const StepAttention<T>& p, std::int64_t r, StepAttentionRoom<T>& room) {
  using V = compute_t<T>;
  const std::int64_t n = std::int64_t(room.keys.size()), D = p.width, C = p.heads * D;
  const T* q = p.q + r * p.q_row;
  T* y = p.y + r * C;
  room.query.assign(q, q + C);
  room.weights.resize(n);
  V* weights = room.weights.data();
  const V scale = V(1 / std::sqrt(double(D)));
  for (std::int64_t h = 0; h < p.heads; ++h) {
    V sum[kMaxHeadWidth] = {};
    V factor = 0;
    if (n > 0) {
      dot_keys(room.query.data() + h * D, room.keys.data(), n, h * D, D, weights);
      factor = exponentials(weights, n, scale);
      add_values(weights, room.keys.data(), n, p.value_offset + h * D, D, sum);
    }
#pragma omp simd
    for (std::int64_t i = 0; i < D; ++i) y[h * D + i] = T(factor * sum[i]);
  }
}

template void attend(const StepAttention<float>&, std::int64_t, StepAttentionRoom<float>&);
template void attend(const StepAttention<double>&, std::int64_t, StepAttentionRoom<double>&);
template void attend(const StepAttention<bf16>&, std::int64_t, StepAttentionRoom<bf16>&);

}  // namespace foldgrad
