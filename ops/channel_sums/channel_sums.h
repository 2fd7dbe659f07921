// Statistics per channel: sums over the rows of a matrix, by column. channel_norm, power_norm, rbn_penalty and
// watch_channels begin with them.
//
// x, dy: [..., C] with C >= 1, seen as rows of C channels; results are f64, on x's device, and not recorded.
#pragma once
#include "engine/tensor.h"

namespace foldgrad {

// Over the n real rows, `mean` and `square` are mean x and mean (x - mean)^2. Without a mean, `mean` is 0 and `square`
// is mean x^2.
struct ChannelMoments {
  Tensor mean, square;  // [C]
  Tensor count;         // [], n; if that is 0 the others are NaN
};

// mask: u8, one for each row, 1 = real; undefined: all rows are real.
ChannelMoments channel_moments(const Tensor& x, const Tensor& mask, bool with_mean);

// Over all rows.
struct ChannelGradientSums {
  Tensor dy, dy_x;  // [C]: sum dy and sum dy (x - mean)
};

// dy: of x's shape and dtype; mean: [C], f64 for f64 and f32 otherwise.
ChannelGradientSums channel_gradient_sums(const Tensor& dy, const Tensor& x, const Tensor& mean);

template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

}  // namespace foldgrad
