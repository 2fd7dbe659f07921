#include "engine/cuda/reduce.h"
#include "ops/weight_standardize/weight_standardize_kernels.h"

namespace foldgrad {
namespace {

namespace math = weight_standardize_math;

// One block per unit.
template <class T>
__global__ void forward_kernel(WeightStandardizeForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t o = blockIdx.x;
  const T* W = p.W + o * p.fan_in;

  Value sum = 0, S = 0;
  for (std::int64_t n = threadIdx.x; n < p.fan_in; n += blockDim.x) sum += Value(W[n]);
  const Value mu = block_sum(sum, scratch) / Value(p.fan_in);  // [WS-1]
  for (std::int64_t n = threadIdx.x; n < p.fan_in; n += blockDim.x) S += math::squared_deviation(Value(W[n]), mu);
  const math::Scale<Value> s = math::scale(block_sum(S, scratch), p.c, p.minimum);
  for (std::int64_t n = threadIdx.x; n < p.fan_in; n += blockDim.x)
    p.what[o * p.fan_in + n] = T(math::what(math::w(Value(W[n]), mu, s.rs), Value(p.g[o])));
  if (threadIdx.x == 0) p.save(o, mu, s);
}

// One block per unit.
template <class T>
__global__ void backward_kernel(WeightStandardizeBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t o = blockIdx.x;
  const T *W = p.W + o * p.fan_in, *dwhat = p.dwhat + o * p.fan_in;
  const Value g = p.g[o], mu = p.mu[o];
  const math::Scale<Value> s{p.rs[o], p.cs[o]};

  Value sum = 0, sum_w = 0;
  for (std::int64_t n = threadIdx.x; n < p.fan_in; n += blockDim.x) {
    sum += Value(dwhat[n]);
    sum_w += Value(dwhat[n]) * math::w(Value(W[n]), mu, s.rs);
  }
  sum = block_sum(sum, scratch);
  sum_w = block_sum(sum_w, scratch);
  if (p.dg && threadIdx.x == 0) p.dg.put(o, sum_w);  // [WS-5]
  if (!p.dW) return;
  const Value mean_k = g * sum / Value(p.fan_in), sum_k_w = g * sum_w;
  for (std::int64_t n = threadIdx.x; n < p.fan_in; n += blockDim.x)
    p.dW.put(o * p.fan_in + n, math::dW(g * Value(dwhat[n]), math::w(Value(W[n]), mu, s.rs), mean_k, sum_k_w, s));
}

}  // namespace

template <class T>
void weight_standardize_cuda(const WeightStandardizeForward<T>& p) {
  launch("weight_standardize forward", forward_kernel<T>, one_block_per_row<compute_t<T>>(p.units), p);
}
template <class T>
void weight_standardize_cuda(const WeightStandardizeBackward<T>& p) {
  launch("weight_standardize backward", backward_kernel<T>, one_block_per_row<compute_t<T>>(p.units), p);
}

FOLDGRAD_INSTANTIATE(weight_standardize_cuda, WeightStandardizeForward);
FOLDGRAD_INSTANTIATE(weight_standardize_cuda, WeightStandardizeBackward);

}  // namespace foldgrad
