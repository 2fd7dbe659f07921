// The passes of channel_norm over the matrix [rows, columns]. The forward pass in training is ChannelForward and
// ChannelApply, at inference ChannelForwardStep and ChannelApply, the backward pass ChannelBackward and
// ChannelGradient.
#pragma once
#include "engine/kernels.h"
#include "ops/channel_norm/channel_moments_kernels.h"
#include "ops/channel_norm/channel_norm_backward.h"
#include "ops/channel_norm/channel_norm_forward.h"
#include "ops/channel_norm/channel_sums.h"

namespace foldgrad {

template <class T>
struct ChannelApply {
  T* y;
  const T *x, *beta;
  const compute_t<T>*mean, *gain;  // [columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c) const {
    using Value = compute_t<T>;
    return gain[c] * (Value(x[i]) - mean[c]) + Value(beta[c]);  // [UN-1]
  }
};

template <class T>
struct ChannelSums {
  using Value = compute_t<T>;
  static constexpr int kSums = 2;

  const T *dy, *x;
  const Value* mean;  // [columns]
  std::int64_t rows, columns;
  double* partials;     // [blocks, kSums, columns]
  double* sums[kSums];  // of dy; of dy (x - mean)

  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&own)[kSums]) const {
    const std::int64_t i = r * columns + c;
    own[0] += Value(dy[i]);
    own[1] += Value(dy[i]) * (Value(x[i]) - mean[c]);
  }

  // For packs (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.element(dy);
    visit.element(x);
    visit.column(mean);
  }
};

// The statistics, and what follows from them.
template <class T>
struct ChannelForward {
  ChannelMomentsPass<T> moments;
  ChannelForwardStep<T> step;
};
template <class T>
struct ChannelBackward {
  ChannelSums<T> sums;
  ChannelBackwardStep<T> step;
};

template <class T>
struct ChannelGradient {
  using Value = compute_t<T>;

  GradOut<T> dx;
  const T *dy, *x;    // dy null: zero
  const Value* mean;  // [columns]
  ChannelCoefficients<Value> of;
  const std::uint8_t* mask;  // where corrections apply; null: everywhere
  std::int64_t rows, columns;

  FOLDGRAD_HD bool corrected(std::int64_t r) const { return !mask || mask[r]; }
  FOLDGRAD_HD Value of_row(std::int64_t r, std::int64_t i, std::int64_t c) const {
    return corrected(r) ? value(i, c) : direct(i, c);
  }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c) const {
    return direct(i, c) - of.offset[c] - of.x_factor[c] * (Value(x[i]) - mean[c]);  // [CN-2]
  }
  // Where nothing is corrected: h rstd.
  FOLDGRAD_HD Value direct(std::int64_t i, std::int64_t c) const {
    return dy ? of.dy_factor[c] * Value(dy[i]) : Value(0);
  }
};

FOLDGRAD_DECLARE(channel_norm, ChannelForward);
FOLDGRAD_DECLARE(channel_norm, ChannelForwardStep);
FOLDGRAD_DECLARE(channel_norm, ChannelApply);
FOLDGRAD_DECLARE(channel_norm, ChannelSums);
FOLDGRAD_DECLARE(channel_norm, ChannelBackward);
FOLDGRAD_DECLARE(channel_norm, ChannelGradient);

}  // namespace foldgrad
