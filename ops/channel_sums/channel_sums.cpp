#include "ops/channel_sums/channel_sums.h"

#include "engine/dispatch.h"
#include "ops/channel_sums/channel_sums_kernels.h"

namespace foldgrad {
namespace {

Tensor doubles(Shape shape, const Tensor& x) { return Tensor::empty(std::move(shape), DType::f64, x.device()); }

}  // namespace

ChannelMoments channel_moments(const Tensor& x, bool with_mean) {
  const std::int64_t C = x.shape()[-1];
  const ChannelMoments moments{with_mean ? doubles({C}, x) : Tensor::zeros({C}, DType::f64, x.device()),
                               doubles({C}, x), rows_of(x)};
  const Tensor partials = doubles({channel_blocks(rows_of(x)), with_mean ? 2 : 1, C}, x);
  dispatch_floating("channel_moments", x.dtype(), [&]<class T>(Type<T>) {
    if (with_mean) {
      const ChannelVariancePass<T> pass{.x = x.data<T>(),
                                        .shift = x.data<T>(),
                                        .rows = rows_of(x),
                                        .columns = C,
                                        .partials = partials.data<double>(),
                                        .mean = moments.mean.data<double>(),
                                        .square = moments.square.data<double>()};
      FOLDGRAD_RUN(x.device(), channel_sums, pass);
    } else {
      const ChannelSquaresPass<T> pass{.x = x.data<T>(),
                                       .rows = rows_of(x),
                                       .columns = C,
                                       .partials = partials.data<double>(),
                                       .square = moments.square.data<double>()};
      FOLDGRAD_RUN(x.device(), channel_sums, pass);
    }
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
  const ChannelGradientSums sums{doubles({C}, x), doubles({C}, x)};
  const Tensor partials = doubles({channel_blocks(rows_of(x)), 2, C}, x);
  dispatch_floating("channel_gradient_sums", x.dtype(), [&]<class T>(Type<T>) {
    const ChannelGradientPass<T> pass{.dy = dy.data<T>(),
                                      .x = x.data<T>(),
                                      .mean = mean.data<compute_t<T>>(),
                                      .rows = rows_of(x),
                                      .columns = C,
                                      .partials = partials.data<double>(),
                                      .sum_dy = sums.dy.data<double>(),
                                      .sum_dy_x = sums.dy_x.data<double>()};
    FOLDGRAD_RUN(x.device(), channel_sums, pass);
  });
  return sums;
}

}  // namespace foldgrad
