#include "engine/cuda/column_sums.h"
#include "engine/cuda/rows.h"
#include "ops/group_norm/group_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = group_norm_math;

// One block per sample and group, which goes over its channels at all positions.
template <class P>
struct Block {
  const P& p;
  std::int64_t s = blockIdx.x / unsigned(p.groups), g = blockIdx.x % unsigned(p.groups);  // no more than blocks
  std::int64_t width = p.columns / p.groups;

  // body(i, c, real) for each element i of channel c that falls to this thread: number threadIdx.x of the block's, and
  // each blockDim.x further. To divide each number by the width would cost more than what is done with the element.
  template <class Body>
  __device__ void elements(const Body& body) const {
    if (width == 0) return;
    const unsigned divisor = width < kMostThreads ? unsigned(width) : kMostThreads;
    const unsigned down = blockDim.x / divisor, across = blockDim.x % divisor;
    std::int64_t t = threadIdx.x / divisor, k = threadIdx.x % divisor;
    while (t < p.positions) {
      const std::int64_t row = s * p.positions + t, c = g * width + k;
      body(row * p.columns + c, c, !p.mask || p.mask[row]);
      t += down;
      k += across;
      if (k < width) continue;
      k -= width;
      ++t;
    }
  }

 private:
  static constexpr unsigned kMostThreads = 1024;  // of a block: wider groups than that leave them all at position 0
};

template <class T>
__global__ void forward_kernel(GroupNormForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const Block<GroupNormForward<T>> block{p};
  Value count = 0, sum = 0, squares = 0;
  block.elements([&](std::int64_t i, std::int64_t, bool real) {
    if (!real) return;
    count += 1;
    sum += Value(p.x[i]);
  });
  count = block_sum(count, scratch);
  const Value weight = count > 0 ? Value(1) / count : Value(0);
  const Value mu = block_sum(sum, scratch) * weight;
  block.elements([&](std::int64_t i, std::int64_t, bool real) {
    if (real) squares += math::squared_deviation(Value(p.x[i]), mu);
  });
  const Value rstd = math::rstd(block_sum(squares, scratch), weight, p.eps);
  block.elements([&](std::int64_t i, std::int64_t c, bool) {
    p.y[i] = T(math::y(math::xhat(Value(p.x[i]), mu, rstd), Value(p.gamma[c]), Value(p.beta[c])));
  });
  if (threadIdx.x == 0) {
    p.mu[blockIdx.x] = mu;
    p.rstd[blockIdx.x] = rstd;
    if (block.g == 0) p.weight[block.s] = weight;
  }
}

template <class T>
__global__ void backward_dx_kernel(GroupNormBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const Block<GroupNormBackward<T>> block{p};
  const Value mu = p.mu[blockIdx.x], rstd = p.rstd[blockIdx.x], weight = p.weight[block.s];
  Value sum_h = 0, sum_h_xhat = 0;
  block.elements([&](std::int64_t i, std::int64_t c, bool) {
    const Value h = Value(p.dy[i]) * Value(p.gamma[c]);
    sum_h += h;
    sum_h_xhat += h * math::xhat(Value(p.x[i]), mu, rstd);
  });
  sum_h = block_sum(sum_h, scratch);
  sum_h_xhat = block_sum(sum_h_xhat, scratch);
  block.elements([&](std::int64_t i, std::int64_t c, bool real) {
    p.dx.put(i, math::dx(Value(p.dy[i]) * Value(p.gamma[c]), math::xhat(Value(p.x[i]), mu, rstd), rstd, sum_h,
                         sum_h_xhat, real ? weight : Value(0)));
  });
}

}  // namespace

template <class T>
void group_norm_cuda(const GroupNormForward<T>& p) {
  launch("group_norm forward", forward_kernel<T>, one_block_per_row<compute_t<T>>(p.samples * p.groups), p);
}
template <class T>
void group_norm_cuda(const GroupNormBackward<T>& p) {
  if (p.dx)
    launch("group_norm backward of x", backward_dx_kernel<T>, one_block_per_row<compute_t<T>>(p.samples * p.groups), p);
  if (p.dgamma || p.dbeta) column_sums_cuda("group_norm backward of gamma and beta", p);
}

FOLDGRAD_INSTANTIATE(group_norm_cuda, GroupNormForward);
FOLDGRAD_INSTANTIATE(group_norm_cuda, GroupNormBackward);

}  // namespace foldgrad
