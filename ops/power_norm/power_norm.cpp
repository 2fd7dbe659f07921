#include "ops/power_norm/power_norm.h"

#include "engine/cpu/elementwise.h"
#include "engine/graph/channel_map.h"
#include "engine/graph/description.h"
#include "engine/node_grads.h"
#include "ops/channel_sums/channel_sums.h"
#include "ops/power_norm/power_norm_kernels.h"
#include "ops/reshape/reshape.h"
#include "ops/rms_norm/rms_norm.h"

namespace foldgrad {
namespace {

struct PowerNormNode {
  Tensor x, gamma, zeros, rstd, rstd_q;  // `zeros` is passed as the means, since no mean is subtracted
  Tensor square;                         // mean square of all rows; undefined if not training
  std::int64_t counted;                  // number of rows in the statistics; 0 if not training
  PowerNormState state;
  double alpha;
  Communicator* communicator;  // null if x has all rows

  const char* name() const { return "power_norm"; }
  bool training() const { return square.defined(); }
  void describe(Description& d) const { d.training = training(); }

  // Differentiates power_norm [PN-1]: computes dx, dgamma and dbeta [PN-3].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using S = compute_t<T>;
      const std::int64_t C = gamma.size(), R = x.shape().without(-1).elements();
      const ChannelGradientSums sums = channel_gradient_sums(grads.dy(), x, zeros, communicator);
      const Tensor dy_factor = per_channel(x), x_factor = per_channel(x);
      const PowerNormBackwardStep<T> step{.training = training(),
                                          .alpha = alpha,
                                          .rows = communicator ? counted : R,
                                          .n = C,
                                          .share = communicator ? 1.0 / communicator->size() : 1,
                                          .counted = counted,
                                          .sum_dy = sums.dy.data<double>(),
                                          .sum_dy_x = sums.dy_x.data<double>(),
                                          .square = data_or_null<double>(square),
                                          .gamma = gamma.data<T>(),
                                          .rstd = rstd.data<S>(),
                                          .rstd_q = rstd_q.data<S>(),
                                          .nu_ema = state.nu_ema.data<S>(),
                                          .dgamma = grads.out<compute_t<T>>(1),
                                          .dbeta = grads.out<compute_t<T>>(2),
                                          .factors = {dy_factor.data<S>(), zeros.data<S>(), x_factor.data<S>()}};
      FOLDGRAD_RUN(x.device(), elementwise, step);
      if (!grads.wanted(0)) return;
      const ChannelGradient<T> gradient{.dx = grads.out<T>(0),
                                        .dy = grads.dy().data<T>(),
                                        .x = x.data<T>(),
                                        .mean = zeros.data<S>(),
                                        .factors = step.factors,
                                        .corrects = true,  // [PN-3]
                                        .rows = R,
                                        .columns = C};
      FOLDGRAD_RUN(x.device(), matrix, gradient);
    });
  }
};

void check_options(const PowerNormOptions& o) {
  FOLDGRAD_CHECK(o.eps >= 0, "power_norm: eps must not be negative, got {}", o.eps);
  for (double alpha : {o.alpha_forward, o.alpha_backward})
    FOLDGRAD_CHECK(alpha >= 0 && alpha <= 1, "power_norm: alpha must be in [0, 1], got {}", alpha);
}

// Mean squares of a training pass.
struct Squares {
  Tensor counted = {}, all = {};  // of the rows in the statistics, and of all rows
  std::int64_t count = 0;
};

// Returns the mean squares of x, whose first n rows are in the statistics, and counts the iteration.
Squares squares_of(const Tensor& x, std::int64_t n, const PowerNormState& state, Communicator* communicator) {
  const ChannelMoments moments = channel_moments(first_rows(x, n), /*with_mean=*/false, communicator);
  const PowerNormCount count{state.iters.data<std::int64_t>(), state.skips.data<std::int64_t>(), moments.count};
  FOLDGRAD_RUN(x.device(), elementwise, count);
  const bool whole = n == rows_of(x);
  return {moments.square, whole ? moments.square : channel_moments(x, /*with_mean=*/false).square, moments.count};
}

}  // namespace

