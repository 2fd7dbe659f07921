#include <vector>

#include "engine/cpu/column_sums.h"
#include "engine/cpu/rows.h"
#include "ops/group_norm/group_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = group_norm_math;

// Four rows of `columns` values, kept by each thread between samples and calls.
template <class Value>
Value* thread_scratch(std::int64_t columns) {
  thread_local std::vector<Value> scratch;
  if (std::int64_t(scratch.size()) < 4 * columns) scratch.resize(4 * columns);
  return scratch.data();
}

// Replaces the values of a group's channels by f(their sum, group), which all of them get.
template <class Value, class F>
void over_groups(Value* values, std::int64_t columns, std::int64_t groups, const F& f) {
  const std::int64_t width = columns / groups;
  for (std::int64_t g = 0; g < groups; ++g) {
    Value* own = values + g * width;
    const Value result = f(width == 1 ? *own : sum_cpu<Value>(width, [own](std::int64_t c) { return own[c]; }), g);
    std::fill_n(own, width, result);
  }
}

template <class P>
bool real(const P& p, std::int64_t s, std::int64_t n) {
  return !p.mask || p.mask[s * p.positions + n];
}

template <class T>
compute_t<T> weight(const GroupNormForward<T>& p, std::int64_t s) {
  std::int64_t count = 0;
  for (std::int64_t n = 0; n < p.positions; ++n) count += real(p, s, n);
  return count ? compute_t<T>(1) / compute_t<T>(count * (p.columns / p.groups)) : compute_t<T>(0);
}

// Sums per channel first, over whole rows of memory, then over the channels of each group.
template <class T>
void forward_sample(const GroupNormForward<T>& p, std::int64_t s) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  Value *mu = thread_scratch<Value>(columns), *rstd = mu + columns;
  const T *gamma = p.gamma, *beta = p.beta, *of_sample = p.x + s * p.positions * columns;
  const Value w = p.weight[s] = weight(p, s);
  std::fill_n(mu, 2 * columns, Value(0));
  for (std::int64_t n = 0; n < p.positions; ++n) {
    if (!real(p, s, n)) continue;
    const T* x = of_sample + n * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) mu[c] += Value(x[c]);
  }
  over_groups(mu, columns, p.groups, [&](Value sum, std::int64_t g) { return p.mu[s * p.groups + g] = sum * w; });
  for (std::int64_t n = 0; n < p.positions; ++n) {
    if (!real(p, s, n)) continue;
    const T* x = of_sample + n * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) rstd[c] += math::squared_deviation(Value(x[c]), mu[c]);
  }
  over_groups(rstd, columns, p.groups,
              [&](Value sum, std::int64_t g) { return p.rstd[s * p.groups + g] = math::rstd(sum, w, p.eps); });
  for (std::int64_t n = 0; n < p.positions; ++n) {
    const T* x = of_sample + n * columns;
    T* y = p.y + (s * p.positions + n) * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c)
      y[c] = T(math::y(math::xhat(Value(x[c]), mu[c], rstd[c]), Value(gamma[c]), Value(beta[c])));
  }
}

// The sample's shares of dgamma and dbeta, [2, columns], and its dx.
template <class T>
void backward_sample(const GroupNormBackward<T>& p, std::int64_t s, compute_t<T>* own) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns, width = columns / p.groups, begin = s * p.positions * columns;
  Value *mu = thread_scratch<Value>(columns), *rstd = mu + columns, *sum_h = mu + 2 * columns,
        *sum_h_xhat = mu + 3 * columns;
  const T *gamma = p.gamma, *all_dy = p.dy + begin, *all_x = p.x + begin;
  for (std::int64_t g = 0; g < p.groups; ++g) {
    std::fill_n(mu + g * width, width, p.mu[s * p.groups + g]);
    std::fill_n(rstd + g * width, width, p.rstd[s * p.groups + g]);
  }
  std::fill_n(sum_h, 2 * columns, Value(0));
  for (std::int64_t n = 0; n < p.positions; ++n) {
    const T *dy = all_dy + n * columns, *x = all_x + n * columns;
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
  over_groups(sum_h, columns, p.groups, itself);
  over_groups(sum_h_xhat, columns, p.groups, itself);
  for (std::int64_t n = 0; n < p.positions; ++n) {
    const T *dy = all_dy + n * columns, *x = all_x + n * columns;
    const Value w = real(p, s, n) ? p.weight[s] : Value(0);
    const GradOut<T> dx{p.dx.data + begin + n * columns, p.dx.mode};
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c)
      dx.put(c, math::dx(Value(dy[c]) * Value(gamma[c]), math::xhat(Value(x[c]), mu[c], rstd[c]), rstd[c], sum_h[c],
                         sum_h_xhat[c], w));
  }
}

}  // namespace

template <class T>
void group_norm_cpu(const GroupNormForward<T>& p) {
#pragma omp parallel for schedule(static) if (p.samples * p.positions * p.columns >= kParallelElements)
  for (std::int64_t s = 0; s < p.samples; ++s) forward_sample(p, s);
}
template <class T>
void group_norm_cpu(const GroupNormBackward<T>& p) {
  column_sums_cpu(
      p, [&p](std::int64_t s, compute_t<T>* own) { backward_sample(p, s, own); }, p.samples * p.positions * p.columns);
}

FOLDGRAD_INSTANTIATE(group_norm_cpu, GroupNormForward);
FOLDGRAD_INSTANTIATE(group_norm_cpu, GroupNormBackward);

}  // namespace foldgrad
