#include "engine/cpu/rows.h"
#include "ops/weight_standardize/weight_standardize_kernels.h"

namespace foldgrad {
namespace {

namespace math = weight_standardize_math;

template <class T>
void forward_unit(const WeightStandardizeForward<T>& p, std::int64_t o) {
  using Value = compute_t<T>;
  const std::int64_t N = p.fan_in;
  const T* W = p.W + o * N;
  const Value mu = sum_cpu<Value>(N, [W](std::int64_t n) { return Value(W[n]); }) / Value(N);  // [WS-1]
  const Value S = sum_cpu<Value>(N, [W, mu](std::int64_t n) { return math::squared_deviation(Value(W[n]), mu); });
  const math::Scale<Value> s = math::scale(S, p.c, p.minimum);
  write_cpu(p.what + o * N, 0, N, /*bypass=*/false, [W, mu, rs = s.rs, g = Value(p.g[o])](std::int64_t n) {
    return math::what(math::w(Value(W[n]), mu, rs), g);
  });
  p.save(o, mu, s);
}

template <class T>
void backward_unit(const WeightStandardizeBackward<T>& p, std::int64_t o) {
  using Value = compute_t<T>;
  const std::int64_t N = p.fan_in;
  const T *W = p.W + o * N, *dwhat = p.dwhat + o * N;
  const Value g = p.g[o], mu = p.mu[o];
  const math::Scale<Value> s{p.rs[o], p.cs[o]};
  const auto [sum, sum_w] = sums_cpu<2, Value>(N, [=](std::int64_t n, Value(&sums)[2]) {
    sums[0] += Value(dwhat[n]);
    sums[1] += Value(dwhat[n]) * math::w(Value(W[n]), mu, s.rs);
  });
  if (p.dg) p.dg.put(o, sum_w);  // [WS-5]
  if (!p.dW) return;
  const Value mean_k = g * sum / Value(N), sum_k_w = g * sum_w;
  const GradOut<T> dW{p.dW.data + o * N, p.dW.mode};
  write_cpu(dW, 0, N, /*bypass=*/false, [=](std::int64_t n) {
    return math::dW(g * Value(dwhat[n]), math::w(Value(W[n]), mu, s.rs), mean_k, sum_k_w, s);
  });
}

}  // namespace

template <class T>
void weight_standardize_cpu(const WeightStandardizeForward<T>& p) {
  for_rows_cpu(p.units, p.fan_in, [&p](std::int64_t o) { forward_unit(p, o); });
}
template <class T>
void weight_standardize_cpu(const WeightStandardizeBackward<T>& p) {
  for_rows_cpu(p.units, p.fan_in, [&p](std::int64_t o) { backward_unit(p, o); });
}

FOLDGRAD_INSTANTIATE(weight_standardize_cpu, WeightStandardizeForward);
FOLDGRAD_INSTANTIATE(weight_standardize_cpu, WeightStandardizeBackward);

}  // namespace foldgrad
