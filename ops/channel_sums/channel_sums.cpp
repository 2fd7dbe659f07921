#include "ops/channel_sums/channel_sums.h"

#include "engine/dispatch.h"
#include "ops/channel_sums/channel_sums_kernels.h"

namespace foldgrad {
namespace {

std::int64_t rows_of(const Tensor& x) { return x.shape()[-1] ? x.size() / x.shape()[-1] : 0; }

}  // namespace

ChannelMoments channel_moments(const Tensor& x, bool with_mean) {
  const std::int64_t C = x.shape()[-1], blocks = channel_blocks(rows_of(x));
  const auto empty = [&](Shape shape) { return Tensor::empty(std::move(shape), DType::f64, x.device()); };
  const ChannelMoments moments{empty({C}), empty({C}), rows_of(x)};
  const Tensor partials = empty({blocks, 2, C});
  dispatch_floating("channel_moments", x.dtype(), [&]<class T>(Type<T>) {
    const ChannelMomentsPass<T> pass{.x = x.data<T>(),
                                     .rows = rows_of(x),
                                     .columns = C,
                                     .with_mean = with_mean,
                                     .partials = partials.data<double>(),
                                     .mean = moments.mean.data<double>(),
                                     .square = moments.square.data<double>()};
    FOLDGRAD_RUN(x.device(), channel_sums, pass);
  });
  return moments;
}

std::int64_t counted_rows(const char* op, const Tensor& x, std::optional<std::int64_t> counted) {
  const std::int64_t rows = rows_of(x), n = counted.value_or(rows);
  FOLDGRAD_CHECK(n >= 0 && n <= rows, "{}: counted must be in [0, {}], the rows of x, got {}", op, rows, n);
  return n;
}

Tensor first_rows(const Tensor& x, std::int64_t n) { return x.reshape({rows_of(x), x.shape()[-1]}).slice(0, n); }

ChannelGradientSums channel_gradient_sums(const Tensor& dy, const Tensor& x, const Tensor& mean) {
  const std::int64_t C = x.shape()[-1];
  const auto empty = [&](Shape shape) { return Tensor::empty(std::move(shape), DType::f64, x.device()); };
  const ChannelGradientSums sums{empty({C}), empty({C})};
  dispatch_floating("channel_gradient_sums", x.dtype(), [&]<class T>(Type<T>) {
    const Tensor partials = empty({channel_blocks(rows_of(x)), ChannelGradientPass<T>::kSums, C});
    const ChannelGradientPass<T> pass{.dy = dy.data<T>(),
                                      .x = x.data<T>(),
                                      .mean = mean.data<compute_t<T>>(),
                                      .rows = rows_of(x),
                                      .columns = C,
                                      .partials = partials.data<double>(),
                                      .sums = {sums.dy.data<double>(), sums.dy_x.data<double>()}};
    FOLDGRAD_RUN(x.device(), channel_sums, pass);
  });
  return sums;
}

}  // namespace foldgrad
