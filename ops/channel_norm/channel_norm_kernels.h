// The kernels of channel_norm over the matrix [rows, columns]. ChannelForward and ChannelBackward first compute factors
// per channel; ChannelApply and ChannelGradient apply these factors to each element.
#pragma once
#include "engine/kernels.h"
#include "ops/channel_norm/channel_norm_backward.h"

namespace foldgrad {

template <class T>
struct ChannelApply {
  static constexpr const char* kName = "channel_norm forward";
  using Value = compute_t<T>;

  T* y;
  const T *x, *beta;
  const Value *mean, *gain;  // [columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c) const {
    return gain[c] * (Value(x[i]) - mean[c]) + Value(beta[c]);  // [UN-1]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(gain), visit.column(mean), visit.column(beta));
};

template <class T>
struct ChannelGradient {
  static constexpr const char* kName = "channel_norm backward";
  using Value = compute_t<T>;

  GradOut<T> dx;
  const T *dy, *x;
  const Value* mean;  // [columns]
  ChannelCoefficients<Value> factors;
  bool corrects;  // false if dx = h * rstd, without corrections
  std::int64_t rows, columns;

  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c) const {
    const Value direct = factors.dy_factor[c] * Value(dy[i]);
    return corrects ? direct - factors.offset[c] - factors.x_factor[c] * (Value(x[i]) - mean[c]) : direct;  // [CN-2]
  }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x), visit.column(mean),
                    visit.column(factors.dy_factor), visit.column(factors.offset), visit.column(factors.x_factor));
};

FOLDGRAD_DECLARE(channel_norm, ChannelForward);

}  // namespace foldgrad
