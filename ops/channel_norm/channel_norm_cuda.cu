#include "engine/cuda/elementwise.h"
#include "engine/cuda/reduce.h"
#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {
namespace channel_norm_math {

__device__ SkipTerms shuffle_xor(const SkipTerms& terms, int distance) {
  const auto there = [&](double v) { return foldgrad::shuffle_xor(v, distance); };
  return {there(terms.distance),         there(terms.threshold), there(terms.level),  there(terms.largest_excess),
          there(terms.largest_distance), there(terms.roots),     there(terms.squares)};
}

}  // namespace channel_norm_math

namespace {

using channel_norm_math::SkipTerms;
constexpr int kChannelNormThreads = 512;  // enough to give most threads at most one channel; not tuned

struct BothTerms {
  __device__ SkipTerms operator()(SkipTerms a, const SkipTerms& b) const {
    a.add(b);
    return a;
  }
};

// Runs as one block, so that the decision for the layer is made on the device.
template <class T>
__global__ void __launch_bounds__(kChannelNormThreads) statistics_kernel(ChannelForward<T> p) {
  auto* scratch = dynamic_shared<SkipTerms>();  // one per warp
  SkipTerms layer;
  if (p.layer_decides()) {
    for (std::int64_t c = threadIdx.x; c < p.columns; c += kChannelNormThreads) layer.add(p.terms(c));
    layer = block_reduce(layer, scratch, SkipTerms{}, BothTerms{});
  }
  double skipped = 0;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += kChannelNormThreads)
    if (p.run(c, layer)) skipped = 1;
  // This reduction is also the barrier after which the counters may change.
  skipped = block_reduce(skipped, reinterpret_cast<double*>(scratch), 0.0, Max{});
  if (threadIdx.x == 0) p.finish(skipped > 0);
}

}  // namespace

template <class T>
void channel_norm_cuda(const ChannelForward<T>& p) {
  const Grid one_block{dim3(1), dim3(kChannelNormThreads), kChannelNormThreads / kWarp * sizeof(SkipTerms)};
  launch("channel_norm statistics", statistics_kernel<T>, one_block, p);
}
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelForward);
FOLDGRAD_INSTANTIATE(matrix_cuda, ChannelApply);
FOLDGRAD_INSTANTIATE(elementwise_cuda, ChannelBackward);
FOLDGRAD_INSTANTIATE(matrix_cuda, ChannelGradient);

}  // namespace foldgrad
