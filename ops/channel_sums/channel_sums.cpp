#include "ops/channel_sums/channel_sums.h"

#include "engine/dispatch.h"
#include "ops/channel_sums/channel_sums_kernels.h"

namespace foldgrad {
namespace {

Tensor doubles(Shape shape, const Tensor& x) { return Tensor::empty(std::move(shape), DType::f64, x.device()); }

// Merges the moments of all ranks, in rank order, by the formula of Chan, Golub and LeVeque.
void merge(ChannelMoments& moments, Communicator& communicator) {
  const std::size_t C = std::size_t(moments.mean.size()), each = 2 * C + 1;
  std::vector<double> own = moments.mean.values<double>();
  for (const double square : moments.square.values<double>()) own.push_back(square);
  own.push_back(double(moments.count));
  const std::vector<double> all = communicator.all_gather(std::span<const double>(own));
  const auto rows = [&](int r) { return all[std::size_t(r) * each + 2 * C]; };
  double count = 0;
  for (int r = 0; r < communicator.size(); ++r) count += rows(r);
  const auto mean_of = [&](std::size_t c, const auto& term) {
    double sum = 0;
    for (int r = 0; r < communicator.size(); ++r) {
      const double* of = all.data() + std::size_t(r) * each + c;
      if (rows(r) > 0) sum += rows(r) * term(of[0], of[C]);
    }
    return sum / count;
  };
  moments.count = std::int64_t(count);
  if (count == 0) return;
  std::vector<double> means(C), squares(C);
  for (std::size_t c = 0; c < C; ++c) {
    const double mean = means[c] = mean_of(c, [](double own_mean, double) { return own_mean; });
    squares[c] =
        mean_of(c, [mean](double own_mean, double square) { return square + (own_mean - mean) * (own_mean - mean); });
  }
  moments.mean = Tensor::of(moments.mean.shape(), means, moments.mean.device());
  moments.square = Tensor::of(moments.mean.shape(), squares, moments.mean.device());
}

}  // namespace

ChannelMoments channel_moments(const Tensor& x, bool with_mean, Communicator* communicator) {
  const std::int64_t C = x.shape()[-1];
  ChannelMoments moments{doubles({C}, x), doubles({C}, x), rows_of(x)};
  const Tensor partials = doubles({channel_blocks(rows_of(x)), with_mean ? 2 : 1, C}, x);
  dispatch_floating("channel_moments", x.dtype(), [&]<class T>(Type<T>) {
    const auto run = [&]<class Pass>(Type<Pass>) {
      const Pass pass{.x = x.data<T>(),
                      .rows = rows_of(x),
                      .columns = C,
                      .partials = partials.data<double>(),
                      .mean = moments.mean.data<double>(),
                      .square = moments.square.data<double>()};
      FOLDGRAD_RUN(x.device(), channel_sums, pass);
    };
    with_mean ? run(Type<ChannelVariancePass<T>>()) : run(Type<ChannelSquaresPass<T>>());
  });
  if (communicator) merge(moments, *communicator);
  return moments;
}

std::int64_t counted_rows(const char* op, const Tensor& x, std::optional<std::int64_t> counted,
                          Communicator* communicator) {
  const std::int64_t rows = rows_of(x), n = counted.value_or(rows);
  FOLDGRAD_CHECK(n >= 0 && n <= rows, "{}: counted must be in [0, {}], since x has {} rows, got {}", op, rows, rows, n);
  FOLDGRAD_CHECK(!communicator || n == rows, "{}: on several ranks, all rows must be counted, got {} of {}", op, n,
                 rows);
  return n;
}

void check_state(const char* op, const NamedTensors& state, const NamedTensors& wanted, const Tensor& x) {
  for (const auto& [name, tensor] : wanted) {
    const auto found = state.find(name);
    check_operand(op, ("state." + name).c_str(), found == state.end() ? Tensor() : found->second, tensor.shape(),
                  tensor.dtype(), x, "x");
  }
}

Tensor first_rows(const Tensor& x, std::int64_t n) { return x.reshape({rows_of(x), x.shape()[-1]}).slice(0, n); }

ChannelGradientSums channel_gradient_sums(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                          Communicator* communicator) {
  const std::int64_t C = x.shape()[-1];
  const Tensor both = doubles({2, C}, x);
  const ChannelGradientSums sums{both.slice(0, 1).reshape({C}), both.slice(1, 2).reshape({C})};
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
  if (communicator) communicator->all_reduce_sum(both);
  return sums;
}

}  // namespace foldgrad
