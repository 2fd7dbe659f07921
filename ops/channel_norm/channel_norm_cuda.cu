#include "ops/channel_norm/channel_moments_cuda.h"
#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {
namespace {

using channel_norm_math::SkipTerms;

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

// By one block: the layer's decision is taken here and never leaves the device.
template <class T>
__device__ void forward_step(const ChannelForwardStep<T>& p) {
  double* scratch = dynamic_shared<double>();  // one per warp
  const int thread = int(threadIdx.y * blockDim.x + threadIdx.x);
  SkipTerms layer;
  if (p.layer_decides()) {
    for (std::int64_t c = thread; c < p.columns; c += kMatrixThreads) layer.add(p.terms(c));
    layer = block_terms(layer, scratch);
  }
  double skipped = 0;
  for (std::int64_t c = thread; c < p.columns; c += kMatrixThreads)
    if (p.run(c, layer)) skipped = 1;
  skipped = block_max(skipped, scratch, 0.0);  // also the barrier behind which the counters may change
  if (thread == 0) p.finish(skipped > 0);
}
template <class T>
__global__ void __launch_bounds__(kMatrixThreads) forward_step_kernel(ChannelForwardStep<T> p) {
  forward_step(p);
}

template <class T>
struct ForwardStep {
  static constexpr bool kOfAllColumns = true;
  ChannelForwardStep<T> step;

  __device__ void of_column(std::int64_t) const {}
  __device__ void of_all_columns() const { forward_step(step); }
};

template <class T>
struct BackwardStep {
  static constexpr bool kOfAllColumns = false;
  ChannelBackwardStep<T> step;

  __device__ void of_column(std::int64_t c) const { step(c); }
};

template <class T>
struct Apply {
  ChannelApply<T> p;

  __device__ void operator()(std::int64_t i, std::int64_t c) const { p.y[i] = T(p.value(i, c)); }
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(p.y);
    visit.element(p.x);
    visit.column(p.gain);
    visit.column(p.mean);
    visit.column(p.beta);
  }
};

// kDirect: there is a dy.
template <class T, bool kDirect>
struct Gradient {
  ChannelGradient<T> p;

  __device__ void operator()(std::int64_t i, std::int64_t c) const { p.dx.put(i, p.of_row(0, i, c)); }
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(p.dx);
    visit.element(p.x);
    visit.column(p.mean);
    visit.column(p.of.offset);
    visit.column(p.of.x_factor);
    visit.row(p.mask);
    if (!kDirect) return;
    visit.element(p.dy);
    visit.column(p.of.dy_factor);
  }
};

}  // namespace

template <class T>
void channel_norm_cuda(const ChannelForward<T>& p) {
  moments_cuda(p.moments, ForwardStep<T>{p.step});
}
template <class T>
void channel_norm_cuda(const ChannelForwardStep<T>& p) {
  const Grid one_block{dim3(1), dim3(kMatrixThreads), kMatrixThreads / kWarp * sizeof(double)};
  launch("channel_norm forward step", forward_step_kernel<T>, one_block, p);
}
template <class T>
void channel_norm_cuda(const ChannelApply<T>& p) {
  matrix_cuda<kPackSize<T>>("channel_norm forward", p.rows, p.columns, Apply<T>{p});
}
template <class T>
void channel_norm_cuda(const ChannelSums<T>& p) {
  channel_sums_cuda("channel_norm backward sums", p);
}
template <class T>
void channel_norm_cuda(const ChannelBackward<T>& p) {
  channel_sums_cuda("channel_norm backward sums", p.sums, BackwardStep<T>{p.step});
}
template <class T>
void channel_norm_cuda(const ChannelGradient<T>& p) {
  constexpr int N = kPackSize<T>;
  if (p.dy)
    matrix_cuda<N>("channel_norm backward", p.rows, p.columns, Gradient<T, true>{p});
  else
    matrix_cuda<N>("channel_norm backward", p.rows, p.columns, Gradient<T, false>{p});
}
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelForward);
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelForwardStep);
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelApply);
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelSums);
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelBackward);
FOLDGRAD_INSTANTIATE(channel_norm_cuda, ChannelGradient);

}  // namespace foldgrad
