#include "ops/channel_norm/channel_norm.h"

#include "engine/cpu/elementwise.h"
#include "engine/graph/description.h"
#include "engine/node_grads.h"
#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {
namespace {

template <class S>
ChannelBuffers<S> buffers_of(const ChannelNormState& s) {
  return {.run_mean = data_or_null<S>(s.run_mean),
          .run_var = data_or_null<S>(s.run_var),
          .psi_ema = data_or_null<S>(s.psi_ema),
          .win_sq = data_or_null<S>(s.win_sq),
          .win_g = data_or_null<S>(s.win_g),
          .iters = s.iters.data<std::int64_t>(),
          .skips = s.skips.data<std::int64_t>(),
          .skips_in_a_row = data_or_null<std::int64_t>(s.skips_in_a_row)};
}

// The tensors of a saved ChannelContext.
struct Context {
  Tensor mean, rstd, r, flags, iteration;
  std::int64_t counted;

  Context(const Tensor& x, std::int64_t counted)
      : mean(per_channel(x)),
        rstd(per_channel(x)),
        r(per_channel(x)),
        flags(Tensor::empty(mean.shape(), DType::u8, x.device())),
        iteration(Tensor::empty({}, DType::f64, x.device())),
        counted(counted) {}
  template <class S>
  ChannelContext<S> view() const {
    return {.mean = mean.data<S>(),
            .rstd = rstd.data<S>(),
            .r = r.data<S>(),
            .flags = flags.data<std::uint8_t>(),
            .iteration = iteration.data<double>(),
            .counted = counted};
  }
};

struct ChannelNormNode {
  Tensor x, gamma;
  Context context;
  ChannelNormState state;
  ChannelNormOptions options;
  bool training;
  std::shared_ptr<ChannelRecord> record;  // may be null
  Communicator* communicator;             // null if x has all rows

  const char* name() const { return "channel_norm"; }
  void describe(Description& d) const { d.training = training; }

  // Differentiates channel_norm [UN-16, UN-1]: computes dgamma, dbeta and G [CN-3], psi [UN-17] and dx [CN-2]. With a
  // mean, dx is [BN-2]; with a clamped variance, psi is [RBN-1].
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    const ChannelGradientSums sums = channel_gradient_sums(dy, x, context.mean, communicator);
    const Tensor dy_factor = per_channel(x), offset = per_channel(x), x_factor = per_channel(x);
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using S = compute_t<T>;
      const ChannelCoefficients<S> factors{dy_factor.data<S>(), offset.data<S>(), x_factor.data<S>()};
      take_step<T>(grads, sums, factors);
      if (grads.wanted(0)) write_dx<T>(grads, factors);
    });
    if (record) complete(*record, dy, sums, x_factor);
  }

 private:
  template <class T>
  void take_step(NodeGrads& grads, const ChannelGradientSums& sums, const ChannelCoefficients<compute_t<T>>& factors) {
    using S = compute_t<T>;
    const ChannelBackward<T> step{.options = options,
                                  .training = training,
                                  .rows = communicator ? context.counted : rows_of(x),
                                  .n = x.shape()[-1],
                                  .share = communicator ? 1.0 / communicator->size() : 1,
                                  .state = buffers_of<S>(state),
                                  .context = context.view<S>(),
                                  .sum_dy = sums.dy.data<double>(),
                                  .sum_dy_x = sums.dy_x.data<double>(),
                                  .gamma = gamma.data<T>(),
                                  .dgamma = grads.out<compute_t<T>>(1),
                                  .dbeta = grads.out<compute_t<T>>(2),
                                  .factors = factors};
    FOLDGRAD_RUN(x.device(), elementwise, step);
  }

  template <class T>
  void write_dx(NodeGrads& grads, const ChannelCoefficients<compute_t<T>>& factors) {
    const std::int64_t C = x.shape()[-1], rows = rows_of(x);
    const GradOut<T> dx = grads.out<T>(0);
    const auto write = [&](std::int64_t begin, std::int64_t end, bool corrects) {
      const ChannelGradient<T> gradient{.dx = {dx.data + begin * C, dx.mode},
                                        .dy = grads.dy().data<T>() + begin * C,
                                        .x = x.data<T>() + begin * C,
                                        .mean = context.mean.data<compute_t<T>>(),
                                        .factors = factors,
                                        .corrects = corrects,
                                        .rows = end - begin,
                                        .columns = C};
      FOLDGRAD_RUN(x.device(), matrix, gradient);
    };
    const bool some = options.form == ChannelForm::paper && !communicator;
    const std::int64_t corrected = some ? context.counted : rows;
    write(0, corrected, true);
    if (corrected < rows) write(corrected, rows, false);  // padding
  }

  void complete(ChannelRecord& to, const Tensor& dy, const ChannelGradientSums& sums, const Tensor& x_factor) const {
    to.gradient_sum = sums.dy_x;
    to.gain = gamma.clone();  // the optimizer changes gamma in place
    to.x_factor = x_factor;
    if (options.form == ChannelForm::paper && options.statistic == ChannelStatistic::mean_square)
      to.gradient =
          channel_moments(communicator ? dy : first_rows(dy, context.counted), /*with_mean=*/false, communicator);
  }
};

