#include "ops/channel_norm/channel_statistics.h"

#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {
namespace {

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

}  // namespace

ChannelStatistics::ChannelStatistics(const Tensor& like, const Tensor& gamma, const Tensor* mask,
                                     const ChannelNormState& state, const ChannelNormOptions& options, bool training)
    : gamma_(gamma), state_(state), options_(options), training_(training) {
  check_operand("channel_norm", "gamma", gamma, {like.shape()[-1]}, like, "x");
  if (mask) check_operand("channel_norm", "mask", *mask, like.shape().without(-1), DType::u8, like, "x");
  check_options(options);
  check_state(state, options, like);
  if (mask && options.mask == StatisticMask::valid) mask_ = *mask;
}

void ChannelStatistics::begin(const Tensor& x) {
  if (x_.defined()) throw std::logic_error("channel_norm: statistics are taken once");
  x_ = x;
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const auto channels = [&](DType of) { return Tensor::empty(gamma_.shape(), of, x.device()); };
  if (training_) {
    storage_.emplace(x, mask_, options_.statistic == ChannelStatistic::variance);
    moments_ = storage_->moments;
  }
  gain_ = channels(dtype);
  context_ = {.mean = channels(dtype),
              .rstd = channels(dtype),
              .r = channels(dtype),
              .flags = channels(DType::u8),
              .iteration = Tensor::empty({}, DType::f64, x.device()),
              .positions = moments_.count};
}

template <class T>
ChannelForwardStep<T> ChannelStatistics::step() const {
  using S = compute_t<T>;
  return {.options = options_,
          .training = training_,
          .columns = gamma_.size(),
          .state = channel_buffers<S>(state_),
          .context = context_.view<S>(),
          .batch_mean = data_or_null<double>(moments_.mean),
          .batch_square = data_or_null<double>(moments_.square),
          .gamma = gamma_.data<T>(),
          .gain = gain_.data<S>()};
}

void ChannelStatistics::take(const Tensor& x) {
  begin(x);
  dispatch_floating("channel_norm", x.dtype(), [&]<class T>(Type<T>) {
    if (!training_) return FOLDGRAD_RUN(x.device(), channel_norm, step<T>());
    const ChannelForward<T> forward{storage_->pass<T>(), step<T>()};
    FOLDGRAD_RUN(x.device(), channel_norm, forward);
  });
}

}  // namespace foldgrad
