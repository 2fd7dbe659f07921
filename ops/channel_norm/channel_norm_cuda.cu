#include "engine/cuda/elementwise.h"
#include "engine/cuda/reduce.h"
#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {
namespace {

using channel_norm_math::LayerTotals;
constexpr int kRowThreads = 8;         // a block is 32 neighbouring columns by 8 rows; not tuned
constexpr int kStepThreads = 256;      // not tuned
constexpr unsigned kRowBlocks = 1024;  // along the rows, at most: what is beyond is taken in turns; not tuned

// Of a strip of 32 columns, the sums that its 8 threads per column hold, in their order, given back to each of them.
__device__ double strip_sum(double own) {
  double* scratch = dynamic_shared<double>();  // [kRowThreads, kWarp]
  __syncthreads();                             // an earlier sum may still be read
  scratch[threadIdx.y * kWarp + threadIdx.x] = own;
  __syncthreads();
  double sum = 0;
  for (int y = 0; y < kRowThreads; ++y) sum += scratch[y * kWarp + threadIdx.x];
  return sum;
}
Grid strips(std::int64_t columns, std::int64_t blocks) {
  return {dim3(blocks_for(columns, kWarp), unsigned(blocks < kRowBlocks ? blocks : kRowBlocks)),
          dim3(kWarp, kRowThreads), kRowThreads * kWarp * sizeof(double)};
}
__device__ std::int64_t strip_column() { return std::int64_t(blockIdx.x) * kWarp + threadIdx.x; }

// Of one strip and one block of rows: a thread has 8 rows, few enough for sums in the element's arithmetic.
template <class T>
__device__ void block_moments(const ChannelMoments<T>& p, std::int64_t block) {
  using Value = compute_t<T>;
  static_assert(kChannelBlockRows / kRowThreads <= kChannelChunkRows, "chunks are what headers promise");
  const std::int64_t c = strip_column(), begin = block * kChannelBlockRows;
  const std::int64_t end = begin + kChannelBlockRows < p.rows ? begin + kChannelBlockRows : p.rows;
  double n = 0;
  std::int64_t first = begin;
  for (std::int64_t r = end - 1; r >= begin; --r)
    if (p.real(r)) first = r, ++n;
  Value sum = 0, squares = 0, shift = 0;
  if (c < p.columns) {
    if (p.variance) shift = p.x[first * p.columns + c];
    for (std::int64_t r = begin + threadIdx.y; r < end; r += kRowThreads) {
      if (!p.real(r)) continue;
      const Value d = Value(p.x[r * p.columns + c]) - shift;
      sum += d;
      squares += d * d;
    }
  }
  const double all_squares = strip_sum(squares), all = p.variance ? strip_sum(sum) : 0;
  if (threadIdx.y != 0 || c >= p.columns) return;
  double* own = p.partials + 2 * block * p.columns;
  own[c] = all + n * double(shift);
  own[p.columns + c] = all_squares - (n > 0 ? all * all / n : 0);
  if (c == 0) p.counts[block] = n;
}
template <class T>
__global__ void moments_kernel(ChannelMoments<T> p) {
  for (std::int64_t block = blockIdx.y; block * kChannelBlockRows < p.rows; block += gridDim.y) block_moments(p, block);
}

// One block per strip.
template <class T>
__global__ void finish_moments_kernel(ChannelMoments<T> p) {
  const std::int64_t c = strip_column(), blocks = (p.rows + kChannelBlockRows - 1) / kChannelBlockRows;
  const bool inside = c < p.columns;
  double n = 0, sum = 0, squares = 0;
  for (std::int64_t b = threadIdx.y; b < blocks; b += kRowThreads) {
    n += p.counts[b];
    if (inside && p.variance) sum += p.sum(b)[c];
  }
  n = strip_sum(n);
  const double mean = strip_sum(sum) / n;
  for (std::int64_t b = threadIdx.y; b < blocks && inside; b += kRowThreads) squares += p.squares_around(b, c, mean);
  squares = strip_sum(squares);
  if (threadIdx.y != 0 || !inside) return;
  p.moments[c] = mean;
  p.moments[p.columns + c] = squares / n;  // [CN-1]
  if (c == 0) *p.count = n;
}

__device__ LayerTotals block_totals(const LayerTotals& own, double* scratch) {
  LayerTotals all;
  all.distance = block_sum(own.distance, scratch);
  all.threshold = block_sum(own.threshold, scratch);
  all.level = block_sum(own.level, scratch);
  all.roots = block_sum(own.roots, scratch);
  all.squares = block_sum(own.squares, scratch);
  all.largest_excess = block_max(own.largest_excess, scratch, 0.0);
  all.largest_distance = block_max(own.largest_distance, scratch, 0.0);
  return all;
}

// One block: the layer's decision is taken here and never leaves the device.
template <class T>
__global__ void forward_step_kernel(ChannelForwardStep<T> p) {
  double* scratch = dynamic_shared<double>();  // one per warp
  LayerTotals layer;
  if (p.filters() && p.options.granularity != Granularity::channel) {
    for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) layer.add(p.propose(c));
    layer = block_totals(layer, scratch);
  }
  double skipped = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    if (p.decide(c, layer)) skipped = 1;
  skipped = block_max(skipped, scratch, 0.0);  // also the barrier behind which the counters may change
  if (threadIdx.x == 0) p.finish(skipped > 0);
}

