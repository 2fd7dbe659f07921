// The formulas of optimizer.h, gradient_clipping.h and weight_average.h, one element at a time: the CPU loops and the
// CUDA kernels both call these.
#pragma once
#include <cmath>

#include "engine/dtype.h"

namespace foldgrad::optimizer_math {

// Both take 1 - beta, computed in double: 1 - 0.999f would be 1.3e-5 too large.
template <class T>
FOLDGRAD_HD T adam_first(T m, T g, T one_minus_beta1) {
  return m + one_minus_beta1 * (g - m);  // [ADAM-1]
}
template <class T>
FOLDGRAD_HD T adam_second(T v, T g, T one_minus_beta2) {
  return v + one_minus_beta2 * (g * g - v);  // [ADAM-2]
}
// Decay and step are added before p is touched: subtracted one by one, a decay below p's rounding would be lost.
template <class T>
FOLDGRAD_HD T adam_value(T p, T m, T v, T rate, T root_scale, T eps, T decay) {
  return p - (decay * p + rate * m / (std::sqrt(v) * root_scale + eps));  // [ADAM-3, ADAM-4]
}

template <class T>
FOLDGRAD_HD T sgd_gradient(T g, T p, T weight_decay) {
  return g + weight_decay * p;  // [SGD-1]
}
template <class T>
FOLDGRAD_HD T sgd_momentum(T m, T d, T momentum) {
  return momentum * m + d;  // [SGD-2]
}
template <class T>
FOLDGRAD_HD T sgd_nesterov(T m, T d, T momentum) {
  return d + momentum * m;  // [SGD-3]
}
template <class T>
FOLDGRAD_HD T sgd_value(T p, T direction, T lr) {
  return p - lr * direction;  // [SGD-4]
}

template <class T>
FOLDGRAD_HD T average(T mean, T p, T rate) {
  return mean + rate * (p - mean);  // [EMA-1, AVG-3]
}

// A NaN norm gives a NaN factor: it must not pass for a small gradient.
FOLDGRAD_HD inline double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;  // [CLIP-2]
}
FOLDGRAD_HD inline double agc_limit(double weight_norm, double clipping) {
  return clipping * (weight_norm > 1e-3 ? weight_norm : 1e-3);  // [AGC-1]
}
FOLDGRAD_HD inline double agc_factor(double gradient_norm, double limit) {
  return gradient_norm > limit ? limit / (gradient_norm > 1e-6 ? gradient_norm : 1e-6) : 1;  // [AGC-2]
}

}  // namespace foldgrad::optimizer_math
