#include <vector>

#include "engine/cpu/column_sums.h"
#include "engine/cpu/rows.h"
#include "ops/group_norm/group_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = group_norm_math;

// Returns the thread's scratch memory for four rows of `columns` values. It is kept between samples and calls.
template <class Value>
Value* thread_scratch(std::int64_t columns) {
  thread_local std::vector<Value> scratch;
  if (std::int64_t(scratch.size()) < 4 * columns) scratch.resize(4 * columns);
  return scratch.data();
}

// Replaces the values of each group's channels with f(sum, group), where `sum` is the sum of these values.
template <class Value, class F>
void over_groups(Value* values, std::int64_t columns, std::int64_t groups, const F& f) {
  const std::int64_t width = columns / groups;
  for (std::int64_t g = 0; g < groups; ++g) {
    Value* own = values + g * width;
    const Value result = f(width == 1 ? *own : sum_cpu<Value>(width, [own](std::int64_t c) { return own[c]; }), g);
    std::fill_n(own, width, result);
  }
}

// First sums each channel over the rows, in memory order; then sums the channels of each group.
template <class T>
void forward_sample(const GroupNormForward<T>& p, std::int64_t s) {
  using Value = compute_t<T>;
  const GroupNormShape shape = p.shape;
  const std::int64_t columns = shape.columns, groups = shape.groups;
  Value *mu = thread_scratch<Value>(columns), *rstd = mu + columns;
  const T *gamma = p.gamma, *beta = p.beta;
  const Value w = shape.weight<Value>(s);
  std::fill_n(mu, 2 * columns, Value(0));
  for (std::int64_t r = shape.begin(s); r < shape.end(s); ++r) {
    const T* x = p.x + r * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) mu[c] += Value(x[c]);
  }
  over_groups(mu, columns, groups, [&](Value sum, std::int64_t g) { return p.mu[s * groups + g] = sum * w; });
  for (std::int64_t r = shape.begin(s); r < shape.end(s); ++r) {
    const T* x = p.x + r * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) rstd[c] += math::squared_deviation(Value(x[c]), mu[c]);
  }
  over_groups(rstd, columns, groups, [&](Value sum, std::int64_t g) {
    const std::int64_t at = s * groups + g;
    return p.rstd[at] = p.rstd_of(sum, s, g, p.mu[at]);
  });
  for (std::int64_t r = shape.begin(s); r < shape.end(s); ++r) {
    const T* x = p.x + r * columns;
    T* y = p.y + r * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c)
      y[c] = T(math::y(math::xhat(Value(x[c]), mu[c], rstd[c]), Value(gamma[c]), Value(beta[c])));
  }
}

// Adds the sample's terms of dgamma and dbeta to `own`, [2, columns], and puts the sample's dx.
template <class T>
void backward_sample(const GroupNormBackward<T>& p, std::int64_t s, compute_t<T>* own) {
  using Value = compute_t<T>;
  const GroupNormShape shape = p.shape;
  const std::int64_t columns = shape.columns, groups = shape.groups, width = columns / groups;
  Value *mu = thread_scratch<Value>(columns), *rstd = mu + columns, *sum_h = mu + 2 * columns,
        *sum_h_xhat = mu + 3 * columns;
  const T* gamma = p.gamma;
  for (std::int64_t g = 0; g < groups; ++g) {
    std::fill_n(mu + g * width, width, p.mu[s * groups + g]);
    std::fill_n(rstd + g * width, width, p.rstd[s * groups + g]);
  }
  std::fill_n(sum_h, 2 * columns, Value(0));
  for (std::int64_t r = shape.begin(s); r < shape.end(s); ++r) {
    const T *dy = p.dy + r * columns, *x = p.x + r * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) {
      sum_h[c] += Value(dy[c]);
      sum_h_xhat[c] += math::dgamma(Value(dy[c]), math::xhat(Value(x[c]), mu[c], rstd[c]));
    }
  }
  Value *dgamma = own, *dbeta = own + columns;
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    dgamma[c] += sum_h_xhat[c];
    dbeta[c] += sum_h[c];
    sum_h_xhat[c] *= Value(gamma[c]);
    sum_h[c] *= Value(gamma[c]);
  }
  if (!p.dx) return;
  const auto itself = [](Value sum, std::int64_t) { return sum; };
  over_groups(sum_h, columns, groups, itself);
  over_groups(sum_h_xhat, columns, groups, itself);
  const Value w = shape.weight<Value>(s);
  for (std::int64_t r = shape.begin(s); r < shape.end(s); ++r) {
    const T *dy = p.dy + r * columns, *x = p.x + r * columns;
    const GradOut<T> dx{p.dx.data + r * columns, p.dx.mode};
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c)
      dx.put(c, math::dx(Value(dy[c]) * Value(gamma[c]), math::xhat(Value(x[c]), mu[c], rstd[c]), rstd[c], sum_h[c],
                         sum_h_xhat[c], w));
  }
}

}  // namespace

template <class T>
void group_norm_cpu(const GroupNormForward<T>& p) {
  const std::int64_t elements = p.shape.rows * p.shape.columns / std::max<std::int64_t>(p.shape.samples, 1);
  for_rows_cpu(p.shape.samples, elements, [&p](std::int64_t s) { forward_sample(p, s); });
}
template <class T>
void group_norm_cpu(const GroupNormBackward<T>& p) {
  column_sums_cpu(
      p, [&p](std::int64_t s, compute_t<T>* own) { backward_sample(p, s, own); }, p.shape.rows * p.shape.columns);
}

FOLDGRAD_INSTANTIATE(group_norm_cpu, GroupNormForward);
FOLDGRAD_INSTANTIATE(group_norm_cpu, GroupNormBackward);

}  // namespace foldgrad