template <class T>
__global__ void apply_kernel(ChannelApply<T> p) {
  const std::int64_t c = strip_column();
  if (c >= p.columns) return;
  for (std::int64_t r = std::int64_t(blockIdx.y) * kRowThreads + threadIdx.y; r < p.rows;
       r += std::int64_t(gridDim.y) * kRowThreads)
    p.y[r * p.columns + c] = T(p.value(r * p.columns + c, c));
}

template <class T>
__device__ void block_sums(const ChannelSums<T>& p, std::int64_t block) {
  using Value = compute_t<T>;
  const std::int64_t c = strip_column(), begin = block * kChannelBlockRows;
  const std::int64_t end = begin + kChannelBlockRows < p.rows ? begin + kChannelBlockRows : p.rows;
  Value up = 0, up_z = 0, squares = 0;
  for (std::int64_t r = begin + threadIdx.y; r < end && c < p.columns; r += kRowThreads) {
    const Value dy = p.dy[r * p.columns + c], d = Value(p.x[r * p.columns + c]) - p.mean[c];
    up += dy;
    up_z += dy * d;
    squares += d * d;
  }
  const double sums[3] = {strip_sum(up), strip_sum(up_z), p.power ? strip_sum(squares) : 0};
  if (threadIdx.y == 0 && c < p.columns)
    for (int k = 0; k < 3; ++k) p.partials[(3 * block + k) * p.columns + c] = sums[k];
}
template <class T>
__global__ void sums_kernel(ChannelSums<T> p) {
  for (std::int64_t block = blockIdx.y; block * kChannelBlockRows < p.rows; block += gridDim.y) block_sums(p, block);
}
template <class T>
__global__ void finish_sums_kernel(ChannelSums<T> p) {
  const std::int64_t c = strip_column(), blocks = (p.rows + kChannelBlockRows - 1) / kChannelBlockRows;
  for (int k = 0; k < (p.power ? 3 : 2); ++k) {
    double own = 0;
    for (std::int64_t b = threadIdx.y; b < blocks && c < p.columns; b += kRowThreads)
      own += p.partials[(3 * b + k) * p.columns + c];
    own = strip_sum(own);
    if (threadIdx.y == 0 && c < p.columns) p.sums[k * p.columns + c] = own;
  }
}

template <class T>
struct DecideBackward {
  ChannelBackwardStep<T> step;
  __device__ void operator()(std::int64_t c) const { step.decide(c); }
};

template <class T>
__global__ void gradient_kernel(ChannelGradient<T> p) {
  using Value = compute_t<T>;
  const std::int64_t c = strip_column();
  if (c >= p.columns) return;
  const Value a = p.coefficients[c], b = p.coefficients[p.columns + c], e = p.coefficients[2 * p.columns + c];
  const Value mean = p.mean[c];
  for (std::int64_t r = std::int64_t(blockIdx.y) * kRowThreads + threadIdx.y; r < p.rows;
       r += std::int64_t(gridDim.y) * kRowThreads) {
    const std::int64_t i = r * p.columns + c;
    Value dx = p.dy ? a * Value(p.dy[i]) : Value(0);
    if (!p.mask || p.mask[r]) dx = dx - b - e * (Value(p.x[i]) - mean);  // [CN-2]
    p.dx.put(i, dx);
  }
}
Grid elements(std::int64_t rows, std::int64_t columns) { return strips(columns, blocks_for(rows, kRowThreads)); }

}  // namespace

template <class T>
void channel_norm_cuda(const ChannelMoments<T>& p) {
  launch("channel_norm moments", moments_kernel<T>, strips(p.columns, channel_blocks(p.rows)), p);
  launch("channel_norm moments of all rows", finish_moments_kernel<T>, strips(p.columns, 1), p);
}
template <class T>
void channel_norm_cuda(const ChannelForwardStep<T>& p) {
  const Grid one_block{dim3(1), dim3(kStepThreads), kStepThreads / kWarp * sizeof(double)};
  launch("channel_norm forward step", forward_step_kernel<T>, one_block, p);
}
template <class T>
void channel_norm_cuda(const ChannelApply<T>& p) {
  launch("channel_norm forward", apply_kernel<T>, elements(p.rows, p.columns), p);
}
template <class T>
void channel_norm_cuda(const ChannelSums<T>& p) {
  launch("channel_norm backward sums", sums_kernel<T>, strips(p.columns, channel_blocks(p.rows)), p);
  launch("channel_norm backward sums of all rows", finish_sums_kernel<T>, strips(p.columns, 1), p);
}
template <class T>
void channel_norm_cuda(const ChannelBackwardStep<T>& p) {
  elementwise_cuda("channel_norm backward step", p.columns, DecideBackward<T>{p});
}
template <class T>
void channel_norm_cuda(const ChannelGradient<T>& p) {
  launch("channel_norm backward", gradient_kernel<T>, elements(p.rows, p.columns), p);
}

#define FOLDGRAD_INSTANTIATE(T)                                   \
  template void channel_norm_cuda(const ChannelMoments<T>&);      \
  template void channel_norm_cuda(const ChannelForwardStep<T>&);  \
  template void channel_norm_cuda(const ChannelApply<T>&);        \
  template void channel_norm_cuda(const ChannelSums<T>&);         \
  template void channel_norm_cuda(const ChannelBackwardStep<T>&); \
  template void channel_norm_cuda(const ChannelGradient<T>&);
FOLDGRAD_INSTANTIATE(float)
FOLDGRAD_INSTANTIATE(double)
FOLDGRAD_INSTANTIATE(bf16)
#undef FOLDGRAD_INSTANTIATE

}  // namespace foldgrad
