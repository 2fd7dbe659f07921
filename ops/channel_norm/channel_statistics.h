// The first half of a training pass of channel_norm: the statistics of x, and the step of the state that follows from
// them. Where bias_dropout_residual forms x, both can be done in the pass that writes it, and the last step of the
// backward pass in that operation's (late_channel_gradient.h): on CUDA in one kernel, with the same bits, so that x and
// its gradient are read once less and two launches are saved.
//
//   ChannelStatistics statistics(branch, gamma, mask, state, options);    // a tensor like x
//   const Var x = bias_dropout_residual(branch, bias, residual, p, random, path, &statistics);
//   const Var y = channel_norm(x, gamma, beta, mask, state, options, training, record, &statistics);
#pragma once
#include <memory>
#include <optional>

#include "ops/channel_norm/channel_moments_storage.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/channel_norm/channel_norm_forward.h"
#include "ops/channel_norm/late_channel_gradient.h"

namespace foldgrad {

class ChannelStatistics {
 public:
  // Of x of like's shape, dtype and device; the others as channel_norm() takes them. Throws std::invalid_argument for
  // what does not fit. `training` false: the state says all, nothing is taken.
  ChannelStatistics(const Tensor& like, const Tensor& gamma, const Tensor* mask, const ChannelNormState& state,
                    const ChannelNormOptions& options, bool training = true);

  // WRITES the state. Once; throws std::logic_error the second time.
  void take(const Tensor& x);
  // The same of an x that it forms, whose memory is that of sum.y.
  template <class T>
  void form_and_take(const BiasDropoutResidualForward<T>& sum, const Tensor& x);

  bool taken_of(const Tensor& x) const { return x_.defined() && x_.raw() == x.raw(); }
  const Tensor& mask() const { return mask_; }  // of the positions that count; undefined: all do
  const Tensor& gain() const { return gain_; }  // [C], gamma rstd
  const ChannelMoments& moments() const { return moments_; }

  // A ChannelContext, for the backward pass.
  struct Context {
    Tensor mean, rstd, r, flags, iteration, positions;

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
  const Context& context() const { return context_; }
  // Of an x that was formed here, for the nodes of both operations; otherwise null.
  const std::shared_ptr<LateChannelGradient>& late_gradient() const { return late_gradient_; }

 private:
  void begin(const Tensor& x);
  template <class T>
  ChannelForwardStep<T> step() const;

  Tensor gamma_, mask_, gain_, x_;
  ChannelNormState state_;
  ChannelNormOptions options_;
  bool training_;
  Context context_;
  ChannelMoments moments_;
  std::optional<ChannelMomentsStorage> storage_;
  std::shared_ptr<LateChannelGradient> late_gradient_;
};

template <class S>
ChannelBuffers<S> channel_buffers(const ChannelNormState& s) {
  return {.run_mean = data_or_null<S>(s.run_mean),
          .run_var = data_or_null<S>(s.run_var),
          .psi_ema = data_or_null<S>(s.psi_ema),
          .win_sq = data_or_null<S>(s.win_sq),
          .win_g = data_or_null<S>(s.win_g),
          .iters = s.iters.data<std::int64_t>(),
          .skips = s.skips.data<std::int64_t>()};
}

}  // namespace foldgrad
