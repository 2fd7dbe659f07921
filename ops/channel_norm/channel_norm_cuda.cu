#include "engine/cuda/elementwise.h"
#include "engine/cuda/reduce.h"
#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {
namespace {

using channel_norm_math::SkipTerms;
constexpr int kChannelNormThreads = 256;  // not tuned

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
__global__ void __launch_bounds__(kChannelNormThreads) statistics_kernel(ChannelForward<T> p) {
  double* scratch = dynamic_shared<double>();  // one per warp
  SkipTerms layer;
  if (p.layer_decides()) {
    for (std::int64_t c = threadIdx.x; c < p.columns; c += kChannelNormThreads) layer.add(p.terms(c));
    layer = block_terms(layer, scratch);
  }
  double skipped = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += kChannelNormThreads)
    if (p.run(c, layer)) skipped = 1;
  skipped = block_max(skipped, scratch, 0.0);  // also the barrier after which the counters may change
  if (threadIdx.x == 0) p.finish(skipped > 0);
}

}  // namespace

template <class T>
void channel_norm_cuda(const ChannelForward<T>& p) {
  const Grid one_block{dim3(1), dim3(kChannelNormThreads), kChannelNormThreads / kWarp * sizeof(double)};
  launch("channel_norm statistics", statistics_kernel<T>, one_block, p);
}
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelForward);
FOLDGRAD_INSTANTIATE(matrix_cuda, ChannelApply);
FOLDGRAD_INSTANTIATE(elementwise_cuda, ChannelBackward);
FOLDGRAD_INSTANTIATE(matrix_cuda, ChannelGradient);

}  // namespace foldgrad