void check_options(const ChannelNormOptions& o) {
  using channel_norm_math::has_window;
  FOLDGRAD_CHECK(o.window_forward >= 1 && o.window_backward >= 1,
                 "channel_norm: windows must be at least 1, got {} forward and {} backward", o.window_forward,
                 o.window_backward);
  FOLDGRAD_CHECK(o.eps >= 0, "channel_norm: eps must not be negative, got {}", o.eps);
  for (double alpha : {o.alpha_forward, o.alpha_backward})
    FOLDGRAD_CHECK(alpha >= 0 && alpha <= 1, "channel_norm: alpha must be in [0, 1], got {}", alpha);
  FOLDGRAD_CHECK(o.ddof == 0 || o.ddof == 1, "channel_norm: ddof must be 0 or 1, got {}", o.ddof);
  FOLDGRAD_CHECK(o.statistic == ChannelStatistic::mean_square ||
                     (o.forward == ForwardAverage::none && o.backward == BackwardAverage::none),
                 "channel_norm: averages need the statistic mean_square, got variance");
  FOLDGRAD_CHECK(!o.filtration || has_window(o.forward),
                 "channel_norm: filtration needs a forward average over a window");
}

}  // namespace

Var channel_norm(const Var& xv, const Var& gammav, const Var& betav, const ChannelNormState& state,
                 const ChannelNormOptions& options, const ChannelPass& pass, std::shared_ptr<ChannelRecord> record) {
  const Tensor &x = xv.value(), &gamma = gammav.value(), &beta = betav.value();
  const std::int64_t C = check_channels("channel_norm", x, gamma, beta);
  check_options(options);
  const ChannelNormState wanted = ChannelNormState::create(options, C, statistics_dtype(x));
  check_state("channel_norm", state.named(), wanted.named(), x);

  const bool training = pass.training;
  Communicator* const communicator = training ? pass.communicator : nullptr;
  const std::int64_t n = counted_rows("channel_norm", x, pass.counted, communicator);
  ChannelMoments moments;
  if (training)
    moments = channel_moments(first_rows(x, n), options.statistic == ChannelStatistic::variance, communicator);
  const Context context(x, communicator ? moments.count : n);
  const Tensor gain = per_channel(x), y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating("channel_norm", x.dtype(), [&]<class T>(Type<T>) {
    using S = compute_t<T>;
    const ChannelForward<T> statistics{.options = options,
                                       .training = training,
                                       .columns = C,
                                       .state = buffers_of<S>(state),
                                       .context = context.view<S>(),
                                       .batch_mean = data_or_null<double>(moments.mean),
                                       .batch_square = data_or_null<double>(moments.square),
                                       .gamma = gamma.data<T>(),
                                       .gain = gain.data<S>()};
    FOLDGRAD_RUN(x.device(), channel_norm, statistics);
    const ChannelApply<T> apply{.y = y.data<T>(),
                                .x = x.data<T>(),
                                .beta = beta.data<T>(),
                                .mean = context.mean.data<S>(),
                                .gain = gain.data<S>(),
                                .rows = rows_of(x),
                                .columns = C};
    FOLDGRAD_RUN(x.device(), matrix, apply);
  });
  if (record) {  // for analyses
    record->moments = moments;
    record->rstd = context.rstd;
    record->flags = context.flags;
    record->iteration = context.iteration;
    record->options = options;
  }
  return xv.tape().record(y, {xv, gammav, betav},
                          ChannelNormNode{.x = x,
                                          .gamma = gamma,
                                          .context = context,
                                          .state = state,
                                          .options = options,
                                          .training = training,
                                          .record = record,
                                          .communicator = communicator});
}

}  // namespace foldgrad
