// What the pass over x that gives its moments needs, for operations that go on with them in the same kernel.
#pragma once
#include "ops/channel_norm/channel_moments.h"
#include "ops/channel_norm/channel_moments_kernels.h"

namespace foldgrad {

class ChannelMomentsStorage {
 public:
  ChannelMoments moments;

  // As channel_moments().
  ChannelMomentsStorage(const Tensor& x, const Tensor& mask, bool with_mean);

  template <class T>
  ChannelMomentsPass<T> pass() const {
    return {.x = x_.data<T>(),
            .mask = data_or_null<std::uint8_t>(mask_),
            .rows = rows(),
            .columns = x_.shape()[-1],
            .with_mean = with_mean_,
            .partials = partials_.data<double>(),
            .counts = counts_.data<double>(),
            .mean = moments.mean.data<double>(),
            .square = moments.square.data<double>(),
            .count = moments.count.data<double>()};
  }

 private:
  std::int64_t rows() const { return x_.shape()[-1] ? x_.size() / x_.shape()[-1] : 0; }

  Tensor x_, mask_, partials_, counts_;
  bool with_mean_;
};

}  // namespace foldgrad
