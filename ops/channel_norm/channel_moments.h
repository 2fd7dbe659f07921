// The statistics of one batch, on its device: what channel_norm, power_norm and rbn_penalty begin with.
#pragma once
#include "engine/tensor.h"

namespace foldgrad {

// f64. Over the n real positions, `mean` and `square` are mean x and mean (x - mean)^2; without a mean, which is 0
// then, `square` is mean x^2.
struct ChannelMoments {
  Tensor mean, square;  // [C]
  Tensor count;         // [], n; if that is 0 the others are NaN
};

// x: [..., C] with C >= 1; mask: u8, 1 = real, or undefined: all are.
ChannelMoments channel_moments(const Tensor& x, const Tensor& mask, bool with_mean);

template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

}  // namespace foldgrad
