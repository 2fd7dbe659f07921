#include "engine/cuda/elementwise.h"
#include "ops/channel_norm/channel_norm_kernels.h"
#include "ops/channel_norm/channel_sums_cuda.h"

namespace foldgrad {
namespace {

using channel_norm_math::SkipTerms;
constexpr int kStepThreads = 256;  // not tuned

__device__ SkipTerms block_terms(const SkipTerms& own, double* scratch) {
  SkipTerms all;
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
  SkipTerms layer;
  if (p.layer_decides()) {
    for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) layer.add(p.terms(c));
    layer = block_terms(layer, scratch);
  }
  double skipped = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    if (p.run(c, layer)) skipped = 1;
  skipped = block_max(skipped, scratch, 0.0);  // also the barrier behind which the counters may change
  if (threadIdx.x == 0) p.finish(skipped > 0);
}

// body(r, c) for the elements of this thread's column in every gridDim.y-th group of rows.
template <class Body>
__device__ void for_elements(std::int64_t rows, std::int64_t columns, const Body& body) {
  const std::int64_t c = strip_column();
  if (c >= columns) return;
  for (std::int64_t r = std::int64_t(blockIdx.y) * kRowThreads + threadIdx.y; r < rows;
       r += std::int64_t(gridDim.y) * kRowThreads)
    body(r, c);
}
Grid elements(std::int64_t rows, std::int64_t columns) { return strips(columns, blocks_for(rows, kRowThreads)); }

template <class T>
__global__ void apply_kernel(ChannelApply<T> p) {
  for_elements(p.rows, p.columns,
               [&p](std::int64_t r, std::int64_t c) { p.y[r * p.columns + c] = T(p.value(r * p.columns + c, c)); });
}
template <class T>
__global__ void gradient_kernel(ChannelGradient<T> p) {
  for_elements(p.rows, p.columns, [&p](std::int64_t r, std::int64_t c) {
    const std::int64_t i = r * p.columns + c;
    p.dx.put(i, p.corrected(r) ? p.value(i, c) : p.direct(i, c));
  });
}

}  // namespace

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
  channel_sums_cuda("channel_norm backward sums", p);
}
template <class T>
void channel_norm_cuda(const ChannelBackwardStep<T>& p) {
  elementwise_cuda("channel_norm backward step", p.columns, p);
}
template <class T>
void channel_norm_cuda(const ChannelGradient<T>& p) {
  launch("channel_norm backward", gradient_kernel<T>, elements(p.rows, p.columns), p);
}

FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelForwardStep);
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelApply);
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelSums);
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelBackwardStep);
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelGradient);

}  // namespace foldgrad
