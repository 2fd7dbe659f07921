// The last step of channel_norm's backward pass, left to the operation that formed its x: that one reads and writes the
// gradient of x anyway, so that on CUDA dx is added in its kernel. The same bits, a launch and a read of a matrix less.
#pragma once
#include "ops/channel_norm/channel_moments.h"
#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {

class LateChannelGradient {
 public:
  // What ChannelGradient takes. dx is to be added to a gradient of x that is there already, before anybody reads it.
  struct Terms {
    Tensor dy, x, mean, dy_factor, offset, x_factor, mask;
  };
  void leave(Terms terms) { terms_ = std::move(terms); }
  bool left() const { return terms_.dy.defined(); }

  // Adds dx to the gradient of x, `sum.dy`, and runs the backward pass of bias_dropout_residual. Nothing is left then.
  template <class T>
  void add_and_run(const BiasDropoutResidualBackward<T>& sum, const Tensor& gradient);
  // The same without the second part.
  void add(const Tensor& gradient);

 private:
  template <class T>
  ChannelGradient<T> terms_for(const Tensor& gradient) const;

  Terms terms_;
};

}  // namespace foldgrad
