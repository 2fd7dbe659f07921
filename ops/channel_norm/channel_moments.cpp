#include "ops/channel_norm/channel_moments.h"

#include "engine/dispatch.h"
#include "ops/channel_norm/channel_moments_storage.h"

namespace foldgrad {

ChannelMomentsStorage::ChannelMomentsStorage(const Tensor& x, const Tensor& mask, bool with_mean)
    : x_(x), mask_(mask), with_mean_(with_mean) {
  const std::int64_t C = x.shape()[-1], blocks = channel_blocks(rows());
  const auto empty = [&](Shape shape) { return Tensor::empty(shape, DType::f64, x.device()); };
  partials_ = empty({blocks, 2, C});
  counts_ = empty({(C + kCountColumns - 1) / kCountColumns, blocks});
  moments = {empty({C}), empty({C}), empty({})};
}

ChannelMoments channel_moments(const Tensor& x, const Tensor& mask, bool with_mean) {
  const ChannelMomentsStorage storage(x, mask, with_mean);
  dispatch_floating("channel_moments", x.dtype(), [&]<class T>(Type<T>) {
    const ChannelMomentsPass<T> pass = storage.pass<T>();
    FOLDGRAD_RUN(x.device(), channel_moments, pass);
  });
  return storage.moments;
}

}  // namespace foldgrad
