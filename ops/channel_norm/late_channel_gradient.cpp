#include "ops/channel_norm/late_channel_gradient.h"

#include "engine/dispatch.h"

namespace foldgrad {

template <class T>
ChannelGradient<T> LateChannelGradient::terms_for(const Tensor& gradient) const {
  using S = compute_t<T>;
  const std::int64_t C = terms_.mean.size();
  return {.dx = {gradient.data<T>(), GradMode::add},
          .dy = terms_.dy.data<T>(),
          .x = terms_.x.data<T>(),
          .mean = terms_.mean.data<S>(),
          .of = {terms_.dy_factor.data<S>(), terms_.offset.data<S>(), terms_.x_factor.data<S>()},
          .mask = data_or_null<std::uint8_t>(terms_.mask),
          .rows = C ? terms_.x.size() / C : 0,
          .columns = C};
}

template <class T>
void LateChannelGradient::add_and_run(const BiasDropoutResidualBackward<T>& sum, const Tensor& gradient) {
  const ChannelGradientOfSum<T> both{terms_for<T>(gradient), sum};
  FOLDGRAD_RUN(gradient.device(), channel_norm, both);
  terms_ = {};
}

void LateChannelGradient::add(const Tensor& gradient) {
  dispatch_floating("channel_norm", gradient.dtype(), [&]<class T>(Type<T>) {
    const ChannelGradient<T> alone = terms_for<T>(gradient);
    FOLDGRAD_RUN(gradient.device(), channel_norm, alone);
  });
  terms_ = {};
}

template void LateChannelGradient::add_and_run(const BiasDropoutResidualBackward<float>&, const Tensor&);
template void LateChannelGradient::add_and_run(const BiasDropoutResidualBackward<double>&, const Tensor&);
template void LateChannelGradient::add_and_run(const BiasDropoutResidualBackward<bf16>&, const Tensor&);

}  // namespace foldgrad
