#include "ops/channel_norm/channel_norm.h"

#include <optional>

#include "ops/channel_norm/channel_moments_storage.h"
#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {
namespace {

template <class S>
ChannelBuffers<S> buffers(const ChannelNormState& s) {
  return {.run_mean = data_or_null<S>(s.run_mean),
          .run_var = data_or_null<S>(s.run_var),
          .psi_ema = data_or_null<S>(s.psi_ema),
          .win_sq = data_or_null<S>(s.win_sq),
          .win_g = data_or_null<S>(s.win_g),
          .iters = s.iters.data<std::int64_t>(),
          .skips = s.skips.data<std::int64_t>()};
}

// The storage of a ChannelContext.
struct SavedContext {
  Tensor mean, rstd, r, flags, iteration, positions;

  SavedContext(std::int64_t C, DType dtype, Device device, const Tensor& positions)
      : mean(Tensor::empty({C}, dtype, device)),
        rstd(Tensor::empty({C}, dtype, device)),
        r(Tensor::empty({C}, dtype, device)),
        flags(Tensor::empty({C}, DType::u8, device)),
        iteration(Tensor::empty({}, DType::f64, device)),
        positions(positions) {}
  template <class S>
  ChannelContext<S> view() const {
    return {.mean = mean.data<S>(),
            .rstd = rstd.data<S>(),
            .r = r.data<S>(),
            .flags = flags.data<std::uint8_t>(),
            .iteration = iteration.data<double>(),
            .positions = data_or_null<double>(positions)};
  }
};

struct ChannelNormNode {
  Tensor x, gamma, mask;
  SavedContext context;
  ChannelNormState state;
  ChannelNormOptions options;
  bool training;
  std::shared_ptr<ChannelRecord> record;  // may be null

  const char* name() const { return "channel_norm"; }
  std::vector<double> arguments() const { return {double(training)}; }

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
                                      .state = buffers<S>(state),
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
    if (!grads.wanted(0)) return;
    const ChannelGradient<T> gradient{
        .dx = grads.out<T>(0),
        .dy = grads.dy().data<T>(),
        .x = x.data<T>(),
        .mean = context.mean.data<S>(),
        .of = step.dx,
        .mask = options.form == ChannelForm::paper ? data_or_null<std::uint8_t>(mask) : nullptr,
        .rows = R,
        .columns = C};
    FOLDGRAD_RUN(x.device(), channel_norm, gradient);
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

// Compares with what create() would make, whose shapes and dtypes are thus said once.
void check_state(const ChannelNormState& state, const ChannelNormOptions& options, const Tensor& x) {
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const ChannelNormState want = ChannelNormState::create(options, x.shape()[-1], dtype);
  const auto have = state.named();
  for (const auto& [name, tensor] : want.named()) {
    const auto found = have.find(name);
    check_operand("channel_norm", ("state." + name).c_str(), found == have.end() ? Tensor() : found->second,
                  tensor.shape(), tensor.dtype(), x, "x");
  }
}

// Behind the statistics of the batch, where they are wanted.
template <class T>
void run_step([[maybe_unused]] Device device, const std::optional<ChannelMomentsStorage>& statistics,
              const ChannelForwardStep<T>& step) {
  if (!statistics) return FOLDGRAD_RUN(device, channel_norm, step);
  const ChannelForward<T> forward{statistics->pass<T>(), step};
  FOLDGRAD_RUN(device, channel_norm, forward);
}

}  // namespace

Var channel_norm(const Var& xv, const Var& gammav, const Var& betav, const Tensor* mask, const ChannelNormState& state,
                 const ChannelNormOptions& options, bool training, std::shared_ptr<ChannelRecord> record) {
  const Tensor &x = xv.value(), &gamma = gammav.value(), &beta = betav.value();
  check_floating("channel_norm", "x", x, 1);
  const std::int64_t C = x.shape()[-1], R = C ? x.size() / C : 0;
  check_operand("channel_norm", "gamma", gamma, {C}, x, "x");
  check_operand("channel_norm", "beta", beta, {C}, x, "x");
  if (mask) check_operand("channel_norm", "mask", *mask, x.shape().without(-1), DType::u8, x, "x");
  check_options(options);
  check_state(state, options, x);

  const Tensor real = mask && options.mask == StatisticMask::valid ? *mask : Tensor();
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  std::optional<ChannelMomentsStorage> statistics;
  if (training) statistics.emplace(x, real, options.statistic == ChannelStatistic::variance);
  const ChannelMoments moments = training ? statistics->moments : ChannelMoments();
  return dispatch_floating("channel_norm", x.dtype(), [&]<class T>(Type<T>) {
    using S = compute_t<T>;
    const SavedContext context(C, dtype_of<S>, x.device(), moments.count);
    const Tensor gain = Tensor::empty({C}, dtype_of<S>, x.device());
    const ChannelForwardStep<T> step{.options = options,
                                     .training = training,
                                     .columns = C,
                                     .state = buffers<S>(state),
                                     .context = context.view<S>(),
                                     .batch_mean = data_or_null<double>(moments.mean),
                                     .batch_square = data_or_null<double>(moments.square),
                                     .gamma = gamma.data<T>(),
                                     .gain = gain.data<S>()};
    run_step(x.device(), statistics, step);
    const ChannelApply<T> apply{.y = y.data<T>(),
                                .x = x.data<T>(),
                                .beta = beta.data<T>(),
                                .mean = context.mean.data<S>(),
                                .gain = gain.data<S>(),
                                .rows = R,
                                .columns = C};
    FOLDGRAD_RUN(x.device(), channel_norm, apply);
    if (record) {
      record->moments = moments;
      record->rstd = context.rstd;
      record->flags = context.flags;
      record->iteration = context.iteration;
      record->options = options;
    }
    return xv.tape().record(y, {xv, gammav, betav},
                            ChannelNormNode{.x = x,
                                            .gamma = gamma,
                                            .mask = real,
                                            .context = context,
                                            .state = state,
                                            .options = options,
                                            .training = training,
                                            .record = record});
  });
}

}  // namespace foldgrad
