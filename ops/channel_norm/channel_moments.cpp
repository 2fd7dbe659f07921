#include "ops/channel_norm/channel_moments.h"

#include "engine/dispatch.h"
#include "ops/channel_norm/channel_moments_kernels.h"

namespace foldgrad {

ChannelMoments channel_moments(const Tensor& x, const Tensor& mask, bool with_mean) {
  const Device device = x.device();
  const std::int64_t C = x.shape()[-1], R = C ? x.size() / C : 0;
  const Tensor partials = Tensor::empty({channel_blocks(R), 2, C}, DType::f64, device),
               counts = Tensor::empty({channel_blocks(R)}, DType::f64, device);
  const ChannelMoments moments{Tensor::empty({C}, DType::f64, device), Tensor::empty({C}, DType::f64, device),
                               Tensor::empty({}, DType::f64, device)};
  dispatch_floating("channel_moments", x.dtype(), [&]<class T>(Type<T>) {
    const ChannelMomentsPass<T> pass{.x = x.data<T>(),
                                     .mask = data_or_null<std::uint8_t>(mask),
                                     .rows = R,
                                     .columns = C,
                                     .with_mean = with_mean,
                                     .partials = partials.data<double>(),
                                     .counts = counts.data<double>(),
                                     .mean = moments.mean.data<double>(),
                                     .square = moments.square.data<double>(),
                                     .count = moments.count.data<double>()};
    FOLDGRAD_RUN(device, channel_moments, pass);
  });
  return moments;
}

}  // namespace foldgrad
