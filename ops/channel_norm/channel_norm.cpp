#include "ops/channel_norm/channel_norm.h"

#include "engine/graph/description.h"
#include "ops/channel_norm/channel_norm_kernels.h"
#include "ops/channel_norm/channel_statistics.h"

namespace foldgrad {
namespace {

struct ChannelNormNode {
  Tensor x, gamma, mask;
  ChannelStatistics::Context context;
  ChannelNormState state;
  ChannelNormOptions options;
  bool training;
  std::shared_ptr<ChannelRecord> record;  // may be null

  const char* name() const { return "channel_norm"; }
  void describe(Description& d) const { d.training = training; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) { run<T>(grads); });
  }

 private:
  template <class T>
  void run(NodeGrads& grads) {
    using S = compute_t<T>;
    const std::int64_t C = gamma.size(), R = C ? x.size() / C : 0;
    const auto channels = [&](DType dtype) { return Tensor::empty({C}, dtype, x.device()); };
    const Tensor sum_dy = channels(DType::f64), sum_dy_x = channels(DType::f64);
    const Tensor partials = Tensor::empty({channel_blocks(R), ChannelSums<T>::kSums, C}, DType::f64, x.device());
    const ChannelSums<T> column_sums{.dy = grads.dy().data<T>(),
                                     .x = x.data<T>(),
                                     .mean = context.mean.data<S>(),
                                     .rows = R,
                                     .columns = C,
                                     .partials = partials.data<double>(),
                                     .sums = {sum_dy.data<double>(), sum_dy_x.data<double>()}};
    const Tensor dy_factor = channels(dtype_of<S>), offset = channels(dtype_of<S>), x_factor = channels(dtype_of<S>);
    const ChannelBackwardStep<T> step{.options = options,
                                      .training = training,
                                      .rows = R,
                                      .columns = C,
                                      .state = channel_buffers<S>(state),
                                      .context = context.view<S>(),
                                      .sum_dy = sum_dy.data<double>(),
                                      .sum_dy_x = sum_dy_x.data<double>(),
                                      .gamma = gamma.data<T>(),
                                      .dgamma = grads.exact_out<T>(1),
                                      .dbeta = grads.exact_out<T>(2),
                                      .dx = {dy_factor.data<S>(), offset.data<S>(), x_factor.data<S>()}};
    const ChannelBackward<T> statistics{column_sums, step};
    FOLDGRAD_RUN(x.device(), channel_norm, statistics);
    if (record) {
      record->gradient_sum = sum_dy_x;
      record->gain = gamma.clone();  // which the optimizer changes in its place
      record->x_factor = x_factor;
      if (options.form == ChannelForm::paper && options.statistic == ChannelStatistic::mean_square)
        record->gradient = channel_moments(grads.dy(), mask, /*with_mean=*/false);
    }
    const auto [dx, mode] = grads.place(0);
    if (!dx.defined()) return;
    const Tensor corrected = options.form == ChannelForm::paper ? mask : Tensor();
    const ChannelGradient<T> gradient{.dx = {dx.data<T>(), mode},
                                      .dy = grads.dy().data<T>(),
                                      .x = x.data<T>(),
                                      .mean = context.mean.data<S>(),
                                      .of = step.dx,
                                      .mask = data_or_null<std::uint8_t>(corrected),
                                      .rows = R,
                                      .columns = C};
    FOLDGRAD_RUN(x.device(), channel_norm, gradient);
  }
};

}  // namespace

Var channel_norm(const Var& xv, const Var& gammav, const Var& betav, const Tensor* mask, const ChannelNormState& state,
                 const ChannelNormOptions& options, bool training, std::shared_ptr<ChannelRecord> record) {
  const Tensor &x = xv.value(), &gamma = gammav.value(), &beta = betav.value();
  check_floating("channel_norm", "x", x, 1);
  const std::int64_t C = x.shape()[-1], R = C ? x.size() / C : 0;
  ChannelStatistics statistics(x, gamma, mask, state, options, training);
  check_operand("channel_norm", "beta", beta, {C}, x, "x");
  statistics.take(x);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating("channel_norm", x.dtype(), [&]<class T>(Type<T>) {
    using S = compute_t<T>;
    const ChannelApply<T> apply{.y = y.data<T>(),
                                .x = x.data<T>(),
                                .beta = beta.data<T>(),
                                .mean = statistics.context().mean.data<S>(),
                                .gain = statistics.gain().data<S>(),
                                .rows = R,
                                .columns = C};
    FOLDGRAD_RUN(x.device(), channel_norm, apply);
  });
  if (record) {
    record->moments = statistics.moments();
    record->rstd = statistics.context().rstd;
    record->flags = statistics.context().flags;
    record->iteration = statistics.context().iteration;
    record->options = options;
  }
  return xv.tape().record(y, {xv, gammav, betav},
                          ChannelNormNode{.x = x,
                                          .gamma = gamma,
                                          .mask = statistics.mask(),
                                          .context = statistics.context(),
                                          .state = state,
                                          .options = options,
                                          .training = training,
                                          .record = record});
}

}  // namespace foldgrad
