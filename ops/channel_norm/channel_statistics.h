// The first half of channel_norm: the statistics of x, and the step of the state that follows from them.
#pragma once
#include <memory>
#include <optional>

#include "ops/channel_norm/channel_moments_storage.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/channel_norm/channel_norm_forward.h"

namespace foldgrad {

class ChannelStatistics {
 public:
  // Of x of like's shape, dtype and device; the others as channel_norm() takes them. Throws std::invalid_argument for
  // what does not fit. `training` false: the state says all, nothing is taken.
  ChannelStatistics(const Tensor& like, const Tensor& gamma, const Tensor* mask, const ChannelNormState& state,
                    const ChannelNormOptions& options, bool training);

  // WRITES the state. Once; throws std::logic_error the second time.
  void take(const Tensor& x);
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
