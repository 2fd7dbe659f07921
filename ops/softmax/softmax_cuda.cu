#include "engine/cuda/rows.h"
#include "ops/softmax/softmax_kernels.h"

namespace foldgrad {
namespace {

namespace math = softmax_math;

// One block per row.
template <class T>
__global__ void forward_kernel(SoftmaxForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t r = blockIdx.x;
  const T* x = p.x + r * p.columns;
  T* y = p.y + r * p.columns;
  const std::uint8_t* mask = p.mask ? p.mask + r / p.rows_per_mask * p.columns : nullptr;
  const auto attended = [&](std::int64_t c) { return !mask || mask[c] ? Value(x[c]) : math::nothing<Value>(); };

  Value max = math::nothing<Value>(), sum = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) max = Max{}(max, attended(c));
  const Value m = math::shift(block_max(max, scratch, math::nothing<Value>()));
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) sum += math::exponential(attended(c), m);
  const Value scale = math::scale(block_sum(sum, scratch));
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    y[c] = T(math::y(math::exponential(attended(c), m), scale));
}

// One block per row.
template <class T>
__global__ void backward_kernel(SoftmaxBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const std::int64_t begin = blockIdx.x * p.columns, end = begin + p.columns;

  Value sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) sum += Value(p.dy[i]) * Value(p.y[i]);
  const Value sum_dy_y = block_sum(sum, scratch);
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    p.dx.put(i, math::dx(Value(p.y[i]), Value(p.dy[i]), sum_dy_y));
}

}  // namespace

template <class T>
void softmax_cuda(const SoftmaxForward<T>& p) {
  launch("softmax forward", forward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
}
template <class T>
void softmax_cuda(const SoftmaxBackward<T>& p) {
  launch("softmax backward", backward_kernel<T>, one_block_per_row<compute_t<T>>(p.rows), p);
}

FOLDGRAD_INSTANTIATE(softmax_cuda, SoftmaxForward);
FOLDGRAD_INSTANTIATE(softmax_cuda, SoftmaxBackward);

}  // namespace foldgrad