PowerNormState PowerNormState::create(std::int64_t channels, DType dtype, Device device) {
  FOLDGRAD_CHECK(dtype == DType::f32 || dtype == DType::f64, "power_norm: state must be f32 or f64, got {}",
                 name(dtype));
  return {.phi = Tensor::full({channels}, 1, dtype, device),
          .nu_ema = Tensor::zeros({channels}, dtype, device),
          .iters = Tensor::zeros({}, DType::i64, device),
          .skips = Tensor::zeros({}, DType::i64, device)};
}

NamedTensors PowerNormState::named() const {
  return {{"phi", phi}, {"nu_ema", nu_ema}, {"iters", iters}, {"skips", skips}};
}

Var power_norm(const Var& xv, const Var& gammav, const Var& betav, const PowerNormState& state,
               const PowerNormOptions& options, const ChannelPass& pass) {
  const Tensor &x = xv.value(), &gamma = gammav.value(), &beta = betav.value();
  const Device device = x.device();
  const std::int64_t C = check_channels("power_norm", x, gamma, beta), R = x.shape().without(-1).elements();
  check_options(options);
  check_state("power_norm", state.named(), PowerNormState::create(C, statistics_dtype(x)).named(), x);

  Communicator* const communicator = pass.training ? pass.communicator : nullptr;
  const std::int64_t n = counted_rows("power_norm", x, pass.counted, communicator);
  const Squares squares = pass.training ? squares_of(x, n, state, communicator) : Squares();
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  return dispatch_floating("power_norm", x.dtype(), [&]<class T>(Type<T>) {
    using S = compute_t<T>;
    const Tensor zeros = Tensor::zeros({C}, dtype_of<S>, device), rstd = per_channel(x), rstd_q = per_channel(x),
                 gain = per_channel(x);
    const PowerNormForwardStep<T> step{.n = C,
                                       .warmup = double(options.warmup),
                                       .alpha = options.alpha_forward,
                                       .eps = options.eps,
                                       .iters = state.iters.data<std::int64_t>(),
                                       .square = data_or_null<double>(squares.counted),
                                       .counted = squares.count,
                                       .gamma = gamma.data<T>(),
                                       .phi = state.phi.data<S>(),
                                       .rstd = rstd.data<S>(),
                                       .rstd_q = rstd_q.data<S>(),
                                       .gain = gain.data<S>()};
    FOLDGRAD_RUN(device, elementwise, step);
    const ChannelApply<T> apply{.y = y.data<T>(),
                                .x = x.data<T>(),
                                .beta = beta.data<T>(),
                                .mean = zeros.data<S>(),
                                .gain = gain.data<S>(),
                                .rows = R,
                                .columns = C};
    FOLDGRAD_RUN(device, matrix, apply);
    return xv.tape().record(y, {xv, gammav, betav},
                            PowerNormNode{.x = x,
                                          .gamma = gamma,
                                          .zeros = zeros,
                                          .rstd = rstd,
                                          .rstd_q = rstd_q,
                                          .square = squares.all,
                                          .counted = squares.count,
                                          .state = state,
                                          .alpha = options.alpha_backward,
                                          .communicator = communicator});
  });
}

Var group_rms(const Var& x, std::int64_t groups, double eps) {
  check_floating("group_rms", "x", x.value(), 1);
  const std::int64_t C = x.shape()[-1];
  FOLDGRAD_CHECK(groups >= 1 && C % groups == 0, "group_rms: groups must divide the number of channels, {}, got {}", C,
                 groups);
  const Var one = x.tape().constant(Tensor::full({C / groups}, 1, x.dtype(), x.device()));
  const Var grouped = reshape(x, {x.shape().without(-1).elements() * groups, C / groups});
  return reshape(rms_norm(grouped, one, eps), x.shape().sizes());  // [PN-4]
}

AffineMap power_norm_affine(const PowerNormState& state, const Tensor& gamma, const Tensor& beta,
                            const PowerNormOptions& options) {
  ChannelNormState running;
  running.run_var = state.phi;
  ChannelNormOptions root;
  root.eps = options.eps;
  return channel_affine(running, gamma, beta, root);
}

}  // namespace foldgrad
