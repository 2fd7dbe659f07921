#include "ops/channel_norm/channel_record.h"

#include <algorithm>

#include "ops/channel_norm/channel_norm_kernels.h"
#include "ops/channel_norm/channel_norm_math.h"

namespace foldgrad {
namespace {

struct WatchNode {
  Tensor y, offset;
  std::shared_ptr<ChannelRecord> record;

  const char* name() const { return "watch_channels"; }
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), y.dtype(), [&]<class T>(Type<T>) { run<T>(grads.dy()); });
    grads.pass_dy(0);
  }

 private:
  template <class T>
  void run(const Tensor& dy) {
    const std::int64_t C = offset.size(), R = C ? y.size() / C : 0;
    const Tensor sum_dy = Tensor::empty({C}, DType::f64, y.device()),
                 partials = Tensor::empty({channel_blocks(R), ChannelSums<T>::kSums, C}, DType::f64, y.device());
    record->gradient_sum = Tensor::empty({C}, DType::f64, y.device());
    const ChannelSums<T> sums{.dy = dy.data<T>(),
                              .x = y.data<T>(),
                              .mean = offset.data<compute_t<T>>(),
                              .rows = R,
                              .columns = C,
                              .partials = partials.data<double>(),
                              .sums = {sum_dy.data<double>(), record->gradient_sum.data<double>()}};
    FOLDGRAD_RUN(y.device(), channel_norm, sums);
  }
};

// d var_hat / d q of one channel, by channel_norm_forward.h.
double slope_of(const ChannelNormOptions& o, bool averaged, std::uint8_t flags, double q, double var_hat) {
  using Context = ChannelContext<double>;
  if (flags & (Context::kHeld | Context::kConstant)) return 0;
  if (flags & Context::kSkip || !averaged) return 1;
  const auto M = double(o.window_forward);
  switch (o.forward) {
    case ForwardAverage::none:
      break;
    case ForwardAverage::arithmetic:
      return 1 / M;
    case ForwardAverage::geometric:
      return q > channel_norm_math::least_entry(o) ? var_hat / (M * q) : 0;
    case ForwardAverage::exponential:
      return 1 - o.alpha_forward;
  }
  return 1;
}

std::vector<double> on_host(const Tensor& t) {
  if (!t.defined()) return {};
  return t.to(Device::cpu).to(DType::f64).values<double>();
}

}  // namespace

Var watch_channels(const Var& y, const Tensor& offset, std::shared_ptr<ChannelRecord> record) {
  check_floating("watch_channels", "y", y.value(), 1);
  const DType dtype = y.dtype() == DType::f64 ? DType::f64 : DType::f32;
  check_operand("watch_channels", "offset", offset, {y.shape()[-1]}, dtype, y.value(), "y");
  return y.tape().record(y.value(), {y}, WatchNode{y.value(), offset, std::move(record)});
}

ChannelValues channel_values(const ChannelRecord& record) {
  const std::vector<double> mean = on_host(record.moments.mean), sum = on_host(record.gradient_sum),
                            gain = on_host(record.gain), rstd = on_host(record.rstd), factor = on_host(record.x_factor);
  const double n = record.moments.count.item();
  ChannelValues values;
  values.q = on_host(record.moments.square);
  values.G = sum;
  for (std::size_t c = 0; c < values.q.size(); ++c) values.q[c] += mean[c] * mean[c];
  for (std::size_t c = 0; c < sum.size(); ++c) values.G[c] = sum[c] / n * (gain.empty() ? 1 : gain[c] * rstd[c]);
  const double eps = record.options.clamped_variance ? 0 : record.options.eps;
  for (const double r : rstd) values.var_hat.push_back(std::max(1 / (r * r) - eps, 0.0));
  for (std::size_t c = 0; c < factor.size(); ++c) values.psi.push_back(factor[c] / (rstd[c] * rstd[c]));
  if (record.flags.defined()) values.flags = record.flags.values<std::uint8_t>();
  if (!record.gradient.square.defined()) return values;
  values.averaged = record.options.forward != ForwardAverage::none &&
                    channel_norm_math::active(record.options, record.iteration.item());
  values.rstd = rstd;
  values.h_square = on_host(record.gradient.square);
  for (std::size_t c = 0; c < gain.size(); ++c) {
    values.h_square[c] *= gain[c] * gain[c];
    values.slope.push_back(slope_of(record.options, values.averaged, values.flags[c], values.q[c], values.var_hat[c]));
  }
  return values;
}

}  // namespace foldgrad
