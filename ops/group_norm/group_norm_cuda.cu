#include "engine/cuda/column_sums.h"
#include "ops/group_norm/group_norm_kernels.h"

namespace foldgrad {
namespace {

namespace math = group_norm_math;

// A block handles one group of one sample, in all rows, in packs of N.
template <int N>
struct Block {
  const GroupNormShape& p;
  // There are at most as many groups as blocks, so a division in 32 bits suffices.
  std::int64_t s = blockIdx.x / unsigned(p.groups), g = blockIdx.x % unsigned(p.groups);
  std::int64_t channels = p.columns / p.groups, width = channels / N;

  // Calls body(i, c) for each of this thread's packs, which begin at element i and channel c. A thread has pack
  // threadIdx.x and every blockDim.x-th pack after it. The thread steps from row to row, because dividing each index by
  // the width would cost more than the work itself.
  template <class Body>
  __device__ void packs(const Body& body) const {
    if (width == 0) return;
    const unsigned divisor = width < kMostThreads ? unsigned(width) : kMostThreads;
    const unsigned down = blockDim.x / divisor, across = blockDim.x % divisor;
    std::int64_t r = p.begin(s) + threadIdx.x / divisor, k = threadIdx.x % divisor;
    const std::int64_t end = p.end(s);
    while (r < end) {
      const std::int64_t c = g * channels + k * N;
      body(r * p.columns + c, c);
      r += down;
      k += across;
      if (k < width) continue;
      k -= width;
      ++r;
    }
  }

 private:
  static constexpr unsigned kMostThreads = 1024;  // per block; if the group is wider, all threads begin in row 0
};

template <class T, int N>
__global__ void forward_kernel(GroupNormForward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const Block<N> block{p.shape};
  Value sum = 0, squares = 0;
  block.packs([&](std::int64_t i, std::int64_t) {
    const Pack<T, N> x = load_pack<N>(p.x + i);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) sum += Value(x.v[e]);
  });
  const Value weight = p.shape.template weight<Value>(block.s);
  const Value mu = block_sum(sum, scratch) * weight;
  block.packs([&](std::int64_t i, std::int64_t) {
    const Pack<T, N> x = load_pack<N>(p.x + i);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) squares += math::squared_deviation(Value(x.v[e]), mu);
  });
  const Value rstd = p.rstd_of(block_sum(squares, scratch), block.s, block.g, mu);
  block.packs([&](std::int64_t i, std::int64_t c) {
    const Pack<T, N> x = load_pack<N>(p.x + i), gamma = load_cached_pack<N>(p.gamma + c),
                     beta = load_cached_pack<N>(p.beta + c);
    Pack<T, N> y;
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e)
      y.v[e] = T(math::y(math::xhat(Value(x.v[e]), mu, rstd), Value(gamma.v[e]), Value(beta.v[e])));
    store_pack(p.y + i, y);
  });
  if (threadIdx.x == 0) {
    p.mu[blockIdx.x] = mu;
    p.rstd[blockIdx.x] = rstd;
  }
}

template <class T, int N>
__global__ void backward_dx_kernel(GroupNormBackward<T> p) {
  using Value = compute_t<T>;
  Value* scratch = dynamic_shared<Value>();  // one per warp
  const Block<N> block{p.shape};
  const Value mu = p.mu[blockIdx.x], rstd = p.rstd[blockIdx.x], weight = p.shape.template weight<Value>(block.s);
  Value sum_h = 0, sum_h_xhat = 0;
  block.packs([&](std::int64_t i, std::int64_t c) {
    const Pack<T, N> dy = load_pack<N>(p.dy + i), x = load_pack<N>(p.x + i), gamma = load_cached_pack<N>(p.gamma + c);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) {
      const Value h = Value(dy.v[e]) * Value(gamma.v[e]);
      sum_h += h;
      sum_h_xhat += h * math::xhat(Value(x.v[e]), mu, rstd);
    }
  });
  sum_h = block_sum(sum_h, scratch);
  sum_h_xhat = block_sum(sum_h_xhat, scratch);
  block.packs([&](std::int64_t i, std::int64_t c) {
    const Pack<T, N> dy = load_pack<N>(p.dy + i), x = load_pack<N>(p.x + i), gamma = load_cached_pack<N>(p.gamma + c);
    Value dx[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e)
      dx[e] = math::dx(Value(dy.v[e]) * Value(gamma.v[e]), math::xhat(Value(x.v[e]), mu, rstd), rstd, sum_h, sum_h_xhat,
                       weight);
    put_pack(p.dx, i, dx);
  });
}

// Uses one block per strip of columns and part of the rows. A thread keeps its columns, which are all in one group.
template <class T, int N>
__global__ void __launch_bounds__(kMatrixThreads) sums_kernel(ColumnSumParts<GroupNormBackward<T>> p) {
  using Value = compute_t<T>;
  const GroupNormBackward<T>& f = p.f;
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const bool wanted = c < f.columns;
  const std::int64_t groups = f.shape.groups, g = wanted ? c / (f.columns / groups) : 0;
  const std::int64_t stride = p.parts * blockDim.y;
  Value own[N][GroupNormBackward<T>::kSums] = {};
  for (std::int64_t r = std::int64_t(blockIdx.y) * blockDim.y + threadIdx.y; r < f.rows; r += stride) {
    const std::int64_t s = f.sample_of_row ? f.sample_of_row[r] : r;
    const Pack<T, N> dy = load_pack<N>(f.dy + r * f.columns + c, wanted),
                     x = load_pack<N>(f.x + r * f.columns + c, wanted);
    const Value mu = f.mu[s * groups + g], rstd = f.rstd[s * groups + g];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) {
      own[e][0] += math::dgamma(Value(dy.v[e]), math::xhat(Value(x.v[e]), mu, rstd));
      own[e][1] += Value(dy.v[e]);
    }
  }
  write_part<N>(p, own);
}

}  // namespace

template <class T>
void group_norm_cuda(const GroupNormForward<T>& p) {
  constexpr int N = kPackSize<T>;
  const bool packed = p.shape.columns / p.shape.groups % N == 0 && aligned_for_packs(16, p.x, p.y, p.gamma, p.beta);
  launch("group_norm forward", packed ? forward_kernel<T, N> : forward_kernel<T, 1>,
         one_block_per_row<compute_t<T>>(p.shape.samples * p.shape.groups), p);
}
template <class T>
void group_norm_cuda(const GroupNormBackward<T>& p) {
  constexpr int N = kPackSize<T>;
  const bool packed = p.shape.columns / p.shape.groups % N == 0 && aligned_for_packs(16, p.x, p.dy, p.dx.data, p.gamma);
  if (p.dx)
    launch("group_norm backward of x", packed ? backward_dx_kernel<T, N> : backward_dx_kernel<T, 1>,
           one_block_per_row<compute_t<T>>(p.shape.samples * p.shape.groups), p);
  constexpr const char* kSums = "group_norm backward of gamma and beta";
  if (p.dgamma || p.dbeta)
    packed ? launch_column_sums<N>(kSums, p, sums_kernel<T, N>) : launch_column_sums<1>(kSums, p, sums_kernel<T, 1>);
}

FOLDGRAD_INSTANTIATE(group_norm_cuda, GroupNormForward);
FOLDGRAD_INSTANTIATE(group_norm_cuda, GroupNormBackward);

}  // namespace foldgrad
