#include "engine/column_sums_cpu.h"
#include "ops/layer_norm/layer_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = layer_norm_math;
constexpr std::int64_t kParallelElements = 16384;

// Two passes over the row, which is in the cache by then: E[x^2] - E[x]^2 would lose all digits of rows far from zero.
template <class T>
void forward_row(const LayerNormForward<T>& p, std::int64_t r) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const T* x = p.x + r * columns;
  T* y = p.y + r * columns;
  Value sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < columns; ++c) sum += Value(x[c]);
  const Value mu = sum / Value(columns);  // [LN-1]
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < columns; ++c) squares += (Value(x[c]) - mu) * (Value(x[c]) - mu);
  const Value rstd = math::rstd(squares / Value(columns), p.eps);
  const T *gamma = p.gamma, *beta = p.beta;
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c)
    y[c] = T(math::y(math::xhat(Value(x[c]), mu, rstd), Value(gamma[c]), Value(beta[c])));
  p.mu[r] = mu;
  p.rstd[r] = rstd;
}

template <class T>
void backward_row(const LayerNormBackward<T>& p, std::int64_t r) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const T *x = p.x + r * columns, *dy = p.dy + r * columns, *gamma = p.gamma;
  const Value mu = p.mu[r], rstd = p.rstd[r];
  Value sum_g = 0, sum_g_xhat = 0;
#pragma omp simd reduction(+ : sum_g, sum_g_xhat)
  for (std::int64_t c = 0; c < columns; ++c) {
    const Value g = Value(dy[c]) * Value(gamma[c]);
    sum_g += g;
    sum_g_xhat += g * math::xhat(Value(x[c]), mu, rstd);
  }
  const Value mean_g = sum_g / Value(columns), mean_g_xhat = sum_g_xhat / Value(columns);
  const GradOut<T> dx{p.dx.data + r * columns, p.dx.mode};
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c)
    dx.put(c, math::dx(Value(dy[c]) * Value(gamma[c]), math::xhat(Value(x[c]), mu, rstd), rstd, mean_g, mean_g_xhat));
}

}  // namespace

template <class T>
void layer_norm_cpu(const LayerNormForward<T>& p) {
#pragma omp parallel for schedule(static) if (p.rows * p.columns >= kParallelElements)
  for (std::int64_t r = 0; r < p.rows; ++r) forward_row(p, r);
}

// Each block of rows computes dx and its share of dgamma and dbeta while the row is in the cache.
template <class T>
void layer_norm_cpu(const LayerNormBackward<T>& p) {
  using Value = compute_t<T>;
  const RowBlocks blocks(p.rows);
  const auto scratch = memory::allocate(Device::cpu, std::size_t(blocks.count() * 2 * p.columns) * sizeof(Value));
  Value* partials = static_cast<Value*>(scratch.get());
#pragma omp parallel for schedule(static) if (p.rows * p.columns >= kParallelElements)
  for (std::int64_t b = 0; b < blocks.count(); ++b) {
    Value *dgamma = partials + b * 2 * p.columns, *dbeta = dgamma + p.columns;
    std::fill_n(dgamma, 2 * p.columns, Value(0));
    for (std::int64_t r = blocks.begin(b); r < blocks.end(b); ++r) {
      if (p.dx) backward_row(p, r);
      if (!p.dgamma && !p.dbeta) continue;
#pragma omp simd
      for (std::int64_t c = 0; c < p.columns; ++c) {
        Value sums[2] = {dgamma[c], dbeta[c]};
        p.add(r, c, sums);
        dgamma[c] = sums[0], dbeta[c] = sums[1];
      }
    }
  }
  finish_column_sums(p, partials, blocks.count());
}

template void layer_norm_cpu(const LayerNormForward<float>&);
template void layer_norm_cpu(const LayerNormForward<double>&);
template void layer_norm_cpu(const LayerNormForward<bf16>&);
template void layer_norm_cpu(const LayerNormBackward<float>&);
template void layer_norm_cpu(const LayerNormBackward<double>&);
template void layer_norm_cpu(const LayerNormBackward<bf16>&);

}  // namespace foldgrad
