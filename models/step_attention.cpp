// Compiled with -ffp-contract=fast (cmake/FoldgradTargets.cmake), since sums of products are all that happens here.
#include "models/step_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/vector_math.h"
#include "models/round_rows.h"

namespace foldgrad {
namespace {

// Keys come from far away, row by row, and the processor does not see which row is next.
template <class T>
[[gnu::always_inline]] inline void fetch(const T* row, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; c += std::int64_t(64 / sizeof(T))) __builtin_prefetch(row + c);
}

// weights[h n + j] = q . key j, of each head, four keys at a time, whose sums do not wait for each other. kWidth: D, or
// 0 for any.
template <int kWidth, class T, class V>
void dot_keys(const V* q, const std::vector<const T*>& keys, std::int64_t heads, std::int64_t width, V* weights) {
  const std::int64_t D = kWidth ? kWidth : width, n = std::int64_t(keys.size());
  std::int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    for (std::int64_t next = j + 4; next < std::min(j + 8, n); ++next) fetch(keys[next], heads * D);
    for (std::int64_t h = 0; h < heads; ++h) {
      const T *a = keys[j] + h * D, *b = keys[j + 1] + h * D, *c = keys[j + 2] + h * D, *d = keys[j + 3] + h * D;
      const V* query = q + h * D;
      V dot_a = 0, dot_b = 0, dot_c = 0, dot_d = 0;
#pragma omp simd reduction(+ : dot_a, dot_b, dot_c, dot_d)
      for (std::int64_t i = 0; i < D; ++i) {
        dot_a += query[i] * V(a[i]);
        dot_b += query[i] * V(b[i]);
        dot_c += query[i] * V(c[i]);
        dot_d += query[i] * V(d[i]);
      }
      V* to = weights + h * n + j;
      to[0] = dot_a, to[1] = dot_b, to[2] = dot_c, to[3] = dot_d;
    }
  }
  for (; j < n; ++j)
    for (std::int64_t h = 0; h < heads; ++h) {
      const T* key = keys[j] + h * D;
      const V* query = q + h * D;
      V dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t i = 0; i < D; ++i) dot += query[i] * V(key[i]);
      weights[h * n + j] = dot;
    }
}

// sum[h D + i] = sum over j of weights[h n + j] value j [h D + i], four rows at a time.
template <int kWidth, class T, class V>
void add_values(const V* weights, const std::vector<const T*>& keys, std::int64_t offset, std::int64_t heads,
                std::int64_t width, V* sum) {
  const std::int64_t D = kWidth ? kWidth : width, n = std::int64_t(keys.size());
  std::fill_n(sum, heads * D, V(0));
  std::int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    for (std::int64_t next = j + 4; next < std::min(j + 8, n); ++next) fetch(keys[next] + offset, heads * D);
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t at = offset + h * D;
      const T *a = keys[j] + at, *b = keys[j + 1] + at, *c = keys[j + 2] + at, *d = keys[j + 3] + at;
      const V *w = weights + h * n + j, w_a = w[0], w_b = w[1], w_c = w[2], w_d = w[3];
      V* to = sum + h * D;
#pragma omp simd
      for (std::int64_t i = 0; i < D; ++i)
        to[i] = to[i] + w_a * V(a[i]) + w_b * V(b[i]) + w_c * V(c[i]) + w_d * V(d[i]);
    }
  }
  for (; j < n; ++j)
    for (std::int64_t h = 0; h < heads; ++h) {
      const T* a = keys[j] + offset + h * D;
      const V w = weights[h * n + j];
      V* to = sum + h * D;
#pragma omp simd
      for (std::int64_t i = 0; i < D; ++i) to[i] += w * V(a[i]);
    }
}

template <class V>
void probabilities(V* weights, std::int64_t n, V scale) {
  if (n == 0) return;
  V top = weights[0], total = 0;
#pragma omp simd reduction(max : top)
  for (std::int64_t j = 0; j < n; ++j) top = weights[j] > top ? weights[j] : top;
#pragma omp simd reduction(+ : total)
  for (std::int64_t j = 0; j < n; ++j) total += weights[j] = fast_exp_nonpositive(scale * (weights[j] - top));
  const V factor = 1 / total;
#pragma omp simd
  for (std::int64_t j = 0; j < n; ++j) weights[j] *= factor;
}

template <int kWidth, class T>
void attend_with(const StepAttention<T>& p, std::int64_t r, StepAttentionRoom<T>& room) {
  using V = compute_t<T>;
  const std::int64_t n = std::int64_t(room.keys.size()), D = p.width, C = p.heads * D;
  const T* q = p.q + r * p.q_row;
  T* y = p.y + r * C;
  room.query.assign(q, q + C);
  room.weights.resize(n * p.heads);
  room.sum.resize(C);
  V *weights = room.weights.data(), *sum = room.sum.data();
  const V scale = V(1 / std::sqrt(double(D)));
  for (const T* key : room.keys) __builtin_prefetch(key);
  dot_keys<kWidth>(room.query.data(), room.keys, p.heads, D, weights);
  for (std::int64_t h = 0; h < p.heads; ++h) probabilities(weights + h * n, n, scale);
  add_values<kWidth>(weights, room.keys, p.value_offset, p.heads, D, sum);
  round_to(C, sum, y);
}

}  // namespace

template <class T>
void attend(const StepAttention<T>& p, std::int64_t r, StepAttentionRoom<T>& room) {
  if (p.width == 128) return attend_with<128>(p, r, room);
  if (p.width == 64) return attend_with<64>(p, r, room);
  attend_with<0>(p, r, room);
}

template void attend(const StepAttention<float>&, std::int64_t, StepAttentionRoom<float>&);
template void attend(const StepAttention<double>&, std::int64_t, StepAttentionRoom<double>&);
template void attend(const StepAttention<bf16>&, std::int64_t, StepAttentionRoom<bf16>&);

}  // namespace foldgrad
